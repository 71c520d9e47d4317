package model

import (
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Reports of captures and models to a checker: see core.ModelHooks.

// Model implements core.Lane.
func (l *lane) Model() uint32 { return l.model.id }

// watchLane reports that a stream has joined the capture, or was bound. mu is held.
func (m *Model) watchLane(t *core.Thread, l *lane) {
	if c := m.rt.Checker(); c != nil {
		parent := uint32(0)
		if m.parent != nil {
			parent = m.parent.id
		}
		c.Capturing(t, m.id, parent, l.user.ID, l.own.ID, l.bound)
	}
}

// watchTasks reports tasks[first:], one task or the segments of a batch, that t has submitted. mu is held.
func (m *Model) watchTasks(t *core.Thread, first int, op *driver.Op) {
	if c := m.rt.Checker(); c != nil && first < len(m.tasks) {
		v := &m.tasks[first]
		c.Captured(t, m.id, first, m.lanes[v.lane].own.ID, v.number, op)
	}
}

// watchChange reports a change of a task. mu is held.
func (m *Model) watchChange(t *core.Thread, i int32) {
	if c := m.rt.Checker(); c != nil {
		c.ModelChanged(t, m.id, int(i), m.tasks[i].touched())
	}
}

// watchExecution numbers an execution on a stream, and reports it.
func (m *Model) watchExecution(t *core.Thread, s *core.Stream) driver.Tag {
	tag := s.NextTag(t, nil)
	if c := m.rt.Checker(); c != nil {
		c.Executing(t, m.id, s.ID, tag.Task)
	}
	return tag
}

// watchUpdate reports that a kernel was replaced in the order of a stream, by a task of the model that the stream
// belongs to, if it is a hidden one.
func (m *Model) watchUpdate(task int32, by *core.Stream, byTask int32) {
	c := m.rt.Checker()
	if c == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.gone {
		v := &m.tasks[task]
		c.Updated(m.id, int(task), m.lanes[v.lane].own.ID, v.number, by.ID, int(byTask))
	}
}

// resource describes the model as a resource of the program.
func (m *Model) resource() core.Resource {
	return core.Resource{Kind: core.ModelHandle, Name: uintptr(m.handle), Number: int32(m.id),
		Device: m.ctx.Device.User}
}

// trace reports a plan to a tracer. mu is held.
func (m *Model) trace(p *plan) {
	o := m.rt.Tracer()
	if o == nil {
		return
	}
	p.findPieces(len(m.tasks))
	if was := m.compiled.plan; was != nil {
		// If pieces have changed, reports to a tracer have another meaning: that is a new version.
		if p.version = was.version; !slices.Equal(was.pieces, p.pieces) {
			p.version++
		}
	}
	g := observe.ModelGraph{Number: m.id, Version: p.version, Tasks: make([]observe.ModelTask, len(m.tasks))}
	for i := range m.tasks {
		g.Tasks[i] = m.traced(&m.tasks[i])
		g.Tasks[i].Piece = p.pieces[i]
	}
	o.Modelled(&g)
}

// traced returns a task for a tracer. mu is held.
func (m *Model) traced(v *task) observe.ModelTask {
	t := observe.ModelTask{Kind: observe.Other, Stream: m.lanes[v.lane].user.ID, After: observe.None}
	if w := v.work; w != nil {
		switch d := w.detail.(type) {
		case record:
			t.Kind = observe.Record
			return t
		case join:
			t.Kind, t.After = observe.Wait, d.task
			return t
		case *external:
			t.Kind = observe.Wait
			if d.record {
				t.Kind = observe.Record
			}
			return t
		}
	}
	if op := v.touched(); op != nil {
		w := m.rt.Observed(op)
		t.Kind, t.Direction, t.Memory, t.Bytes = w.Kind, w.Direction, w.Memory, w.Bytes
		t.Segments, t.Name = w.Segments, w.Name
	}
	return t
}
