package model

import (
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/handles"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// taskGroup is a group of kernels of a model that a program changes in the order of a stream.
type taskGroup struct {
	lane   *lane        // immutable
	handle core.Handle  // guarded by Model.mu; 0 while it is open
	tasks  []int32      // guarded by Model.mu; in Model.tasks
	self   core.Updater // immutable; the group
	by     *core.Stream // guarded by Model.mu; the stream whose launches replace the kernels, or nil
	next   int          // guarded by Model.mu; index of the kernel that the next launch replaces
}

// Admits implements core.Lane: it refuses a task that breaks an open task group.
func (l *lane) Admits(api string, t *core.Thread, kernel bool) *core.Error {
	l.model.mu.Lock()
	defer l.model.mu.Unlock()
	return l.admits(api, t, kernel)
}

// admits is Admits with Model.mu held.
func (l *lane) admits(api string, t *core.Thread, kernel bool) *core.Error {
	m := l.model
	if err := l.checkOpen(api); err != nil {
		return err
	}
	if l.left {
		return nil
	}
	switch g := m.open.group; {
	case g == nil || g.lane == l && kernel:
		return nil
	case g.lane != l:
		m.open.broke = abi.ErrStreamTaskGroupIntr
		m.invalidate(t, api, fmt.Sprintf(" submitted to stream %d while a task group was open on stream %d", l.user.ID,
			g.lane.user.ID))
		return core.Fail(api, abi.ErrStreamTaskGroupIntr, "stream",
			"a task group is open on stream %d of the same capture, which is invalid now", g.lane.user.ID).
			InCapture(m.id)
	}
	m.open.broke = abi.ErrRTTaskTypeNotSupport
	m.invalidate(t, api, " submitted a task that is no kernel to a task group")
	return core.Fail(api, abi.ErrRTTaskTypeNotSupport, "stream",
		"a task group is open on stream %d, and takes kernels only; the capture is invalid now", l.user.ID).
		InCapture(m.id)
}

// Refuses implements core.Updater.
func (g *taskGroup) Refuses(api string) *core.Error {
	return core.Fail(api, abi.ErrRTTaskTypeNotSupport, "stream",
		"the stream updates a task group, and takes kernels only")
}

// Replace implements core.Updater: the next kernel of the group becomes l when the stream reaches the change. A launch
// that does not fit the kernel still uses up its place.
func (g *taskGroup) Replace(api string, t *core.Thread, s *core.Stream, l *driver.Launch) *core.Error {
	if s.IsCaptured() {
		l.Return()
		return core.Captured(api, s)
	}
	at, err := g.place(api, l)
	if err != nil {
		l.Return()
		return err
	}
	left := l // until the model owns it
	op := driver.Op{Kind: driver.OpFunc, Fn: func() {
		left = nil
		g.lane.model.swap(at, l)
		g.lane.model.watchUpdate(at, s, 0)
	}, Done: func() {
		if left != nil {
			left.Return()
		}
	}}
	return s.Launch(api, t, core.Task{Op: op, Kind: observe.Function, Outside: true})
}

// place returns the task that the next launch replaces.
func (g *taskGroup) place(api string, l *driver.Launch) (int32, *core.Error) {
	m := g.lane.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone || g.next >= len(g.tasks) {
		return 0, core.Fail(api, abi.ErrRTInternalError, "stream",
			"more kernels are launched than the %d of the task group", len(g.tasks))
	}
	at := g.tasks[g.next]
	g.next++
	old := m.tasks[at].work.op.Launch
	if old == nil {
		return 0, core.Fail(api, abi.ErrRTInternalError, "stream", "task %d of model %d is no kernel any more",
			at, m.id)
	}
	if was, is := kernelOf(old).Kind(), kernelOf(l).Kind(); was != is {
		return 0, core.Fail(api, abi.ErrRTInternalError, "stream",
			"the kernel is of kind %s, and the one that it replaces of kind %s", is, was)
	}
	return at, nil
}

// swap makes l the kernel of a task. The old kernel is returned once no execution can be using it.
func (m *Model) swap(at int32, l *driver.Launch) {
	old := l // if the task is no longer a kernel
	core.Locked(&m.mu, func() {
		if !m.gone && m.tasks[at].work.op.Launch != nil {
			w := m.tasks[at].work
			old, w.op.Launch = w.op.Launch, l
		}
	})
	m.root().retire(old)
}

// MdlRICaptureTaskGrpBegin is aclmdlRICaptureTaskGrpBegin.
func MdlRICaptureTaskGrpBegin(t *core.Thread, stream core.Handle) *core.Error {
	const api = "aclmdlRICaptureTaskGrpBegin"
	s, _, err := checkMdlRICaptureTaskGrpBegin(t, stream)
	if err != nil {
		return err
	}
	l := laneOf(s)
	if l == nil {
		return notCaptured(api, s)
	}
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left {
		return notCaptured(api, s)
	}
	switch g := m.open.group; {
	case s.Updater() != nil:
		return core.Fail(api, abi.ErrStreamTaskGroupStatus, "stream", "stream %d updates a task group", s.ID)
	case g != nil && g.lane == l:
		return core.Fail(api, abi.ErrStreamTaskGroupStatus, "stream", "a task group is open on stream %d already", s.ID)
	case g != nil:
		m.invalidate(t, api, " opened a second task group")
		return core.Fail(
			api,
			abi.ErrStreamTaskGroupIntr,
			"stream",
			"a task group is open on stream %d of the same capture, which is invalid now",
			g.lane.user.ID,
		).InCapture(m.id)
	}
	g := &taskGroup{lane: l}
	g.self = g
	m.open.group = g
	for range fillers(t.Runtime) {
		l.add(t, &work{detail: nothing{}})
	}
	return nil
}

// fillers returns the number of empty tasks before a task group, so that a change takes effect in time.
func fillers(rt *core.Runtime) int {
	if rt.Product.Modern {
		return 8
	}
	return 10
}

// MdlRICaptureTaskGrpEnd is aclmdlRICaptureTaskGrpEnd.
func MdlRICaptureTaskGrpEnd(t *core.Thread, stream core.Handle, handle *core.Handle) *core.Error {
	const api = "aclmdlRICaptureTaskGrpEnd"
	s, _, err := checkMdlRICaptureTaskGrpEnd(t, stream, handle)
	if err != nil {
		return err
	}
	l := laneOf(s)
	if l == nil {
		return notCaptured(api, s)
	}
	made, err := l.model.endGroup(api, l)
	if err != nil {
		return err
	}
	*handle = made
	return nil
}

// endGroup closes the open group of l and returns its handle.
func (m *Model) endGroup(api string, l *lane) (core.Handle, *core.Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left || m.open.group == nil || m.open.group.lane != l {
		return 0, core.Fail(api, abi.ErrStreamTaskGroupStatus, "stream", "no task group is open on stream %d",
			l.user.ID)
	}
	g := m.open.group
	m.open.group = nil
	if m.state == modelInvalid {
		return 0, core.Fail(api, m.open.broke, "stream", "the capture is invalid since %s", m.why)
	}
	m.groups = append(m.groups, g)
	g.handle = handles.Group.Within(m.id, uint32(len(m.groups)))
	return g.handle, nil
}

// groupOf returns the task group of a handle.
func groupOf(t *core.Thread, api string, h core.Handle) (*taskGroup, *core.Error) {
	if m, n := stateOf(t.Runtime).inside(handles.Group.Inside(h)); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if n >= 1 && n <= uint32(len(m.groups)) {
			return m.groups[n-1], nil
		}
	}
	return nil, core.Fail(
		api,
		abi.ErrRTInternalError,
		"handle",
		"%#x is no task group, or its model was destroyed",
		uintptr(h),
	)
}

