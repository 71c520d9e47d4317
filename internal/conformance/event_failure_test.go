package conformance

import (
	"strings"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
)

// limitedWait is a way to queue a wait, and whether it is over after a second.
type limitedWait struct {
	what  string
	queue func(th *core.Thread, s, h core.Handle) *core.Error
	over  bool
}

// limitedWaits lists them for a product. After the first of them aclrtSetOpWaitTimeout says one second.
func limitedWaits(product string) []limitedWait {
	limit := func(n int32) func(*core.Thread, core.Handle, core.Handle) *core.Error {
		return func(th *core.Thread, s, h core.Handle) *core.Error { return th.StreamWaitEventWithTimeout(s, h, n) }
	}
	flag := func(n uint32) func(*core.Thread, core.Handle, core.Handle) *core.Error {
		return func(th *core.Thread, s, h core.Handle) *core.Error { return th.StreamWaitEventWithFlag(s, h, n, 0) }
	}
	own := product == "A2" || product == "310B" // the others do not know a limit of a single wait
	list := []limitedWait{
		{"aclrtStreamWaitEvent, before aclrtSetOpWaitTimeout", waitPlain, false},
		{"aclrtStreamWaitEvent", waitPlain, product != "310P" && product != "310"},
		{"aclrtStreamWaitEventWithTimeout 1", limit(1), own},
		{"aclrtStreamWaitEventWithTimeout 0", limit(0), false}, // it has a limit of its own: none
		{"aclrtStreamWaitEventWithTimeout 100", limit(100), false},
	}
	if product == "A2" {
		list = append(list, limitedWait{"aclrtStreamWaitEventWithFlag 1", flag(1), true},
			limitedWait{"aclrtStreamWaitEventWithFlag 0", flag(0), false})
	}
	return list
}

// TestEventWaitTimeout: a wait that takes too long fails with 107020 at synchronisation, and the stream goes on. All
// cases wait during the same second.
func TestEventWaitTimeout(t *testing.T) {
	t.Parallel()
	type held struct {
		*env
		limitedWait
		what     string
		event, s core.Handle
		copied   core.Addr
	}
	var list []held
	var open []func()
	start := time.Now()
	for _, product := range []string{"A2", "310B", "910", "310P", "310"} {
		e := newEnv(t, machine{product: product})
		from, release := e.blocked()
		open = append(open, release)
		ones := e.pinned(64)
		bytes(ones, 64)[5] = 1
		for i, w := range limitedWaits(product) {
			if i == 1 { // the first wait was queued before, and has no limit
				if err := e.th.SetOpWaitTimeout(1); err != nil && product != "310P" && product != "310" {
					t.Fatal(err)
				}
			}
			for _, k := range eventKinds {
				h := held{e, w, product + ": " + w.what + ", " + k.name, k.make(e), e.stream(), e.device(64)}
				e.ok(transfer.Memset(e.th, h.copied, 64, 0, 64))
				e.record(h.event, from)
				e.ok(w.queue(e.th, h.s, h.event))
				e.ok(transfer.MemcpyAsync(e.th, h.copied, 64, ones, 64, abi.MemcpyHostToDevice, h.s))
				list = append(list, h)
			}
		}
	}
	for _, h := range list {
		if !h.over {
			continue
		}
		if err := h.th.SynchronizeStreamWithTimeout(h.s, 60_000); codeOf(err) != abi.ErrRTTaskTimeout ||
			time.Since(start) < time.Second {
			t.Errorf("%s: %v after %v, want a timeout after a second", h.what, err, time.Since(start))
		}
		h.passes(h.s) // it is reported once
		if b := h.read(h.copied, 64); b[5] != 1 {
			t.Errorf("%s: the stream did not go on", h.what)
		}
	}
	for _, h := range list {
		if !h.over && !isUnfinished(h.env, h.s) {
			t.Errorf("%s: over, but there is no limit", h.what)
		}
	}
	for _, release := range open {
		release()
	}
	for _, h := range list {
		h.passes(h.s)
		h.ok(h.th.SynchronizeEvent(h.event))
	}
}

// isUnfinished asks whether the stream has something left to do.
func isUnfinished(e *env, s core.Handle) bool {
	e.Helper()
	var status abi.StreamStatus
	e.ok(e.th.StreamQuery(s, &status))
	return status == abi.StreamStatusNotReady
}

