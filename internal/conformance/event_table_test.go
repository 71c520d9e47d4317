package conformance

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// eventRows are the rows of the table in spec/semantics.md, section 7, each with what every kind does. "inside a
// capture" waits for captures.
var eventRows = []struct {
	row              string
	timed, state, ex func(e *env, h core.Handle)
}{
	{"hardware id", idAtRecord, idAtCreation, idAtRecord},
	{
		"stream wait, never recorded",
		func(e *env, h core.Handle) { e.want(e.th.StreamWaitEvent(e.stream(), h), abi.ErrRTParamInvalid) },
		func(e *env, h core.Handle) {
			s := e.stream()
			isQueued(e, true, s, h)
			e.held(s)
			e.record(h, 0)
			e.passes(s)
		},
		func(e *env, h core.Handle) { isQueued(e, false, e.stream(), h) },
	},
	{
		"stream wait, record already done",
		func(e *env, h core.Handle) { passedBefore(e, h) },
		func(e *env, h core.Handle) {
			s := e.stream()
			isQueued(e, true, s, doneEvent(e, h))
			e.passes(s)
		},
		func(e *env, h core.Handle) { passedBefore(e, h) },
	},
	{
		"stream wait, recorded on the same stream",
		func(e *env, h core.Handle) { sameStream(e, true, h) },
		func(e *env, h core.Handle) { sameStream(e, true, h) },
		func(e *env, h core.Handle) { sameStream(e, false, h) },
	},
	{"wait refers to", waitIsForRecord, waitIsForState, waitIsForRecord},
	{"aclrtResetEvent", resetTimed, resetState, func(e *env, h core.Handle) {
		e.want(e.th.ResetEvent(h, 0), abi.ErrRTFeatureNotSupport)
		e.want(e.th.ResetEvent(doneEvent(e, h), 0), abi.ErrRTFeatureNotSupport)
	}},
	{"aclrtQueryEvent (old)", oldQuery, oldQuery, func(e *env, h core.Handle) {
		var status abi.EventStatus
		e.want(e.th.QueryEvent(underWay(e, h), &status), abi.ErrRTFeatureNotSupport)
	}},
	{"aclrtQueryEvent (old), never recorded", oldQueryNever, oldQueryNever, func(e *env, h core.Handle) {
		var status abi.EventStatus
		e.want(e.th.QueryEvent(h, &status), abi.ErrRTFeatureNotSupport)
	}},
	{"aclrtQueryEventWaitStatus", waitQuery, waitQuery, func(e *env, h core.Handle) {
		var status abi.EventWaitStatus
		e.want(e.th.QueryEventWaitStatus(h, &status), abi.ErrRTFeatureNotSupport)
	}},
	{
		"aclrtQueryEventStatus, never recorded",
		func(e *env, h core.Handle) { status(e, h, abi.EventRecordedStatusNotReady) },
		func(e *env, h core.Handle) { status(e, h, abi.EventRecordedStatusNotReady) },
		func(e *env, h core.Handle) { status(e, h, abi.EventRecordedStatusComplete) },
	},
}

// TestEventTable is every cell of the table.
func TestEventTable(t *testing.T) {
	for _, r := range eventRows {
		for i, f := range []func(*env, core.Handle){r.timed, r.state, r.ex} {
			t.Run(r.row+"/"+eventKinds[i].name, func(t *testing.T) {
				e := newEnv(t, machine{})
				f(e, eventKinds[i].make(e))
			})
		}
	}
}

func status(e *env, h core.Handle, want abi.EventRecordedStatus) {
	e.Helper()
	got := abi.EventRecordedStatus(77)
	e.ok(e.th.QueryEventStatus(h, &got))
	if got != want {
		e.Errorf("status %d, want %d", got, want)
	}
}

// passedBefore checks that a wait for h, whose record is over, is no task.
func passedBefore(e *env, h core.Handle) {
	e.Helper()
	countsOnHaste(e)
	isQueued(e, false, e.stream(), doneEvent(e, h))
}