// MdlRICaptureTaskUpdateBegin is aclmdlRICaptureTaskUpdateBegin.
func MdlRICaptureTaskUpdateBegin(t *core.Thread, stream, handle core.Handle) *core.Error {
	const api = "aclmdlRICaptureTaskUpdateBegin"
	s, _, err := checkMdlRICaptureTaskUpdateBegin(t, stream, handle)
	if err != nil {
		return err
	}
	g, err := groupOf(t, api, handle)
	if err != nil {
		return err
	}
	m := g.lane.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Updater() != nil {
		return core.Fail(api, abi.ErrStreamTaskGroupStatus, "stream", "stream %d updates a task group already", s.ID)
	}
	if g.by != nil && t.Runtime.Streams.Get(g.by.Handle) == g.by {
		return core.Fail(api, abi.ErrStreamTaskGroupStatus, "handle", "stream %d updates this task group", g.by.ID)
	}
	if !s.BeginUpdate(&g.self) {
		return core.Fail(api, abi.ErrStreamTaskGroupStatus, "stream", "stream %d updates a task group already", s.ID)
	}
	g.by, g.next = s, 0
	return nil
}

// MdlRICaptureTaskUpdateEnd is aclmdlRICaptureTaskUpdateEnd. It ends the update even if kernels are missing.
func MdlRICaptureTaskUpdateEnd(t *core.Thread, stream core.Handle) *core.Error {
	const api = "aclmdlRICaptureTaskUpdateEnd"
	s, _, err := checkMdlRICaptureTaskUpdateEnd(t, stream)
	if err != nil {
		return err
	}
	g, ok := s.EndUpdate().(*taskGroup)
	if !ok {
		return core.Fail(api, abi.ErrStreamTaskGroupStatus, "stream", "stream %d updates no task group", s.ID)
	}
	m := g.lane.model
	m.mu.Lock()
	defer m.mu.Unlock()
	g.by = nil
	if g.next < len(g.tasks) {
		return core.Fail(api, abi.ErrRTInternalError, "stream", "%d kernels were launched, and the task group has %d",
			g.next, len(g.tasks))
	}
	return nil
}
