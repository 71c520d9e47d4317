package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// Proofs of the waits of streams.

// noSync are events that streams cannot wait for.
func noSync(e *env) []core.Handle {
	e.Helper()
	return []core.Handle{e.stateEvent(evProgress), e.stateEvent(evTime | evProgress), e.exEvent(evProgress),
		e.exEvent(evTime)}
}

// waitCall is one of the three calls that make a stream wait, without a limit of its own.
type waitCall func(th *core.Thread, stream, event core.Handle) *core.Error

func waitPlain(th *core.Thread, stream, event core.Handle) *core.Error {
	return th.StreamWaitEvent(stream, event)
}

func waitTimeout(th *core.Thread, stream, event core.Handle) *core.Error {
	return th.StreamWaitEventWithTimeout(stream, event, 0)
}

func waitFlag(th *core.Thread, stream, event core.Handle) *core.Error {
	return th.StreamWaitEventWithFlag(stream, event, 0, abi.EventWaitDefault)
}

// The rules all three share, from DEVICE_USE_ONLY on. Each breaks those behind it too.
func (w waitCall) deviceOnly(e *env) *core.Error {
	return w(e.stranger(), e.foreign(), e.stateEvent(evDevice))
}

func (w waitCall) withoutSync(e *env) *core.Error {
	th, f := e.stranger(), e.foreign()
	return e.each(abi.ErrRTFeatureNotSupport, noSync(e), func(h core.Handle) *core.Error { return w(th, f, h) })
}

func (w waitCall) noContext(e *env) *core.Error {
	e.want(w(e.stranger(), 0, e.timedEvent()), abi.ErrRTContextNull)
	return w(e.stranger(), e.foreign(), e.timedEvent())
}

func (w waitCall) otherContext(e *env) *core.Error {
	f := e.foreign()
	e.want(w(e.th, f, e.stateEvent(evSync)), abi.ErrRTStreamContext)
	e.want(w(e.th, f, e.exEvent(evSync)), abi.ErrRTStreamContext)
	return w(e.th, f, e.timedEvent())
}

func (w waitCall) neverRecorded(e *env) *core.Error {
	h, s := e.timedEvent(), e.stream()
	err := w(e.th, s, h)
	e.want(err, abi.ErrRTParamInvalid)
	e.record(h, s)
	e.ok(w(e.th, s, h))
	e.ok(e.th.ResetEvent(h, s))
	e.passes(s)
	e.want(w(e.th, s, h), abi.ErrRTParamInvalid) // a reset makes it as if it was never recorded
	return err
}

// holdsUp checks that a wait holds the stream, not the caller, up until the record is done.
func (w waitCall) holdsUp(e *env) {
	e.Helper()
	for _, k := range eventKinds {
		h := k.make(e)
		a, open := e.gated()
		e.record(h, a)
		for _, s := range []core.Handle{e.stream(), 0} {
			e.ok(w(e.th, s, h))
			e.held(s)
		}
		b := e.stream()
		e.ok(w(e.th, b, h))
		open()
		e.passes(b)
		e.passes(0)
	}
}