// isQueued checks whether a wait for h becomes a task of s.
func isQueued(e *env, want bool, s, h core.Handle) {
	e.Helper()
	if got := queues(e, s, func() *core.Error { return e.th.StreamWaitEvent(s, h) }); got != want {
		e.Errorf("the wait was queued: %v, want %v", got, want)
	}
}

func idAtRecord(e *env, h core.Handle) {
	var id uint32
	e.want(e.th.GetEventID(h, &id), abi.ErrRTInternalError)
	underWay(e, h) // it is there before the record is done
	e.ok(e.th.GetEventID(h, &id))
}

func idAtCreation(e *env, h core.Handle) {
	var first, then uint32
	e.ok(e.th.GetEventID(h, &first))
	doneEvent(e, h)
	e.ok(e.th.GetEventID(h, &then))
	if first != then {
		e.Errorf("id %d became %d", first, then)
	}
}

func sameStream(e *env, queued bool, h core.Handle) {
	e.Helper()
	s, open := e.gated()
	e.record(h, s)
	isQueued(e, queued, s, h)
	open()
	e.passes(s)
}

// waitIsForRecord: a wait is for the latest record at the call, whatever is recorded later.
func waitIsForRecord(e *env, h core.Handle) {
	a, openA := e.gated()
	b, openB := e.gated()
	first, second := e.stream(), e.stream()
	e.record(h, a)
	e.ok(e.th.StreamWaitEvent(first, h))
	e.record(h, b)
	e.ok(e.th.StreamWaitEvent(second, h))
	openB()
	e.passes(second) // the second record lets its own waiter go
	e.held(first)    // and not that of the first
	e.ok(e.th.SynchronizeEvent(h))
	openA()
	e.passes(first)
}

// waitIsForState: a wait looks at a state, which any record sets and which stays set.
func waitIsForState(e *env, h core.Handle) {
	a, openA := e.gated()
	b, openB := e.gated()
	first := e.stream()
	e.record(h, a)
	e.ok(e.th.StreamWaitEvent(first, h))
	e.record(h, b)
	openB()
	e.passes(first) // whichever record comes first
	for range 3 {
		e.ok(e.th.StreamWaitEvent(first, h)) // set until it is reset
		e.passes(first)
	}
	openA()
	e.passes(a)
}

func resetTimed(e *env, h core.Handle) {
	e.ok(e.th.ResetEvent(h, 0)) // never recorded: allowed
	a, open := e.gated()
	b := e.stream()
	e.record(h, a)
	e.ok(e.th.StreamWaitEvent(b, h))
	e.ok(e.th.ResetEvent(h, a))
	if complete(e, h) || oldComplete(e, h) {
		e.Error("the reset did not wait for its turn")
	}
	open()
	e.passes(a)
	e.passes(b) // a wait queued before the reset is for the record
	status(e, h, abi.EventRecordedStatusNotReady)
	e.ok(e.th.SynchronizeEvent(h))
	e.want(e.th.StreamWaitEvent(b, h), abi.ErrRTParamInvalid)
	e.record(h, a)
	e.ok(e.th.StreamWaitEvent(b, h))
	e.passes(b)
}

func resetState(e *env, h core.Handle) {
	a, b := e.stream(), e.stream()
	for range 3 { // record, wait, reset: the life of a state event
		e.record(h, a)
		e.ok(e.th.StreamWaitEvent(b, h))
		e.ok(e.th.ResetEvent(h, b))
		e.passes(b)
		status(e, h, abi.EventRecordedStatusNotReady)
		e.ok(e.th.SynchronizeEvent(h))
		e.ok(e.th.StreamWaitEvent(b, h))
		e.held(b) // blocks again
		e.record(h, a)
		e.passes(b)
		e.ok(e.th.ResetEvent(h, b))
		e.passes(b)
	}
	// A record queued after the reset is not forgotten.
	s, open := e.gated()
	e.ok(e.th.ResetEvent(h, s))
	e.record(h, s)
	open()
	e.passes(s)
	status(e, h, abi.EventRecordedStatusComplete)
	e.ok(e.th.StreamWaitEvent(b, h))
	e.passes(b)
}

