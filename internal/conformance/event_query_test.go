package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
)

// Proofs of the questions a program asks about events, and of its own waits for them.

func init() {
	behaves("aclrtQueryEvent", func(e *env) {
		for _, k := range []eventKind{timedKind, stateKind} {
			h := k.make(e)
			if !oldComplete(e, h) {
				e.Errorf("%s: never recorded is not complete", k.name)
			}
			s, open := e.gated()
			e.record(h, s)
			if oldComplete(e, h) {
				e.Errorf("%s: complete while a record is under way", k.name)
			}
			var got abi.EventStatus
			e.ok(e.stranger().QueryEvent(h, &got)) // no context is needed
			if got != 1 {
				e.Errorf("%s: NOT_READY is %d", k.name, got)
			}
			open()
			e.passes(s)
			if !oldComplete(e, h) {
				e.Errorf("%s: not complete after the record", k.name)
			}
		}
	})

	behaves("aclrtQueryEventStatus", func(e *env) {
		list := append(eventKinds[:len(eventKinds):len(eventKinds)],
			eventKind{"IPC", func(e *env) core.Handle { return e.exEvent(evIPC) }})
		for _, k := range list {
			h := k.make(e)
			s, open := e.gated()
			e.record(h, s)
			var got abi.EventRecordedStatus = 77
			e.ok(e.stranger().QueryEventStatus(h, &got)) // no context is needed
			if got != 0 {
				e.Errorf("%s: NOT_READY is %d", k.name, got)
			}
			open()
			e.passes(s)
			e.ok(e.stranger().QueryEventStatus(h, &got))
			if got != 1 {
				e.Errorf("%s: COMPLETE is %d", k.name, got)
			}
		}
	})

	behaves("aclrtQueryEventWaitStatus", func(e *env) {
		for _, k := range []eventKind{timedKind, stateKind} {
			h := k.make(e)
			a, open := e.gated()
			e.record(h, a)
			waitStatus(e, h, 0) // a record is no wait
			b, openB := e.gated()
			c := e.stream()
			e.ok(e.th.StreamWaitEvent(b, h))
			e.ok(e.th.StreamWaitEvent(c, h))
			waitStatus(e, h, 1)
			open()
			e.passes(c)
			waitStatus(e, h, 1) // b has not come to its wait
			openB()
			e.passes(b)
			waitStatus(e, h, 0)
		}
	})
}

// waitStatus checks aclrtQueryEventWaitStatus: 0 is COMPLETE, 1 NOT_READY. A stranger may ask.
func waitStatus(e *env, h core.Handle, want abi.EventWaitStatus) {
	e.Helper()
	got := abi.EventWaitStatus(77)
	e.ok(e.stranger().QueryEventWaitStatus(h, &got))
	if got != want {
		e.Errorf("wait status %d, want %d", got, want)
	}
}

// syncCall is one of the two host waits, without a limit.
type syncCall func(th *core.Thread, event core.Handle) *core.Error

func syncPlain(th *core.Thread, event core.Handle) *core.Error { return th.SynchronizeEvent(event) }

func syncTimeout(th *core.Thread, event core.Handle) *core.Error {
	return th.SynchronizeEventWithTimeout(event, -1)
}

// injected is the code tasks are made to fail with here: nothing else gives it.
const injected = abi.ErrRTAicoreException

// failTask makes the next copy of e's devices fail when it runs, and queues it on s.
func failTask(e *env, s core.Handle) {
	e.Helper()
	p := e.pinned(64)
	e.faults.Fail(faulty.Task, 1, faulty.Code(injected))
	e.ok(transfer.MemcpyAsync(e.th, e.device(64), 64, p, 64, abi.MemcpyHostToDevice, s))
}