func init() {
	prove("aclrtStreamWaitEvent", "never-recorded", waitCall(waitPlain).neverRecorded)
	behaves("aclrtStreamWaitEvent", func(e *env) {
		waitCall(waitPlain).holdsUp(e)
		for round := range 8 { // what comes after the wait sees what came before the record
			const n = 8 << 20
			src, mid, dst := e.pinned(n), e.device(n), e.pinned(n)
			bytes(src, n)[n-1] = byte(round + 1)
			h, a, b := eventKinds[round%3].make(e), e.stream(), e.stream()
			e.ok(transfer.MemcpyAsync(e.th, mid, n, src, n, abi.MemcpyHostToDevice, a))
			e.record(h, a)
			e.ok(e.th.StreamWaitEvent(b, h))
			e.ok(transfer.MemcpyAsync(e.th, dst, n, mid, n, abi.MemcpyDeviceToHost, b))
			e.passes(b)
			if got := bytes(dst, n)[n-1]; got != byte(round+1) {
				e.Fatalf("round %d: the second stream read %d", round, got)
			}
			e.ok(memory.Free(e.th, mid))
		}
		h := e.exEvent(evIPC) // another process could record it; here it is an Ex event
		a, open := e.gated()
		e.record(h, a)
		b := e.stream()
		e.ok(e.th.StreamWaitEvent(b, h))
		e.held(b)
		open()
		e.passes(b)
		h = e.stateEvent(evExternal) // and this one a state
		e.ok(e.th.StreamWaitEvent(b, h))
		e.held(b)
		e.record(h, a)
		e.passes(b)
	})

	prove("aclrtStreamWaitEventWithTimeout", "as-aclrtStreamWaitEvent", func(e *env) *core.Error {
		w := waitCall(waitTimeout)
		e.want(w.deviceOnly(e), abi.ErrRTParamInvalid)
		e.want(w.withoutSync(e), abi.ErrRTFeatureNotSupport)
		e.want(w.noContext(e), abi.ErrRTContextNull)
		e.want(w.otherContext(e), abi.ErrRTStreamContext)
		err := w.neverRecorded(e)
		e.want(err, abi.ErrRTParamInvalid)
		if err.API != "aclrtStreamWaitEventWithTimeout" {
			e.Errorf("the message names %s", err.API)
		}
		return err
	})
	behaves("aclrtStreamWaitEventWithTimeout", waitCall(waitTimeout).holdsUp)

	prove("aclrtStreamWaitEventWithFlag", "external-of-other-event", func(e *env) *core.Error {
		th, s, f := e.stranger(), e.stream(), e.foreign()
		return e.each(abi.ErrRTFeatureNotSupport, notOnlySync(e), func(h core.Handle) *core.Error {
			e.record(h, s)
			e.ok(waitFlag(e.th, s, h))
			return th.StreamWaitEventWithFlag(f, h, 0, 1)
		})
	})
	prove("aclrtStreamWaitEventWithFlag", "flag-changed", func(e *env) *core.Error {
		h := e.exEvent(evSync)
		e.ok(waitFlag(e.th, 0, h))
		return e.stranger().StreamWaitEventWithFlag(e.foreign(), h, 0, 1)
	})
	prove("aclrtStreamWaitEventWithFlag", "external-not-captured", func(e *env) *core.Error {
		h := e.exEvent(evSync)
		e.want(e.th.StreamWaitEventWithFlag(0, h, 0, 1), abi.ErrRTStreamNotCaptured)
		err := e.th.StreamWaitEventWithFlag(e.stream(), h, 0, 1)
		e.ok(waitFlag(e.th, 0, h)) // the refused wait did not make the event external
		return err
	})
	prove("aclrtStreamWaitEventWithFlag", "as-aclrtStreamWaitEvent", func(e *env) *core.Error {
		err := waitCall(waitFlag).neverRecorded(e)
		e.want(err, abi.ErrRTParamInvalid)
		if err.API != "aclrtStreamWaitEventWithFlag" {
			e.Errorf("the message names %s", err.API)
		}
		return err
	})
	behaves("aclrtStreamWaitEventWithFlag", func(e *env) {
		waitCall(waitFlag).holdsUp(e)
		for _, p := range []string{"310B", "310P", "910", "310"} {
			o := e.on(machine{product: p})
			o.want(o.th.StreamWaitEventWithFlag(garbage, garbage, 0, 0), abi.ErrRTFeatureNotSupport)
		}
	})

	prove("aclrtSetOpWaitTimeout", "not-offered", func(e *env) *core.Error {
		return e.on(machine{product: "310", bare: true}).th.SetOpWaitTimeout(1)
	})
	prove("aclrtSetOpWaitTimeout", "on-310P-no-context", func(e *env) *core.Error {
		return e.on(machine{product: "310P", bare: true}).th.SetOpWaitTimeout(1)
	})
	prove("aclrtSetOpWaitTimeout", "old-firmware", func(e *env) *core.Error {
		return e.on(machine{product: "310P"}).th.SetOpWaitTimeout(1)
	})
	behaves("aclrtSetOpWaitTimeout", func(e *env) {
		for _, p := range []string{"950", "A3", "A2", "310B", "910"} {
			o := e.on(machine{product: p})
			o.ok(o.stranger().SetOpWaitTimeout(1)) // no context is needed
			o.ok(o.th.SetOpWaitTimeout(0))         // never, again
			s := o.stream()
			h := o.stateEvent(evSync)
			o.ok(o.th.StreamWaitEvent(s, h))
			o.held(s)
			o.record(h, 0)
			o.passes(s)
		}
	})
}
