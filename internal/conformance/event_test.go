package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Proofs of making, destroying, recording and resetting events.

func init() {
	prove("aclrtCreateEvent", "no-event", func(e *env) *core.Error {
		o := e.on(machine{product: "310P"})
		takeEvents(o, 1)
		h := garbage
		o.ok(o.th.CreateEvent(&h))
		n := garbage
		err := o.th.CreateEvent(&n)
		if n != garbage || o.rt.Live().Events != 1023 {
			e.Errorf("something was made: %#x, %d events", n, o.rt.Live().Events)
		}
		o.ok(o.th.DestroyEvent(h)) // and then there is room
		o.ok(o.th.CreateEvent(&n))
		return err
	})
	behaves("aclrtCreateEvent", func(e *env) {
		h := e.timedEvent()
		if h == 0 || e.rt.Live().Events != 1 {
			e.Fatalf("handle %#x, %d events", h, e.rt.Live().Events)
		}
		s := e.stream() // SYNC, CAPTURE_STREAM_PROGRESS and TIME_LINE in one
		e.record(h, s)
		e.ok(e.th.StreamWaitEvent(s, h))
		e.ok(e.th.SynchronizeEvent(h))
		var us uint64
		e.ok(e.th.EventGetTimestamp(h, &us))
	})

	prove("aclrtCreateEventWithFlag", "no-event", func(e *env) *core.Error {
		o := e.on(machine{product: "310P"})
		takeEvents(o, 0)
		h := o.stateEvent(evProgress | evTime) // without SYNC it needs no place
		o.ok(o.th.DestroyEvent(h))
		o.want(o.th.CreateEventWithFlag(&h, evExternal), abi.ErrRTNoEventResource)
		o.want(o.th.CreateEventWithFlag(&h, evAll|4), abi.ErrRTNoEventResource)
		return o.th.CreateEventWithFlag(&h, evSync)
	})
	behaves("aclrtCreateEventWithFlag", func(e *env) {
		for flag := uint32(1); flag < evDevice; flag++ {
			e.stateEvent(flag)
		}
		e.stateEvent(evDevice)
		e.stateEvent(evExternal)
		s := e.stream()
		// The inner value of aclrtCreateEvent makes that kind, its published bits together do not.
		e.want(e.th.StreamWaitEvent(s, e.stateEvent(evProgress|4|evTime)), abi.ErrRTParamInvalid)
		h := e.stateEvent(evAll)
		e.ok(e.th.StreamWaitEvent(s, h))
		e.held(s)
		e.record(h, 0)
		e.passes(s)
	})

	behaves("aclrtCreateEventExWithFlag", func(e *env) {
		for flag := uint32(1); flag < evDevice; flag++ {
			e.exEvent(flag) // the internal 4 among them
		}
		e.exEvent(evIPC)
		o := e.on(machine{product: "310P"})
		takeEvents(o, 0)
		o.exEvent(evSync) // takes no place before it is recorded
	})

	behaves("aclrtDestroyEvent", func(e *env) {
		for _, k := range eventKinds {
			h := k.make(e)
			s, open := e.gated()
			e.record(h, s)
			e.ok(e.stranger().DestroyEvent(h)) // neither waits nor needs a context
			e.want(e.th.DestroyEvent(h), abi.ErrRTInvalidHandle)
			open()
			e.passes(s)
		}
	})
}

