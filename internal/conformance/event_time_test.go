package conformance

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Proofs of times, ids and numbers of events.

// doneEvent is an event that was recorded and is done.
func doneEvent(e *env, h core.Handle) core.Handle {
	e.Helper()
	s := e.stream()
	e.record(h, s)
	e.passes(s)
	e.ok(e.th.DestroyStream(s))
	return h
}

// underWay is an event whose record is queued and not done as long as the test runs.
func underWay(e *env, h core.Handle) core.Handle {
	e.Helper()
	s, open := e.gated()
	e.record(h, s)
	e.Cleanup(open)
	return h
}

// unstamped are recorded events without a time stamp.
func unstamped(e *env) []core.Handle {
	e.Helper()
	return []core.Handle{
		underWay(e, e.timedEvent()), underWay(e, e.stateEvent(evAll)), underWay(e, e.exEvent(evAll)),
		doneEvent(e, e.stateEvent(evSync|evProgress)), doneEvent(e, e.exEvent(evSync|evProgress)),
	}
}

// elapsed is the time between two events in milliseconds; a stranger may ask.
func elapsed(e *env, from, to core.Handle) float32 {
	e.Helper()
	ms := float32(-1e9)
	e.ok(e.stranger().EventElapsedTime(&ms, from, to))
	return ms
}

// timestamp is the time of an event in microseconds; a stranger may ask.
func timestamp(e *env, h core.Handle) uint64 {
	e.Helper()
	var us uint64
	e.ok(e.stranger().EventGetTimestamp(h, &us))
	return us
}

func init() {
	const untouched = float32(77)
	ms := untouched
	// both asks with the event in either place; the other one is fine, or has the fault of a later rule.
	both := func(e *env, code abi.Code, events []core.Handle, other core.Handle) *core.Error {
		e.Helper()
		e.each(code, events, func(h core.Handle) *core.Error { return e.th.EventElapsedTime(&ms, other, h) })
		err := e.each(code, events, func(h core.Handle) *core.Error { return e.th.EventElapsedTime(&ms, h, other) })
		if ms != untouched {
			e.Errorf("the time was written: %v", ms)
		}
		return err
	}
	prove("aclrtEventElapsedTime", "no-time", func(e *env) *core.Error {
		return both(e, abi.ErrRTEventTimestampInvalid, unstamped(e), doneEvent(e, e.timedEvent()))
	})
	behaves("aclrtEventElapsedTime", func(e *env) {
		countsOnHaste(e)
		for _, k := range eventKinds {
			first, last, begin := k.make(e), e.timedEvent(), time.Now()
			doneEvent(e, first)
			time.Sleep(5 * time.Millisecond)
			doneEvent(e, last)
			most := float32(time.Since(begin).Milliseconds()) + 2
			there, back := elapsed(e, first, last), elapsed(e, last, first)
			if there < 4 || there > most || back != -there { // as below
				e.Errorf("%s: %v ms there, %v ms back, within %v ms", k.name, there, back, most)
			}
			if ms := elapsed(e, first, first); ms != 0 {
				e.Errorf("%s: %v ms between an event and itself", k.name, ms)
			}
		}
		// A time is taken when the record runs, not when it is queued.
		first, last, end := e.timedEvent(), e.timedEvent(), e.timedEvent()
		s, open := e.gated()
		e.record(last, s)
		doneEvent(e, first)
		time.Sleep(5 * time.Millisecond)
		open()
		e.passes(s)
		if ms := elapsed(e, first, last); ms < 4 { // 5, less what a device's clock and the host's may be apart
			e.Errorf("%v ms, but the record was held up for 5", ms)
		}
		// One of another device counts on the same clock.
		o := e.rt.NewThread(5)
		e.ok(o.SetDevice(1))
		e.ok(o.RecordEvent(end, 0))
		e.ok(o.SynchronizeEvent(end))
		if ms := elapsed(e, last, end); ms < 0 || ms > 60_000 {
			e.Errorf("%v ms to an event of another device", ms)
		}
	})

	us := uint64(77)
	ask := func(e *env, code abi.Code, events []core.Handle) *core.Error {
		e.Helper()
		err := e.each(code, events, func(h core.Handle) *core.Error { return e.th.EventGetTimestamp(h, &us) })
		if us != 77 {
			e.Errorf("the time was written: %v", us)
		}
		return err
	}
	prove("aclrtEventGetTimestamp", "no-time", func(e *env) *core.Error {
		return ask(e, abi.ErrRTEventTimestampInvalid, unstamped(e))
	})
	behaves("aclrtEventGetTimestamp", func(e *env) {
		for _, k := range eventKinds {
			h := doneEvent(e, k.make(e))
			first := timestamp(e, h)
			time.Sleep(5 * time.Millisecond)
			doneEvent(e, h)
			if d := timestamp(e, h) - first; first == 0 || d < 5_000 || d > 60_000_000 {
				e.Errorf("%s: %d, then %d us later", k.name, first, d)
			}
			g := doneEvent(e, k.make(e))
			d := int64(timestamp(e, g)-timestamp(e, h)) - int64(elapsed(e, h, g)*1000)
			if d < -1 || d > 1 {
				e.Errorf("%s: time stamps and elapsed time differ by %d us", k.name, d)
			}
		}
	})

	var id uint32
	prove("aclrtGetEventId", "no-id", func(e *env) *core.Error {
		list := []core.Handle{
			e.timedEvent(), e.exEvent(evSync), e.stateEvent(evProgress), e.stateEvent(evDevice),
			doneEvent(e, e.stateEvent(evTime)), doneEvent(e, e.exEvent(evTime|evProgress)),
		}
		return e.each(abi.ErrRTInternalError, list, func(h core.Handle) *core.Error { return e.th.GetEventID(h, &id) })
	})
	behaves("aclrtGetEventId", func(e *env) {
		seen := map[uint32]bool{}
		for _, h := range []core.Handle{
			e.stateEvent(evSync), e.stateEvent(evSync), e.stateEvent(evExternal),
			underWay(e, e.timedEvent()), doneEvent(e, e.timedEvent()), underWay(e, e.exEvent(evSync)),
			doneEvent(e, e.exEvent(evAll)),
		} {
			var id, again uint32
			e.ok(e.stranger().GetEventID(h, &id)) // no context is needed
			e.ok(e.th.GetEventID(h, &again))
			if seen[id] || id != again {
				e.Errorf("id %d, then %d; seen before: %v", id, again, seen[id])
			}
			seen[id] = true
		}
	})

	behaves("aclrtGetEventAvailNum", eventNumbers)
}

