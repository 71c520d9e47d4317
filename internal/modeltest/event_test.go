package modeltest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// eventKind is how an event is made: the columns of the table in spec/semantics.md, section 7.
type eventKind string

const (
	timedEvent eventKind = "timed"
	stateEvent eventKind = "state"
	exEvent    eventKind = "ex"
)

// event is an event and what the model knows of it. A state event's state is a byte that records and resets write and
// waits read, so that the generator keeps those in order as well.
type event struct {
	kind eventKind
	ctx  *settings
	h    core.Handle

	recorded bool
	on       *stream // of the latest record
	task     uint64  // and its task there
	clock    clock
	gate     chan struct{} // that held the stream then
	reset    *stream       // a reset was queued there after the record
	resetAt  uint64
	set      bool // state as of the last operation queued
	state    *buffer
}

func (e *event) String() string { return fmt.Sprintf("%s event %#x", e.kind, e.h) }

func (w *world) newEvent(t *rapid.T, ctx *settings, kind eventKind) *event {
	const flags = abi.EventSync | abi.EventCaptureStreamProgress | abi.EventTimeLine
	e := &event{kind: kind, ctx: ctx, state: &buffer{want: make([]byte, 1)}}
	switch kind {
	case timedEvent:
		must(t, ctx.CreateEvent(&e.h))
	case stateEvent:
		must(t, ctx.CreateEventWithFlag(&e.h, flags))
	case exEvent:
		must(t, ctx.CreateEventExWithFlag(&e.h, flags))
	}
	w.logf(t, "new %v", e)
	w.events = append(w.events, e)
	return e
}

func (w *world) destroyEvent(t *rapid.T, e *event) {
	w.logf(t, "destroy %v", e)
	must(t, e.ctx.DestroyEvent(e.h))
	w.events = slices.DeleteFunc(w.events, func(o *event) bool { return o == e })
}

// canRecord reports whether a record means something: a state that is set has to be reset first.
func (e *event) canRecord() bool { return e.kind != stateEvent || !e.set }

// record queues a record. The caller has ordered the state.
func (w *world) record(t *rapid.T, e *event, s *stream) {
	w.logf(t, "record %v on %v", e, s)
	must(t, s.ctx.RecordEvent(e.h, s.h))
	w.submitted(s)
	if e.kind == stateEvent {
		e.state.busy = append(e.state.busy, access{0, 1, true, s, s.tasks})
	}
	e.recorded, e.on, e.task, e.clock, e.gate, e.reset, e.set = true, s, s.tasks, s.clock, s.gate, nil, true
}

// await queues a wait for the latest record.
func (w *world) await(t *rapid.T, e *event, s *stream) {
	w.logf(t, "%v waits for %v", s, e)
	must(t, s.ctx.StreamWaitEvent(s.h, e.h))
	if e.recorded {
		s.clock = join(s.clock, e.clock)
	}
	w.submitted(s)
	if e.kind == stateEvent {
		e.state.busy = append(e.state.busy, access{0, 1, false, s, s.tasks})
	}
}

// orderAfterReset orders s after a reset of e, lest a wait is let go by an older record, but not after the record:
// that is for the wait to do.
func (w *world) orderAfterReset(t *rapid.T, e *event, s *stream) {
	e.state.busy = slices.DeleteFunc(e.state.busy, func(a access) bool {
		return a.write && a.stream == e.on &&
			a.task == e.task
	})
	w.order(t, s, reads(e.state, 0, 1))
	e.state.busy = append(e.state.busy, access{0, 1, true, e.on, e.task})
}

// forgotten reports whether a reset after the last record has run for sure, or cannot have.
func (w *world) forgotten(e *event) (yes, known bool) {
	if e.reset == nil {
		return false, true
	}
	if w.host.at(e.reset.index) >= e.resetAt {
		return true, true
	}
	return false, false
}

// syncEvent makes the host wait for the latest record.
func (w *world) syncEvent(t *rapid.T, e *event) {
	w.openGates()
	forgotten, known := w.forgotten(e)
	w.logf(t, "sync %v", e)
	err := e.ctx.SynchronizeEvent(e.h)
	var code abi.Code
	if e.recorded && !forgotten && e.on.failed != nil && e.on.failed.task < e.task {
		code = e.on.failed.code // reported, but not forgotten
	}
	if !known && err == nil {
		return // the reset came first
	}
	expect(t, err, code, "SynchronizeEvent")
	if e.recorded && known && !forgotten {
		w.learn(e.clock)
	}
}

// queryEvent asks both ways. What is known to be over must be complete; what is held must not.
func (w *world) queryEvent(t *rapid.T, e *event) {
	forgotten, known := w.forgotten(e)
	if !known {
		return
	}
	var st abi.EventRecordedStatus
	must(t, e.ctx.QueryEventStatus(e.h, &st))
	done := st == abi.EventRecordedStatusComplete
	recorded := e.recorded && !forgotten
	switch {
	case !recorded && done != (e.kind == exEvent):
		t.Fatalf("%v, not recorded: status %d", e, st)
	case recorded && !done && w.host.at(e.on.index) >= e.task:
		t.Fatalf("%v is over, but status is %d", e, st)
	case recorded && done && e.gate != nil && e.gate == e.on.gate:
		t.Fatalf("%v is after a function that has not returned, but status is %d", e, st)
	}
	if e.kind == exEvent {
		return
	}
	var old abi.EventStatus
	must(t, e.ctx.QueryEvent(e.h, &old))
	if !recorded && old != abi.EventStatusComplete || recorded && old != abi.EventStatusComplete && done {
		t.Fatalf("%v: old status %d, new %d", e, old, st)
	}
}

