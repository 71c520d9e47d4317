package model

import (
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// A capture turns the tasks submitted to a stream into tasks of a model. Other streams join it when they wait for an
// event that was recorded in it. A stream in a capture has a lane, which every submission checks once.

// capture is the state of a model that takes tasks. A model that is built by hand keeps it, as its streams may take
// tasks again.
type capture struct {
	by       *core.Thread // the thread that began the capture; nil for a model that is built by hand
	mode     abi.MdlRICaptureMode
	broke    abi.Code                 // code of ending a task group, if the capture is invalid
	events   []*core.Event            // events whose newest captured record is here
	group    *taskGroup               // the open group, or nil
	barriers map[uint32][]*innerEvent // of cache operations, by number
	marked   bool                     // aclmdlRIEndTask was called
}

// uncapturable are the flags of streams that cannot be captured.
const uncapturable = abi.StreamCpuSchedule | abi.StreamDeviceUseOnly

// capturable refuses streams whose flags do not allow a capture.
func capturable(t *core.Thread, api string, s *core.Stream) *core.Error {
	flags := uint32(uncapturable)
	if t.Product("950") {
		flags |= abi.StreamPersistent
	}
	if s.Flags()&flags != 0 {
		return core.Fail(
			api,
			abi.ErrRTInternalError,
			"stream",
			"stream %d was made with flags %#x, and those of %#x cannot be captured",
			s.ID,
			s.Flags(),
			s.Flags()&flags,
		)
	}
	return nil
}

// noImplicit refuses the default stream of the context.
func noImplicit(t *core.Thread, api string, s *core.Stream, c *core.Context) *core.Error {
	if s == c.Default {
		return core.Unsupported(api, "stream", "is the default stream of the context, which cannot be captured")
	}
	return nil
}

// MdlRICaptureBegin is aclmdlRICaptureBegin.
func MdlRICaptureBegin(t *core.Thread, stream core.Handle, mode abi.MdlRICaptureMode) *core.Error {
	const api = "aclmdlRICaptureBegin"
	s, c, err := checkMdlRICaptureBegin(t, stream, mode)
	if err != nil {
		return err
	}
	m := newModel(c, nil)
	if m == nil {
		return core.Fail(api, abi.ErrRTNoStreamResource, "",
			"the process has as many models as there are handles; destroy some")
	}
	if err := m.capture(api, t, s, mode); err != nil {
		m.destroy()
		return err
	}
	return nil
}

// capture begins to capture a stream into the model, which is empty.
func (m *Model) capture(api string, t *core.Thread, s *core.Stream, mode abi.MdlRICaptureMode) *core.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone || m.state != modelEmpty {
		return core.Fail(api, abi.ErrRTModelCaptured, "modelRI", "something was captured into model %d meanwhile", m.id)
	}
	l := m.addLane(s, false)
	switch {
	case l == nil:
		return m.noStream(api, "")
	case !s.EnterCapture(&l.self):
		m.lanes = nil
		l.own.EndHidden()
		return core.Captured(api, s)
	}
	m.state, m.open = modelOpen, &capture{by: t, mode: mode}
	m.ctx.CaptureBegan(t, mode)
	m.watchLane(t, l)
	return nil
}

// Bound implements core.Lane.
func (l *lane) Bound() bool { return l.bound }

// Sub implements core.Lane.
func (l *lane) Sub() bool { return l.model.IsSub() }

// Text implements core.Lane.
func (l *lane) Text() string {
	if l.bound {
		return fmt.Sprintf("stream %d is bound to model %d", l.user.ID, l.model.id)
	}
	return fmt.Sprintf("stream %d is being captured into model %d%s", l.user.ID, l.model.id, l.model.begunBy())
}

// Capture implements core.Joiner.
func (m *Model) Capture() (text string, model uint32) {
	by := m.begunBy()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lanes) == 0 {
		return "a capture", m.id
	}
	return fmt.Sprintf("the capture of stream %d into model %d%s", m.lanes[0].user.ID, m.id, by), m.id
}

// begunBy returns a text about the thread that began the capture.
func (m *Model) begunBy() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil || m.open.by == nil || m.open.by.ID() == 0 {
		return ""
	}
	return fmt.Sprintf(", which thread %d began", m.open.by.ID())
}

// leave removes the streams and events from the capture, which is over. mu is held.
func (m *Model) leave() {
	for _, l := range m.lanes {
		if !l.left {
			l.left = true
			l.user.LeaveCapture(&l.self)
		}
	}
	if o := m.open; o != nil && !m.built {
		m.open = nil
		m.ctx.CaptureEnded(o.by, o.mode)
		if c := m.rt.Checker(); c != nil {
			c.CaptureEnded(m.id)
		}
		for _, e := range o.events {
			e.LeaveCapture(m)
		}
	}
}

// invalidate makes the capture end in an error, and keeps the first reason. mu is held.
func (m *Model) invalidate(t *core.Thread, api, why string) {
	if m.state != modelOpen {
		return
	}
	m.state = modelInvalid
	if m.open.broke == 0 {
		m.open.broke = abi.ErrRTStreamCaptureInvalidated
	}
	m.why = api + why
	if t != nil && t.ID() != 0 {
		m.why = fmt.Sprintf("%s in thread %d%s", api, t.ID(), why)
	}
}

