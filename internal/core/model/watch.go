package model

import (
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

// watchTask reports the last task, which t has submitted. mu is held.
func (m *Model) watchTask(t *core.Thread) {
	if m.rt.Checker() != nil {
		i := len(m.tasks) - 1
		m.watchBatch(t, i, m.touches(i))
	}
}

// watchBatch reports tasks[first:], the segments of a batch that t has submitted. mu is held.
func (m *Model) watchBatch(t *core.Thread, first int, op *driver.Op) {
	if c := m.rt.Checker(); c != nil && first < len(m.tasks) {
		v := &m.tasks[first]
		c.Captured(t, m.id, first, m.lanes[v.lane].own.ID, v.number, op)
	}
}

// watchChange reports a change of a task. mu is held.
func (m *Model) watchChange(t *core.Thread, task int) {
	if c := m.rt.Checker(); c != nil {
		c.ModelChanged(t, m.id, task, m.touches(task))
	}
}

// watchEnd reports that the capture is over.
func (m *Model) watchEnd() {
	if c := m.rt.Checker(); c != nil {
		c.CaptureEnded(m.id)
	}
}

// touches returns an operation with the memory that a task touches; nil if it touches none. mu is held.
func (m *Model) touches(i int) *driver.Op {
	v := &m.tasks[i]
	k := v.more
	switch {
	case k == nil:
		return &driver.Op{Kind: driver.OpCopy, Dst: v.dst, Src: v.src, N: v.n}
	case k.off:
		return nil
	case k.kind == branchTask:
		return &driver.Op{Kind: driver.OpCompute, Src: k.branch.cond.addr, N: condBytes}
	case k.kind == switchTask || k.kind == jumpTask:
		return &driver.Op{Kind: driver.OpCompute, Src: k.op.Src, N: k.op.N}
	case k.kind != workTask && k.kind != waitTask:
		return nil
	}
	return &k.op
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

// trace reports the model to a tracer. mu is held.
func (m *Model) trace() {
	o := m.rt.Tracer()
	if o == nil {
		return
	}
	m.findPieces()
	g := observe.ModelGraph{Number: m.id, Version: m.version, Tasks: make([]observe.ModelTask, len(m.tasks))}
	for i := range m.tasks {
		g.Tasks[i] = m.traced(i)
		g.Tasks[i].Piece = m.pieces[i]
	}
	o.Modelled(&g)
}

// traced returns a task for a tracer. mu is held.
func (m *Model) traced(i int) observe.ModelTask {
	v := &m.tasks[i]
	t := observe.ModelTask{Kind: observe.Other, Stream: m.lanes[v.lane].user.ID, After: observe.None}
	if k := v.more; k != nil {
		switch k.kind {
		case recordTask:
			t.Kind = observe.Record
			return t
		case joinTask:
			t.Kind, t.After = observe.Wait, k.record.task
			return t
		case externalTask:
			t.Kind = observe.Wait
			if m.externals[k.place].record {
				t.Kind = observe.Record
			}
			return t
		}
	}
	if op := m.touches(i); op != nil {
		w := m.rt.Observed(op)
		t.Kind, t.Direction, t.Memory, t.Bytes = w.Kind, w.Direction, w.Memory, w.Bytes
		t.Segments, t.Name = w.Segments, w.Name
	}
	return t
}