// queryStream asks whether a stream is idle.
func (w *world) queryStream(t *rapid.T, s *stream) {
	var st abi.StreamStatus
	must(t, s.ctx.StreamQuery(s.h, &st))
	switch {
	case s.synced && st != abi.StreamStatusComplete:
		t.Fatalf("%v was synchronised, but status is %d", s, st)
	case s.gate != nil && st == abi.StreamStatusComplete:
		t.Fatalf("%v is held, but status is %d", s, st)
	}
}

// eventActions are what programs do with events and streams.
func (w *world) eventActions() map[string]func(*rapid.T) {
	kinds := []eventKind{timedEvent, stateEvent, exEvent}
	return map[string]func(*rapid.T){
		"new event": func(t *rapid.T) {
			if len(w.events) > 5 {
				t.Skip("enough")
			}
			w.newEvent(t, pick(t, w.ctxs, "context"), rapid.SampledFrom(kinds).Draw(t, "kind"))
		},
		"destroy event": func(t *rapid.T) { w.destroyEvent(t, pick(t, w.events, "event")) },
		"record": func(t *rapid.T) {
			e, s := pick(t, w.events, "event"), pick(t, w.streams, "stream")
			if !e.canRecord() {
				t.Skip("set")
			}
			w.order(t, s, writes(e.state, 0, 1))
			w.record(t, e, s)
		},
		"stream waits": func(t *rapid.T) {
			e, s := pick(t, w.events, "event"), pick(t, w.streams, "stream")
			forgotten, known := w.forgotten(e)
			switch {
			case e.kind == stateEvent && !e.set, e.kind == timedEvent && !known:
				t.Skip("not decided")
			case e.kind == timedEvent && (!e.recorded || forgotten):
				expect(t, s.ctx.StreamWaitEvent(s.h, e.h), abi.ErrRTParamInvalid,
					"wait for a timed event without record")
			case e.kind == stateEvent:
				w.orderAfterReset(t, e, s)
				w.await(t, e, s)
			default:
				w.await(t, e, s)
			}
		},
		"stream waits, then record": func(t *rapid.T) {
			e, s, by := pick(t, w.events, "event"), pick(t, w.streams, "stream"), pick(t, w.streams, "recording stream")
			if e.kind != stateEvent || e.set || s == by {
				t.Skip("no")
			}
			w.order(t, by, writes(e.state, 0, 1))
			w.order(t, s, reads(e.state, 0, 1))
			w.logf(t, "%v waits for %v, which is not set", s, e)
			must(t, s.ctx.StreamWaitEvent(s.h, e.h))
			w.record(t, e, by)
			s.clock = join(s.clock, e.clock)
			w.submitted(s)
			e.state.busy = append(e.state.busy, access{0, 1, false, s, s.tasks})
		},
		"reset": func(t *rapid.T) {
			e, s := pick(t, w.events, "event"), pick(t, w.streams, "stream")
			if e.kind == exEvent {
				expect(t, s.ctx.ResetEvent(e.h, s.h), abi.ErrRTFeatureNotSupport, "reset of an ex event")
				return
			}
			if !e.recorded || e.reset != nil {
				t.Skip("not recorded")
			}
			w.order(t, s, writes(e.state, 0, 1))
			if join(s.clock, w.host).at(e.on.index) < e.task { // a timed event's record has to be over too
				w.sync(t, e.on)
			}
			w.logf(t, "reset %v on %v", e, s)
			must(t, s.ctx.ResetEvent(e.h, s.h))
			w.submitted(s)
			if e.kind == stateEvent {
				e.state.busy = append(e.state.busy, access{0, 1, true, s, s.tasks})
			}
			e.reset, e.resetAt, e.set = s, s.tasks, false
		},
		"sync event":  func(t *rapid.T) { w.syncEvent(t, pick(t, w.events, "event")) },
		"query event": func(t *rapid.T) { w.queryEvent(t, pick(t, w.events, "event")) },
		"query stream": func(t *rapid.T) {
			w.queryStream(t, pick(t, w.streams, "stream"))
		},
		"sync stream": func(t *rapid.T) { w.sync(t, pick(t, w.streams, "stream")) },
		"sync device": func(t *rapid.T) { w.syncContext(t, pick(t, w.ctxs, "context")) },
		"hold stream": func(t *rapid.T) {
			s := pick(t, w.streams, "stream")
			if s.gate != nil {
				t.Skip("held already")
			}
			w.logf(t, "hold %v", s)
			gate := make(chan struct{})
			must(t, s.ctx.LaunchHostFunc(s.h, func(core.Addr) { <-gate }, 0))
			w.submitted(s)
			s.gate = gate
		},
		"let streams go": func(t *rapid.T) { w.openGates() },
		"new stream": func(t *rapid.T) {
			if len(w.streams) > 9 {
				t.Skip("enough")
			}
			ctx := pick(t, w.ctxs, "context")
			var h core.Handle
			must(t, ctx.CreateStreamWithConfig(&h, rapid.Uint32Range(0, 8).Draw(t, "priority"), 0))
			w.logf(t, "new %v", w.addStream(ctx, h))
		},
		"destroy stream": func(t *rapid.T) {
			s := pick(t, w.streams, "stream")
			if s.h == 0 {
				t.Skip("default stream")
			}
			w.openGates()
			w.logf(t, "destroy %v", s)
			must(t, s.ctx.DestroyStream(s.h))
			w.learn(s.clock)
			w.gone = append(w.gone, s.h)
			w.streams = slices.DeleteFunc(w.streams, func(o *stream) bool { return o == s })
		},
	}
}