// MdlRICaptureGetInfo is aclmdlRICaptureGetInfo.
func MdlRICaptureGetInfo(
	t *core.Thread,
	stream core.Handle,
	status *abi.MdlRICaptureStatus,
	modelRI *core.Handle,
) *core.Error {
	const api = "aclmdlRICaptureGetInfo"
	if err := checkMdlRICaptureGetInfo(t, stream, status, modelRI); err != nil {
		return err
	}
	if status == nil && modelRI == nil {
		return core.Invalid(api, "status", "is NULL, and so is modelRI: there is nothing to find out")
	}
	if err := t.Lacks(api); err != nil {
		return err
	}
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	state, model := abi.ModelRiCaptureStatusNone, core.Handle(0)
	if l := laneOf(s); l != nil {
		state, model = abi.ModelRiCaptureStatusActive, l.model.handle
	}
	if status != nil {
		*status = state
	}
	if modelRI != nil {
		*modelRI = model
	}
	return nil
}

// needsModel refuses to end a capture without a place for its model.
func needsModel(t *core.Thread, api string, s *core.Stream, modelRI *core.Handle) *core.Error {
	if l := laneOf(s); modelRI == nil && l != nil && !l.model.IsSub() {
		return core.Refused(api, "modelRI", "is NULL, and the capture of stream %d ends in a model; it goes on", s.ID)
	}
	return nil
}

// MdlRICaptureEnd is aclmdlRICaptureEnd.
func MdlRICaptureEnd(t *core.Thread, stream core.Handle, modelRI *core.Handle) *core.Error {
	const api = "aclmdlRICaptureEnd"
	s, _, err := checkMdlRICaptureEnd(t, stream, modelRI)
	if err != nil {
		return err
	}
	l := laneOf(s)
	if l == nil {
		return notCaptured(api, s) // it ended since
	}
	m := l.model
	open := false
	core.Locked(&m.mu, func() { open = !l.left })
	if open && !m.IsSub() {
		*modelRI = 0
	}
	if over, err := l.endCapture(api, t); err != nil {
		switch {
		case !over || m.IsSub():
		case err.Code == abi.ErrRTStreamCaptureWrongThread: // the program has to destroy the model
			t.Acquired(m.resource())
		default:
			m.destroy()
		}
		return err
	}
	if modelRI != nil {
		*modelRI = m.handle
	}
	if !m.IsSub() {
		t.Acquired(m.resource())
	}
	return nil
}

// endCapture ends the capture that began on the stream of l; over is false if it goes on.
func (l *lane) endCapture(api string, t *core.Thread) (over bool, err *core.Error) {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left {
		return false, notCaptured(api, l.user)
	}
	if l.index != 0 {
		err := core.Fail(api, abi.ErrRTStreamCaptureUnmatched, "stream",
			"stream %d joined the capture that began on stream %d; end it there", l.user.ID, m.lanes[0].user.ID)
		err.Stream = l.user.ID
		return false, err.InCapture(m.id)
	}
	if err = m.complete(api, t); err != nil {
		m.state = modelLost
		err = err.InCapture(m.id)
	}
	m.leave()
	return true, err
}

func notCaptured(api string, s *core.Stream) *core.Error {
	return core.Fail(api, abi.ErrRTStreamNotCaptured, "stream", "stream %d is not being captured", s.ID)
}

// complete ends the capture: it makes the model ready, or returns why the capture is invalid. mu is held.
func (m *Model) complete(api string, t *core.Thread) *core.Error {
	switch {
	case m.open.mode != abi.ModelRiCaptureModeRelaxed && m.open.by != t && !t.Shared:
		return core.Fail(
			api,
			abi.ErrRTStreamCaptureWrongThread,
			"stream",
			"thread %d ends a capture that thread %d began; only a relaxed one may be ended by another thread",
			t.ID(),
			m.open.by.ID(),
		)
	case m.state == modelInvalid:
		return core.Fail(api, abi.ErrRTStreamCaptureInvalidated, "stream", "the capture is invalid since %s", m.why)
	}
	if sub := m.unfinished(); sub != nil {
		return core.Fail(api, abi.ErrRTSubAclgraphIsCapturing, "stream",
			"model %d, which a condition task of model %d runs, was not captured to its end", sub.id, sub.parent.id)
	}
	if g := m.open.group; g != nil {
		return core.Fail(api, abi.ErrStreamTaskGroupStatus, "stream",
			"a task group is still open on stream %d; the capture is over, and there is no model", g.lane.user.ID)
	}
	for _, l := range m.lanes[1:] {
		if err := l.joined(api); err != nil {
			return err
		}
	}
	m.compile()
	m.state = modelReady
	return nil
}

// joined refuses a lane whose end no task of another lane waits for. Model.mu is held.
func (l *lane) joined(api string) *core.Error {
	m := l.model
	unjoined := func(why string) *core.Error {
		e := core.Fail(
			api,
			abi.ErrRTStreamUnjoined,
			"stream",
			"stream %d joined the capture and %s; record an event on it last, and let stream %d wait for that",
			l.user.ID,
			why,
			m.lanes[0].user.ID,
		)
		e.Stream = l.user.ID
		return e
	}
	if len(l.tasks) == 0 {
		return unjoined("has no task")
	}
	if w := m.tasks[l.tasks[len(l.tasks)-1]].work; w != nil {
		if last, ok := w.detail.(record); ok && last.waits > 0 {
			return nil
		} else if ok {
			return unjoined("nobody waits for its last record")
		}
	}
	return unjoined("ends with a task that is no record of an event")
}