// drops are the ways a queued record can be lost, with what a thread gets that waits for the event.
var drops = []struct {
	name string
	drop func(e *env, s core.Handle)
	code abi.Code // of waits for the event
}{
	{"aclrtStreamAbort", func(e *env, s core.Handle) { e.ok(e.th.StreamAbort(s)) }, abi.ErrRTStreamAbort},
	{"aclrtStreamStop", func(e *env, s core.Handle) { e.ok(e.th.StreamStop(s)) }, abi.ErrRTStreamAbort},
	{"aclrtDestroyStreamForce", func(e *env, s core.Handle) { e.ok(e.th.DestroyStreamForce(s)) }, abi.ErrRTStreamAbort},
	{"aclrtDeviceTaskAbort", func(e *env, s core.Handle) { e.ok(e.th.DeviceTaskAbort(0, 0)) },
		abi.ErrRTDeviceTaskAbort},
}

// TestEventDropped: a wait for a record that was dropped fails and does not last for ever.
func TestEventDropped(t *testing.T) {
	for _, d := range drops {
		for _, k := range eventKinds {
			t.Run(d.name+"/"+k.name, func(t *testing.T) {
				e := newEnv(t, machine{})
				h := k.make(e)
				s, _ := e.gated()
				e.record(h, s)
				o := &env{T: t, rt: e.rt, th: e.rt.NewThread(5)} // waits on another device, which is not aborted
				o.ok(o.th.SetDevice(1))
				there := o.stream()
				o.ok(o.th.StreamWaitEvent(there, h))
				o.held(there)
				e.want(e.waits(func() { d.drop(e, s) }, func() *core.Error { return e.stranger().SynchronizeEvent(h) }),
					d.code)

				// Later queries of the event return the same.
				e.want(e.stranger().SynchronizeEventWithTimeout(h, 1000), d.code)
				var recorded abi.EventRecordedStatus
				e.want(e.th.QueryEventStatus(h, &recorded), d.code)
				var old abi.EventStatus
				if k.name != exKind.name {
					e.want(e.th.QueryEvent(h, &old), d.code)
				}
				var us uint64
				err := e.th.EventGetTimestamp(h, &us)
				e.want(err, abi.ErrRTEventTimestampInvalid)
				if !strings.Contains(err.Text, "dropped") {
					t.Errorf("%v: it does not say why", err)
				}

				if k.name == stateKind.name { // a state can still be set by another record
					o.held(there)
				} else {
					o.want(o.th.SynchronizeStreamWithTimeout(there, 10_000), d.code)
					o.ok(o.th.StreamWaitEvent(there, h)) // and so for waits that come later
					o.want(o.th.SynchronizeStreamWithTimeout(there, 10_000), d.code)
				}
				doneEvent(e, h) // the next record makes all well
				status(e, h, abi.EventRecordedStatusComplete)
				e.ok(e.th.SynchronizeEvent(h))
				o.passes(there)
				o.ok(o.th.StreamWaitEvent(there, h))
				o.passes(there)
			})
		}
	}
}

// TestEventDroppedByStop: a failure that stops the context drops the record; the waiter gets the failure's code, also
// when the event is of another context.
func TestEventDroppedByStop(t *testing.T) {
	for _, k := range eventKinds {
		t.Run(k.name, func(t *testing.T) {
			e := newEnv(t, machine{})
			o := &env{T: t, rt: e.rt, th: e.rt.NewThread(5)}
			var c core.Handle
			o.ok(o.th.CreateContext(&c, 0))
			own, foreign := k.make(e), k.make(o)
			s := e.stream()
			e.ok(e.th.SetStreamFailureMode(s, 1))
			open := e.block(s)
			failTask(e, s)
			e.record(own, s)
			e.record(foreign, s)
			e.want(e.waits(open, func() *core.Error { return e.stranger().SynchronizeEvent(foreign) }), injected)
			e.want(e.stranger().SynchronizeEvent(own), injected)
		})
	}
}