func oldQuery(e *env, h core.Handle) {
	s, open := e.gated()
	e.record(h, s)
	if oldComplete(e, h) {
		e.Error("COMPLETE before the record")
	}
	open()
	e.passes(s)
	if !oldComplete(e, h) {
		e.Error("NOT_READY after the record")
	}
}

func oldQueryNever(e *env, h core.Handle) {
	if !oldComplete(e, h) {
		e.Error("NOT_READY")
	}
}

func waitQuery(e *env, h core.Handle) {
	waitStatus(e, h, 0)
	a, open := e.gated()
	e.record(h, a)
	b := e.stream()
	e.ok(e.th.StreamWaitEvent(b, h))
	waitStatus(e, h, 1)
	open()
	e.passes(b)
	waitStatus(e, h, 0)
}

// TestEventLatestRecord: a second record replaces the first for queries, host waits and times, whichever runs first.
func TestEventLatestRecord(t *testing.T) {
	for _, k := range eventKinds {
		t.Run(k.name, func(t *testing.T) {
			e := newEnv(t, machine{})
			h := doneEvent(e, k.make(e))
			first := timestamp(e, h)
			a, openA := e.gated()
			e.record(h, a)
			status(e, h, abi.EventRecordedStatusNotReady) // it was done; now it is not
			b, openB := e.gated()
			e.record(h, b)
			openA()
			e.passes(a)
			status(e, h, abi.EventRecordedStatusNotReady)
			if k.name != exKind.name && oldComplete(e, h) {
				t.Error("the old query means the first record")
			}
			var us uint64
			e.want(e.th.EventGetTimestamp(h, &us), abi.ErrRTEventTimestampInvalid)
			e.want(e.th.SynchronizeEventWithTimeout(h, 10), abi.ErrRTEventSyncTimeout)
			openB()
			e.ok(e.th.SynchronizeEvent(h))
			status(e, h, abi.EventRecordedStatusComplete)
			second := timestamp(e, h)

			// And when the second is done first, it is the one that counts.
			a, openA = e.gated()
			e.record(h, a)
			doneEvent(e, h)
			status(e, h, abi.EventRecordedStatusComplete)
			e.ok(e.th.SynchronizeEvent(h))
			third := timestamp(e, h)
			openA()
			e.passes(a)
			if last := timestamp(e, h); first > second || second > third || last != third {
				t.Errorf("times %d, %d, %d; after the older record ran %d", first, second, third, last)
			}
		})
	}
}

// TestEventAcrossDevices: 950, A3 and A2 wait for events of other devices; on the others such a wait is left out.
func TestEventAcrossDevices(t *testing.T) {
	for product, waits := range map[string]bool{"950": true, "A3": true, "A2": true, "310B": false, "310P": false,
		"910": false, "310": false} {
		for _, k := range eventKinds {
			t.Run(product+"/"+k.name, func(t *testing.T) {
				e := newEnv(t, machine{product: product})
				s := e.stream()
				h := k.make(e)
				from, open := e.gated()
				e.record(h, from)
				o := &env{T: t, rt: e.rt, th: e.rt.NewThread(5)} // the same process on another device
				o.ok(o.th.SetDevice(1))
				there := o.stream()
				isQueued(o, waits, there, h)
				if waits {
					o.held(there)
				} else {
					o.passes(there)
				}
				e.ok(e.th.StreamWaitEvent(s, h)) // at home it works everywhere
				e.held(s)
				e.want(o.th.SynchronizeEventWithTimeout(h, 10), abi.ErrRTEventSyncTimeout) // and so do host waits
				open()
				o.passes(there)
				e.passes(s)
				o.ok(o.th.SynchronizeEvent(h))
			})
		}
	}
}
