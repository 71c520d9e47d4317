package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// The bits of an event's flag.
const (
	evSync     = abi.EventSync
	evProgress = abi.EventCaptureStreamProgress
	evTime     = abi.EventTimeLine
	evDevice   = abi.EventDeviceUseOnly
	evExternal = abi.EventExternal
	evIPC      = abi.EventIpc
	evAll      = evSync | evProgress | evTime
)

// timedEvent, stateEvent and exEvent make events of the three kinds: the columns of the table in spec/semantics.md,
// section 7.
func (e *env) timedEvent() core.Handle {
	e.Helper()
	var h core.Handle
	e.ok(e.th.CreateEvent(&h))
	return h
}

func (e *env) stateEvent(flag uint32) core.Handle {
	e.Helper()
	var h core.Handle
	e.ok(e.th.CreateEventWithFlag(&h, flag))
	return h
}

func (e *env) exEvent(flag uint32) core.Handle {
	e.Helper()
	var h core.Handle
	e.ok(e.th.CreateEventExWithFlag(&h, flag))
	return h
}

// eventKind is one of the three ways to make an event.
type eventKind struct {
	name string
	make func(e *env) core.Handle
}

var (
	timedKind  = eventKind{"aclrtCreateEvent", (*env).timedEvent}
	stateKind  = eventKind{"aclrtCreateEventWithFlag", func(e *env) core.Handle { return e.stateEvent(evAll) }}
	exKind     = eventKind{"aclrtCreateEventExWithFlag", func(e *env) core.Handle { return e.exEvent(evAll) }}
	eventKinds = []eventKind{timedKind, stateKind, exKind}
)

// each calls f with every event; each call must end with code. It returns the last answer.
func (e *env) each(code abi.Code, events []core.Handle, f func(h core.Handle) *core.Error) (err *core.Error) {
	e.Helper()
	for i, h := range events {
		if err = f(h); codeOf(err) != code {
			e.Fatalf("event %d of %d: got %v, want %v", i, len(events), err, code)
		}
	}
	return err
}

// blames checks which argument an answer names, where codes alone do not tell rules apart.
func (e *env) blames(arg string, err *core.Error) *core.Error {
	e.Helper()
	if err == nil || err.Arg != arg {
		e.Errorf("%v: want it to blame %s", err, arg)
	}
	return err
}

// takeEvents uses up all but left of the events of device 0.
func takeEvents(e *env, left uint32) {
	e.Helper()
	for range availEvents(e) - left {
		e.stateEvent(evSync)
	}
}

// availEvents is how many events the current device has left.
func availEvents(e *env) uint32 {
	e.Helper()
	var n uint32
	e.ok(e.th.GetEventAvailNum(&n))
	return n
}

// gate holds s up, from what is queued next on, until the function returned is called. Unlike the host function of
// block it can be dropped, and several gates can be opened in any order.
func gate(e *env, s core.Handle) func() {
	e.Helper()
	return gateIn(e, e.th, s)
}

// gateIn is gate for a stream of th's context.
func gateIn(e *env, th *core.Thread, s core.Handle) func() {
	e.Helper()
	var g, from core.Handle
	e.ok(th.CreateEventWithFlag(&g, evSync))
	e.ok(th.CreateStream(&from))
	e.ok(th.StreamWaitEvent(s, g))
	return func() {
		e.Helper()
		e.ok(th.RecordEvent(g, from))
		e.ok(th.SynchronizeStream(from))
		e.ok(th.DestroyEvent(g))
		e.ok(th.DestroyStream(from))
	}
}

// gated is a new stream with a gate.
func (e *env) gated() (core.Handle, func()) {
	e.Helper()
	s := e.stream()
	return s, gate(e, s)
}

func (e *env) record(h, s core.Handle) {
	e.Helper()
	e.ok(e.th.RecordEvent(h, s))
}

// held fails the test unless the stream is held up, now and after a moment.
func (e *env) held(s core.Handle) {
	e.Helper()
	e.want(e.th.SynchronizeStreamWithTimeout(s, 15), abi.ErrRTStreamSyncTimeout)
}

// passes fails the test unless the stream comes to its end without an error.
func (e *env) passes(s core.Handle) {
	e.Helper()
	e.ok(e.th.SynchronizeStreamWithTimeout(s, 10_000))
}

// complete asks for the status of the latest record.
func complete(e *env, h core.Handle) bool {
	e.Helper()
	status := abi.EventRecordedStatus(77)
	e.ok(e.th.QueryEventStatus(h, &status))
	switch status {
	case abi.EventRecordedStatusNotReady:
		return false
	case abi.EventRecordedStatusComplete:
		return true
	}
	e.Fatalf("status %d", status)
	return false
}

// oldComplete asks the same with the old query.
func oldComplete(e *env, h core.Handle) bool {
	e.Helper()
	status := abi.EventStatus(77)
	e.ok(e.th.QueryEvent(h, &status))
	switch status {
	case abi.EventStatusNotReady:
		return false
	case abi.EventStatusComplete:
		return true
	}
	e.Fatalf("status %d", status)
	return false
}

// queues reports whether call puts a task on s: it is made between two marks that are numbered.
func queues(e *env, s core.Handle, call func() *core.Error) bool {
	e.Helper()
	mark := e.exEvent(evProgress)
	var before, after uint32
	e.record(mark, s)
	e.ok(e.th.GetThreadLastTaskId(&before))
	e.ok(call())
	e.record(mark, s)
	e.ok(e.th.GetThreadLastTaskId(&after))
	e.ok(e.th.DestroyEvent(mark))
	return after-before > 1
}