// TestEventRefused: records, resets and waits are refused while the device aborts and after a failure stopped the
// context, and leave nothing behind.
func TestEventRefused(t *testing.T) {
	calls := map[string]func(e *env, h core.Handle) *core.Error{
		"aclrtRecordEvent":     func(e *env, h core.Handle) *core.Error { return e.th.RecordEvent(h, 0) },
		"aclrtResetEvent":      func(e *env, h core.Handle) *core.Error { return e.th.ResetEvent(h, 0) },
		"aclrtStreamWaitEvent": func(e *env, h core.Handle) *core.Error { return e.th.StreamWaitEvent(0, h) },
	}
	for name, call := range calls {
		for _, k := range eventKinds {
			if k.name == exKind.name && name == "aclrtResetEvent" {
				continue
			}
			t.Run(name+"/"+k.name, func(t *testing.T) {
				e := newEnv(t, machine{})
				all := availEvents(e)
				h := doneEvent(e, k.make(e))
				e.want(e.whileAborting(func() *core.Error { return call(e, h) }), abi.ErrRTDeviceTaskAbort)
				doneEvent(e, h)
				s := e.stream()
				e.ok(e.th.SetStreamFailureMode(s, 1))
				failTask(e, s)
				e.want(e.th.SynchronizeStream(s), injected)
				e.want(call(e, h), injected)
				e.ok(e.th.DestroyEvent(h))
				if n := availEvents(e); n != all {
					t.Errorf("%d of %d events are left", n, all)
				}
			})
		}
	}
}

// TestEventGone: after aclrtDestroyEvent every call returns 107017, whatever is still queued.
func TestEventGone(t *testing.T) {
	e := newEnv(t, machine{})
	for _, k := range eventKinds {
		h := k.make(e)
		s, open := e.gated()
		e.record(h, s)
		b := e.stream()
		e.ok(e.th.StreamWaitEvent(b, h))
		e.ok(e.th.DestroyEvent(h))
		for _, call := range []func() *core.Error{
			func() *core.Error { return e.th.RecordEvent(h, s) },
			func() *core.Error { return e.th.ResetEvent(h, s) },
			func() *core.Error { return e.th.StreamWaitEvent(s, h) },
			func() *core.Error { return e.th.SynchronizeEvent(h) },
			func() *core.Error { return e.th.SynchronizeEventWithTimeout(h, 1) },
			func() *core.Error { return e.th.QueryEventStatus(h, new(abi.EventRecordedStatus)) },
			func() *core.Error { return e.th.EventGetTimestamp(h, new(uint64)) },
			func() *core.Error { return e.th.GetEventID(h, new(uint32)) },
			func() *core.Error { return e.th.DestroyEvent(h) },
		} {
			e.want(call(), abi.ErrRTInvalidHandle)
		}
		e.held(b) // what is queued still holds
		open()
		e.passes(b)
		e.passes(s)
	}
}

// TestEventAfterContext: an event outlives the context it was made in, and its handle can be destroyed.
func TestEventAfterContext(t *testing.T) {
	e := newEnv(t, machine{})
	for _, k := range eventKinds {
		o := &env{T: t, rt: e.rt, th: e.rt.NewThread(5)}
		var c core.Handle
		o.ok(o.th.CreateContext(&c, 0))
		queued, done := k.make(o), doneEvent(o, k.make(o))
		s, _ := o.gated()
		o.record(queued, s)
		e.want(e.waits(func() { o.ok(o.th.DestroyContext(c)) },
			func() *core.Error { return e.th.SynchronizeEvent(queued) }), abi.ErrRTStreamAbort)
		e.ok(e.th.SynchronizeEvent(done))
		status(e, done, abi.EventRecordedStatusComplete)
		doneEvent(e, queued)
		e.ok(e.th.SynchronizeEvent(queued))
		e.ok(e.th.DestroyEvent(queued))
		e.ok(e.th.DestroyEvent(done))

		o = &env{T: t, rt: e.rt, th: e.rt.NewThread(6)} // and even its device
		o.ok(o.th.SetDevice(1))
		done = doneEvent(o, k.make(o))
		o.ok(o.th.ResetDevice(1))
		e.ok(e.th.SynchronizeEvent(done))
		timestamp(e, done)
		doneEvent(e, done)
		e.ok(e.th.DestroyEvent(done))
	}
}

// TestEventCancel: a caller of the Go API may stop waiting.
func TestEventCancel(t *testing.T) {
	e := newEnv(t, machine{})
	for _, k := range eventKinds {
		h := k.make(e)
		s, open := e.gated()
		e.record(h, s)
		cancel := make(chan struct{})
		limit := core.WaitLimit{Cancel: cancel}
		err := e.waits(func() { close(cancel) }, func() *core.Error { return e.th.SynchronizeEventWithin(h, limit) })
		e.want(e.blames("event", err), abi.ErrRTEventSyncTimeout) // not a timeout, which was not given
		open()
		e.ok(e.th.SynchronizeEvent(h))
		e.ok(e.th.SynchronizeEventWithin(h, limit)) // done is done
	}
}