// ownContext proves that the context an event was made in counts, whichever thread asks, and even if the event is done.
func (w syncCall) ownContext(e *env) *core.Error {
	for _, k := range eventKinds {
		never, done := k.make(e), k.make(e)
		e.record(done, 0)
		e.passes(0)
		for _, h := range []core.Handle{never, done} {
			e.want(e.whileAborting(func() *core.Error { return w(e.stranger(), h) }), abi.ErrRTDeviceTaskAbort)
			e.ok(w(e.stranger(), h))
		}
	}

	o := e.on(machine{})
	h, s := o.timedEvent(), o.stream()
	o.record(h, s)
	var other, c core.Handle // of another context of the device, which goes on
	th := o.rt.NewThread(6)
	o.ok(th.CreateContext(&c, 0))
	o.ok(th.CreateEvent(&other))
	o.ok(o.th.SetStreamFailureMode(s, 1))
	failTask(o, s)
	o.want(o.th.SynchronizeStream(s), injected)
	o.want(w(o.stranger(), h), injected)
	o.want(w(th, h), injected)
	o.ok(w(o.th, other))

	o = e.on(machine{})
	h = o.timedEvent()
	o.faults.Lose(1)
	o.ok(w(o.th, h))
	o.faults.Lose(0)
	err := w(o.stranger(), h)
	o.want(err, abi.ErrRTLostHeartbeat)
	return err
}

// waits checks that a host wait lasts until the latest record is done, for all kinds, and needs no context.
func (w syncCall) waits(e *env) {
	e.Helper()
	for _, k := range eventKinds {
		h := k.make(e)
		e.ok(w(e.stranger(), h)) // never recorded: at once
		s, open := e.gated()
		e.record(h, s)
		e.ok(e.waits(open, func() *core.Error { return w(e.stranger(), h) }))
		if !complete(e, h) {
			e.Errorf("%s: not done after it was waited for", k.name)
		}
	}
	h := e.stateEvent(evProgress) // SYNC is for streams
	s, open := e.gated()
	e.record(h, s)
	e.ok(e.waits(open, func() *core.Error { return w(e.stranger(), h) }))
}

func init() {
	prove("aclrtSynchronizeEvent", "context-stopped", syncCall(syncPlain).ownContext)
	prove("aclrtSynchronizeEvent", "task-failed", func(e *env) *core.Error {
		for _, k := range eventKinds {
			early, h, s := k.make(e), k.make(e), e.stream()
			e.record(early, s)
			failTask(e, s)
			e.record(h, s)
			e.ok(e.th.SynchronizeEvent(early)) // the failure came behind it
			err := e.th.SynchronizeEvent(h)
			e.want(err, injected)
			e.want(e.stranger().SynchronizeEvent(h), injected)
			e.want(e.th.SynchronizeStream(s), injected) // the stream still reports it, once
			e.ok(e.th.SynchronizeStream(s))
			e.ok(e.th.SynchronizeEvent(h))
		}
		h, s := e.timedEvent(), e.stream()
		failTask(e, s)
		e.record(h, s)
		return e.th.SynchronizeEvent(h)
	})
	behaves("aclrtSynchronizeEvent", func(e *env) {
		syncCall(syncPlain).waits(e)
		const n = 24 << 20 // a copy for all hands
		src, dst, back := e.pinned(n), e.device(n), e.pinned(n)
		bytes(src, n)[n-1] = 7
		h, s := e.timedEvent(), e.stream()
		e.ok(transfer.MemcpyAsync(e.th, dst, n, src, n, abi.MemcpyHostToDevice, s))
		e.ok(transfer.MemcpyAsync(e.th, back, n, dst, n, abi.MemcpyDeviceToHost, s))
		e.record(h, s)
		e.ok(e.th.SynchronizeEvent(h))
		if bytes(back, n)[n-1] != 7 {
			e.Error("what is queued before the record has not arrived")
		}
	})

	prove("aclrtSynchronizeEventWithTimeout", "context-stopped", syncCall(syncTimeout).ownContext)
	prove("aclrtSynchronizeEventWithTimeout", "time-up", func(e *env) (err *core.Error) {
		for _, k := range eventKinds {
			h := k.make(e)
			s, open := e.gated()
			e.record(h, s)
			err = e.th.SynchronizeEventWithTimeout(h, 10)
			e.want(err, abi.ErrRTEventSyncTimeout)
			open()
			e.ok(e.th.SynchronizeEventWithTimeout(h, 10_000)) // the record was still queued
		}
		return err
	})
	behaves("aclrtSynchronizeEventWithTimeout", func(e *env) {
		syncCall(syncTimeout).waits(e)
		e.ok(e.stranger().SynchronizeEventWithTimeout(e.timedEvent(), 1)) // never recorded
		s := e.stream()
		h := e.exEvent(evSync)
		failTask(e, s)
		e.record(h, s)
		e.want(e.th.SynchronizeEventWithTimeout(h, 10_000), injected)
	})
}
