package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/signal"
)

// Proofs of events that processes share. Here one process is both.

func init() {
	behaves("aclrtIpcGetEventHandle", func(e *env) {
		var first, again, other abi.IpcEventHandle
		event := e.exEvent(evIPC)
		e.ok(signal.IpcGetEventHandle(e.stranger(), event, &first)) // without a context
		e.ok(signal.IpcGetEventHandle(e.th, event, &again))
		e.ok(signal.IpcGetEventHandle(e.th, e.exEvent(evIPC), &other))
		if first != again || first == other {
			e.Errorf("the same event: %v, another one: %v", first == again, first == other)
		}
	})

	prove("aclrtIpcOpenEventHandle", "handle-invalid", func(e *env) *core.Error {
		event, good := e.exEvent(evIPC), abi.IpcEventHandle{}
		e.ok(signal.IpcGetEventHandle(e.th, event, &good))
		guessed, o := good, garbage
		for i := range guessed.Reserved[:20] {
			guessed.Reserved[i] ^= 0x55
		}
		e.want(signal.IpcOpenEventHandle(e.th, guessed, &o), abi.ErrRTParamInvalid)
		e.ok(e.th.DestroyEvent(event))
		e.want(signal.IpcOpenEventHandle(e.th, good, &o), abi.ErrRTParamInvalid) // it went with the event
		err := signal.IpcOpenEventHandle(e.th, abi.IpcEventHandle{}, &o)
		if o != garbage {
			e.Error("the handle was written")
		}
		return err
	})
	behaves("aclrtIpcOpenEventHandle", openedEvents)
}

// open is another handle of an IPC event.
func open(e *env, event core.Handle) (o core.Handle) {
	e.Helper()
	var h abi.IpcEventHandle
	e.ok(signal.IpcGetEventHandle(e.th, event, &h))
	e.ok(signal.IpcOpenEventHandle(e.th, h, &o))
	return o
}

// openedEvents is what an opened event does: whichever process records it, all waits mean the latest record.
func openedEvents(e *env) {
	made := e.exEvent(evIPC)
	opened := open(e, made)
	if !complete(e, opened) || !complete(e, made) {
		e.Error("never recorded, but not complete")
	}
	e.ok(e.th.SynchronizeEvent(opened))
	for _, pair := range [][2]core.Handle{{made, opened}, {opened, made}, {opened, opened}} {
		record, wait := pair[0], pair[1]
		a, open := e.gated()
		b := e.stream()
		e.record(record, a)
		e.ok(e.th.StreamWaitEvent(b, wait))
		e.held(b)
		if complete(e, wait) || complete(e, record) {
			e.Error("complete before its stream came there")
		}
		e.want(e.th.SynchronizeEventWithTimeout(wait, 15), abi.ErrRTEventSyncTimeout)
		// A wait that is queued for an earlier record is not held up by a later one, and a later one does not let it
		// go.
		late, openLate := e.gated()
		e.record(wait, late)
		c := e.stream()
		e.ok(e.th.StreamWaitEvent(c, record))
		open()
		e.passes(b)
		e.held(c)
		openLate()
		e.passes(c)
		e.ok(e.th.SynchronizeEvent(wait))
		if !complete(e, wait) || !complete(e, record) {
			e.Error("not complete")
		}
	}

	a, open := e.gated() // a record that overtakes another one lets the wait for the other one wait
	b, c := e.stream(), e.stream()
	e.record(made, a)
	e.ok(e.th.StreamWaitEvent(b, opened))
	e.record(opened, c)
	e.passes(c)
	e.held(b)
	if !complete(e, made) {
		e.Error("the latest record is done")
	}
	open()
	e.passes(b)

	a, _ = e.gated() // a record that is dropped lets waits go, and is reported
	e.record(made, a)
	e.ok(e.th.StreamWaitEvent(b, opened))
	e.held(b)
	e.ok(e.th.StreamAbort(a))
	e.passes(b)
	var status abi.EventRecordedStatus
	e.want(e.th.QueryEventStatus(opened, &status), abi.ErrRTStreamAbort)
	e.want(e.th.SynchronizeEvent(opened), abi.ErrRTStreamAbort)

	a, open = e.gated() // the event outlives the exporter's handle, and tasks outlive both
	e.record(made, a)
	e.ok(e.th.StreamWaitEvent(b, opened))
	e.ok(e.th.DestroyEvent(made))
	e.held(b)
	e.ok(e.th.DestroyEvent(opened))
	open()
	e.passes(b)

	made = e.exEvent(evIPC) // there is room for so many records that are not over
	a, open = e.gated()
	for range 128 {
		e.record(made, a)
	}
	e.want(e.th.RecordEvent(made, a), abi.ErrRTNoEventResource)
	open()
	e.passes(a)
	e.record(made, a)
	e.ok(e.th.SynchronizeEvent(made))
}
