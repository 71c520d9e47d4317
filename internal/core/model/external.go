package model

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// A record or a wait with the EXTERNAL flag is a place of the model, which the call of each execution fills: a record
// becomes the newest one of its event, and is done when the model reaches the place or has ended; a wait is for the
// newest record of its event at that moment.

// external is such a place.
type external struct {
	place  int // index in Model.externals
	event  *core.Event
	record bool
}

// external adds a place for a record of an event, or for a wait.
func (l *lane) external(api string, t *core.Thread, e *core.Event, record bool) (bool, *core.Error) {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := l.admits(api, t, false); err != nil || l.left {
		return err != nil, err
	}
	for _, x := range m.externals {
		if x.event == e {
			return true, core.Refused(api, "event", "was used with the EXTERNAL flag in model %d before", m.id)
		}
	}
	if !record && e.HasRecord() && !e.Published() {
		return true, core.Refused(api, "event", "was recorded outside before it took part in a capture")
	}
	if !e.Hold() {
		return true, core.NoEvent(api, "event", e.Handle)
	}
	e.Publish()
	x := &external{len(m.externals), e, record}
	l.add(t, &work{done: e.Release, detail: x})
	m.externals = append(m.externals, x)
	return true, nil
}

// bound holds the operations of a model's places in one execution.
type bound struct {
	ops     []driver.Op        // by place; a wait without a record has no flag
	records []core.EventRecord // by place
}

// bind fills the places for an execution on s.
func (p *plan) bind(s *core.Stream, tag driver.Tag) (b bound) {
	for _, x := range p.externals {
		var r core.EventRecord
		op := driver.Op{Kind: driver.OpAwait, Flag: x.event.Latest()}
		if x.record {
			r, op = x.event.NewRecord(s, tag)
		}
		b.ops, b.records = append(b.ops, op), append(b.records, r)
	}
	return b
}

// op returns the operation of a place.
func (b *bound) op(place int) driver.Op {
	if op := b.ops[place]; op.Flag != nil {
		return op
	}
	return driver.Op{Kind: driver.OpFunc, Fn: func() {}}
}

// params sets p to the parameters of a place, for the program.
func (x *external) params(p *abi.MdlRITaskParams) {
	if x.record {
		p.Type = abi.ModelRiTaskEventRecord
		p.Union.EventRecordTaskParams().RecordFlag = 1
		return
	}
	p.Type = abi.ModelRiTaskEventWait
	p.Union.EventWaitTaskParams().WaitFlag = 1
}