// eventNumbers follows the number of events left through the lives of events.
func eventNumbers(e *env) {
	for p, limit := range map[string]uint32{"950": 65536, "A3": 65536, "A2": 65536, "310B": 65536, "310P": 1023,
		"910": 65535} {
		if n := availEvents(e.on(machine{product: p})); n != limit {
			e.Errorf("%s has %d events, want %d", p, n, limit)
		}
	}
	const limit = 65536
	left := func(want uint32, when string) {
		e.Helper()
		if n := availEvents(e); n != limit-want {
			e.Errorf("%s: %d events in use, want %d", when, limit-n, want)
		}
	}
	state, ex := e.stateEvent(evSync), e.exEvent(evSync)
	left(1, "a state event counts when it is made, an Ex event does not")
	e.stateEvent(evProgress)
	doneEvent(e, e.exEvent(evProgress))
	left(1, "nor one that streams cannot wait for")
	s := e.stream()
	e.record(ex, s)
	e.record(ex, s)
	left(2, "an Ex event counts once it was recorded")
	e.passes(s)
	left(2, "and goes on to")
	e.ok(e.th.DestroyEvent(ex))
	e.ok(e.th.DestroyEvent(state))
	left(0, "destroyed")

	// Destroyed events keep their place while tasks need it: a record, a wait, a reset.
	for _, k := range eventKinds {
		h, from := k.make(e), e.stream()
		open := e.block(from) // no event is needed for it
		e.record(h, from)
		e.ok(e.th.DestroyEvent(h))
		left(1, k.name+": a record is queued")
		open()
		e.passes(from)
		left(0, k.name+": and done")

		h = k.make(e)
		a, b := e.stream(), e.stream()
		openA := e.block(a)
		e.record(h, a)
		e.ok(e.th.StreamWaitEvent(b, h))
		openB := e.block(b)
		e.ok(e.th.DestroyEvent(h))
		left(1, k.name+": a record and a wait are queued")
		openA()
		openB()
		e.passes(a) // b may run on before a has put its record away
		e.passes(b)
		left(0, k.name+": and done")
	}
	for _, k := range []eventKind{timedKind, stateKind} {
		h, from := k.make(e), e.stream()
		open := e.block(from)
		e.ok(e.th.ResetEvent(h, from))
		e.ok(e.th.DestroyEvent(h))
		left(1, k.name+": a reset is queued")
		open()
		e.passes(from)
		left(0, k.name+": and done")
	}
	h := e.stateEvent(evSync)
	e.ok(e.th.StreamWaitEvent(s, h))
	e.ok(e.th.DestroyEvent(h))
	left(1, "a wait is queued")
	e.ok(e.th.StreamAbort(s))
	left(0, "and was dropped")

	// Each device has its own.
	o := e.rt.NewThread(5)
	e.ok(o.SetDevice(1))
	e.ok(o.CreateEvent(&h))
	left(0, "an event of another device")
	var n uint32
	if e.ok(o.GetEventAvailNum(&n)); n != limit-1 {
		e.Errorf("device 1 has %d events left", n)
	}
}