func init() {
	prove("aclrtRecordEvent", "no-event-id", func(e *env) *core.Error {
		o := e.on(machine{product: "310P"})
		h, s, last := o.exEvent(evSync), o.stream(), o.timedEvent()
		takeEvents(o, 0)
		o.record(o.exEvent(evProgress|evTime), s) // without SYNC it needs no id
		err := o.th.RecordEvent(h, s)
		if !complete(o, h) {
			e.Error("a refused record counts")
		}
		var id uint32
		o.want(o.th.GetEventID(h, &id), abi.ErrRTInternalError)
		o.ok(o.th.DestroyEvent(last)) // and then there is room
		o.record(h, s)
		o.passes(s)
		o.ok(o.th.DestroyEvent(h))
		if n := availEvents(o); n != 1 {
			e.Errorf("%d events are left, want 1", n)
		}
		return err
	})
	behaves("aclrtRecordEvent", func(e *env) {
		for _, k := range eventKinds {
			h := k.make(e)
			s, open := e.gated()
			e.record(h, s)
			if complete(e, h) {
				e.Errorf("%s: done before what is queued before it", k.name)
			}
			open()
			e.ok(e.th.SynchronizeEvent(h))
			if !complete(e, h) {
				e.Errorf("%s: not done after it was waited for", k.name)
			}
			e.record(h, 0) // the default stream
			e.ok(e.th.SynchronizeEvent(h))
		}
		// The event may be of another device.
		o := e.rt.NewThread(5)
		var s core.Handle
		e.ok(o.SetDevice(1))
		e.ok(o.CreateStream(&s))
		h := e.timedEvent()
		e.ok(o.RecordEvent(h, s))
		e.ok(o.SynchronizeEvent(h))
	})

	prove("aclrtRecordEventWithFlag", "external-of-other-event", func(e *env) *core.Error {
		th, s, f := e.stranger(), e.stream(), e.foreign()
		return e.each(abi.ErrRTFeatureNotSupport, notOnlySync(e), func(h core.Handle) *core.Error {
			e.record(h, s)
			return th.RecordEventWithFlag(h, f, 1)
		})
	})
	prove("aclrtRecordEventWithFlag", "flag-changed", func(e *env) *core.Error {
		h := e.exEvent(evSync)
		e.record(h, 0)
		return e.stranger().RecordEventWithFlag(h, e.foreign(), 1)
	})
	prove("aclrtRecordEventWithFlag", "external-not-captured", func(e *env) *core.Error {
		h := e.exEvent(evSync)
		e.want(e.th.RecordEventWithFlag(h, 0, 1), abi.ErrRTStreamNotCaptured)
		s := e.stream()
		err := e.th.RecordEventWithFlag(h, s, 1)
		e.ok(e.th.RecordEventWithFlag(h, s, 0)) // the refused record did not make the event external
		return err
	})
	prove("aclrtRecordEventWithFlag", "as-aclrtRecordEvent", func(e *env) *core.Error {
		h := e.exEvent(evSync)
		takeEvents(e, 0)
		err := e.th.RecordEventWithFlag(h, 0, 0)
		e.want(err, abi.ErrRTNoEventResource)
		if err.API != "aclrtRecordEventWithFlag" {
			e.Errorf("the message names %s", err.API)
		}
		return err
	})
	behaves("aclrtRecordEventWithFlag", func(e *env) {
		for _, k := range eventKinds {
			h := k.make(e)
			s, open := e.gated()
			e.ok(e.th.RecordEventWithFlag(h, s, 0))
			if complete(e, h) {
				e.Errorf("%s: done before what is queued before it", k.name)
			}
			open()
			e.ok(e.th.SynchronizeEvent(h))
		}
		for _, p := range []string{"310B", "310P", "910", "310"} {
			o := e.on(machine{product: p})
			o.want(o.th.RecordEventWithFlag(garbage, 0, 0), abi.ErrRTFeatureNotSupport)
		}
	})

	behaves("aclrtResetEvent", func(e *env) {
		resetTimed(e, e.timedEvent())
		resetState(e, e.stateEvent(evAll))
		h := doneEvent(e, e.stateEvent(evAll)) // a reset that is dropped did not happen
		s, _ := e.gated()
		e.ok(e.th.ResetEvent(h, s))
		e.ok(e.th.StreamAbort(s))
		status(e, h, abi.EventRecordedStatusComplete)
		e.ok(e.th.StreamWaitEvent(s, h))
		e.passes(s)
	})
}

// notOnlySync are events that external records and waits refuse: all but Ex with exactly SYNC.
func notOnlySync(e *env) []core.Handle {
	e.Helper()
	return []core.Handle{e.timedEvent(), e.stateEvent(evSync), e.stateEvent(evExternal), e.exEvent(evSync | evTime),
		e.exEvent(evIPC)}
}
