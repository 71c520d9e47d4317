package model

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// A model that is built by hand has streams bound to it: it keeps the tasks submitted to them, as in a capture, and
// compiles them when it is complete. It differs from a captured model in its begin and end (streams that others
// activate, and a mark), and in tasks that start streams or jump (control.go).

// IsBuilt reports whether the model is built by hand.
func (m *Model) IsBuilt() bool { return m.built }

// streamDefault is ACL_MODEL_STREAM_FLAG_DEFAULT: another stream starts it.
const streamDefault = 0x7FFFFFFF

// MdlRIBuildBegin is aclmdlRIBuildBegin.
func MdlRIBuildBegin(t *core.Thread, modelRI *core.Handle, flag uint32) *core.Error {
	const api = "aclmdlRIBuildBegin"
	c, err := checkMdlRIBuildBegin(t, modelRI, flag)
	if err != nil {
		return err
	}
	m := newBuilt(c)
	if m == nil {
		return core.Fail(api, abi.ErrRTNoModelResource, "",
			"the process has as many models as there are handles; destroy some")
	}
	*modelRI = m.handle
	return nil
}

// persistent refuses streams that run their tasks themselves.
func persistent(t *core.Thread, api string, s *core.Stream) *core.Error {
	if s != nil && s.Flags()&abi.StreamPersistent == 0 {
		return core.Refused(api, "stream", "stream %d was not made with ACL_STREAM_PERSISTENT", s.ID)
	}
	return nil
}

// uncapturedStream refuses a stream that is being captured.
func uncapturedStream(t *core.Thread, api string, s *core.Stream) *core.Error {
	if s.IsCaptured() {
		return core.Captured(api, s)
	}
	return nil
}

// bindable refuses streams that a model cannot have.
func bindable(t *core.Thread, api string, s *core.Stream) *core.Error {
	switch {
	case s == nil:
		return nil
	case s.StopsOnFailure():
		return core.Unsupported(api, "stream", "stream %d stops on failure (aclrtSetStreamFailureMode)", s.ID)
	case s.Flags()&abi.StreamFastLaunch != 0:
		return core.Unsupported(api, "stream", "stream %d was made with ACL_STREAM_FAST_LAUNCH", s.ID)
	}
	return nil
}

// MdlRIBindStream is aclmdlRIBindStream.
func MdlRIBindStream(t *core.Thread, modelRI, stream core.Handle, flag uint32) *core.Error {
	const api = "aclmdlRIBindStream"
	m, s, _, err := checkMdlRIBindStream(t, modelRI, stream, flag)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone || m.state != modelBuilding {
		return core.Refused(api, "modelRI", "model %d is complete, and takes no more streams", m.id)
	}
	l := m.addLane(s, true)
	if l == nil {
		return core.Fail(api, abi.ErrRTNoStreamResource, "",
			"the process has as many streams as there are handles; destroy some")
	}
	l.waits = flag == streamDefault
	if !s.EnterCapture(&l.self) {
		m.lanes = m.lanes[:l.index]
		l.own.EndHidden()
		return isBound(api, "stream", s)
	}
	m.watchLane(t, l)
	return nil
}

func isBound(api, arg string, s *core.Stream) *core.Error {
	return core.Fail(api, abi.ErrRTStreamModel, arg, "stream %d is bound to a model", s.ID)
}

// boundLane returns the lane of a stream that is bound to the model; nil if it is not.
func (m *Model) boundLane(s *core.Stream) *lane {
	if l, _ := s.Lane().(*lane); l != nil && l.bound && l.model == m {
		return l
	}
	return nil
}

// boundTo refuses a stream that is not bound to the model.
func boundTo(t *core.Thread, api string, s *core.Stream, m *Model) *core.Error {
	if m.boundLane(s) == nil {
		return core.Fail(api, abi.ErrRTStreamModel, "stream", "is not bound to model %d", m.id)
	}
	return nil
}

// MdlRIUnbindStream is aclmdlRIUnbindStream: the tasks of the stream are dropped.
func MdlRIUnbindStream(t *core.Thread, modelRI, stream core.Handle) *core.Error {
	const api = "aclmdlRIUnbindStream"
	m, s, _, err := checkMdlRIUnbindStream(t, modelRI, stream)
	if err != nil {
		return err
	}
	if !m.awaitIdle(t.Runtime.Patience) {
		return core.Fail(api, abi.ErrRTModelRunning, "modelRI", "model %d is running; abort it first", m.id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.boundLane(s)
	if l == nil || m.gone {
		return boundTo(t, api, s, m) // another thread was faster
	}
	l.left = true
	l.user.LeaveCapture(&l.self)
	l.clear()
	if m.state == modelReady {
		m.compile()
	}
	return nil
}

// clear drops the tasks of the lane. Model.mu is held.
func (l *lane) clear() {
	for _, i := range l.tasks {
		v := &l.model.tasks[i]
		if v.more == nil {
			v.more = &taskMore{kind: nopTask}
		}
		v.more.off = true
		l.model.watchChange(nil, int(i))
	}
	l.tasks = nil
}

// Clear implements core.Lane. The model takes tasks again, until aclmdlRIBuildEnd.
func (l *lane) Clear() bool {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != modelReady || m.runs.Load() > 0 {
		return false
	}
	l.clear()
	m.state, m.marked = modelBuilding, false
	for i := range m.tasks {
		k := m.tasks[i].more
		m.marked = m.marked || k != nil && k.kind == endTask && !k.off
	}
	return true
}

// boundHere refuses to mark the end of the model on a stream that is not bound to it.
func boundHere(t *core.Thread, api string, m *Model, s *core.Stream) *core.Error {
	if m.boundLane(s) == nil {
		return core.Fail(api, abi.ErrRTInternalError, "stream", "is not bound to model %d", m.id)
	}
	return nil
}

// unmarked refuses a second mark, if the product does.
func unmarked(t *core.Thread, api string, m *Model) *core.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marked && t.Product("910") {
		return core.Fail(api, abi.ErrRTInternalError, "modelRI", "model %d has an end already", m.id)
	}
	return nil
}

// MdlRIEndTask is aclmdlRIEndTask.
func MdlRIEndTask(t *core.Thread, modelRI, stream core.Handle) *core.Error {
	const api = "aclmdlRIEndTask"
	m, s, _, done, err := checkMdlRIEndTask(t, modelRI, stream)
	if done || err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.boundLane(s)
	if l == nil {
		return core.Fail(api, abi.ErrRTInternalError, "stream", "is not bound to model %d", m.id)
	}
	if err := l.checkOpen(api); err != nil {
		return err
	}
	m.marked = true
	l.add(t, &taskMore{kind: endTask})
	return nil
}

// checkOpen refuses tasks for a stream of a complete model. Model.mu is held.
func (l *lane) checkOpen(api string) *core.Error {
	if l.bound && l.model.state != modelBuilding {
		return core.Refused(api, "stream", "stream %d is bound to model %d, which is complete and takes no more tasks",
			l.user.ID, l.model.id)
	}
	return nil
}

// anyBound refuses a model without streams.
func anyBound(t *core.Thread, api string, m *Model) *core.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lanes {
		if !l.left {
			return nil
		}
	}
	return core.Fail(api, abi.ErrRTStreamModel, "modelRI", "no stream is bound to model %d", m.id)
}

// needsMark reports whether a model of the product ends at a mark, not with its streams.
func needsMark(rt *core.Runtime) bool { return rt.Product.Name != "310P" && rt.Product.Name != "310" }

// marked refuses a model that has no end.
func marked(t *core.Thread, api string, m *Model) *core.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.marked && needsMark(m.rt) {
		return core.Fail(api, abi.ErrRTModelExecute, "modelRI", "model %d has no end; call aclmdlRIEndTask", m.id)
	}
	return nil
}

// MdlRIBuildEnd is aclmdlRIBuildEnd: it compiles the model.
func MdlRIBuildEnd(t *core.Thread, modelRI core.Handle, reserve core.Addr) *core.Error {
	m, _, err := checkMdlRIBuildEnd(t, modelRI, reserve)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == modelBuilding {
		m.compile()
		m.state = modelReady
	}
	return nil
}

// loaded refuses an incomplete model that is built by hand.
func (m *Model) loaded(api string) *core.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.built || m.state == modelReady && (m.marked || !needsMark(m.rt)):
		return nil
	case !m.marked && needsMark(m.rt):
		return core.Fail(api, abi.ErrRTModelExecute, "modelRI", "model %d has no end; call aclmdlRIEndTask", m.id)
	}
	return core.Fail(api, abi.ErrRTModelExecute, "modelRI", "model %d is not complete; call aclmdlRIBuildEnd", m.id)
}

// MdlRIExecute is aclmdlRIExecute: the model runs on the default stream, and the call waits.
func MdlRIExecute(t *core.Thread, modelRI core.Handle, timeout int32) *core.Error {
	const api = "aclmdlRIExecute"
	m, c, err := checkMdlRIExecute(t, modelRI, timeout)
	if err != nil {
		return err
	}
	s := c.Default
	if err := m.execute(api, t, c, s); err != nil {
		return err
	}
	w := core.WaitLimit{}
	if timeout > 0 {
		w.Timeout = time.Duration(timeout) * time.Millisecond
	}
	err = t.ObserveWait(api, s, func(int64) *core.Error { return s.Wait(api, w) })
	if err != nil && err.Code == abi.ErrRTStreamSyncTimeout {
		core.Locked(&m.mu, func() { m.late = s })
	}
	return err
}

// starts adds a task that starts another stream. Model.mu is held.
func (l *lane) starts(t *core.Thread, api string, target *lane, k *taskMore) *core.Error {
	if err := l.checkOpen(api); err != nil {
		return err
	}
	k.target = target
	l.add(t, k)
	return nil
}

// ActiveStream is aclrtActiveStream.
func ActiveStream(t *core.Thread, activeStream, stream core.Handle) *core.Error {
	const api = "aclrtActiveStream"
	other, s, _, err := checkActiveStream(t, activeStream, stream)
	if err != nil {
		return err
	}
	return control(t, api, s, other, &taskMore{kind: activateTask})
}

// control adds a task to a bound stream that starts another one.
func control(t *core.Thread, api string, s, other *core.Stream, k *taskMore) *core.Error {
	l, _ := s.Lane().(*lane)
	target, _ := other.Lane().(*lane)
	if l == nil || target == nil || !l.bound || !target.bound {
		return core.Fail(api, abi.ErrRTStreamModel, "stream", "stream %d is not bound to a model any more", s.ID)
	}
	l.model.mu.Lock()
	defer l.model.mu.Unlock()
	return l.starts(t, api, target, k)
}

// elsewhereFirst refuses a stream of another context, if the product checks that first.
func elsewhereFirst(t *core.Thread, api string, s *core.Stream) *core.Error {
	if c := t.Current(); t.Product("950") && c != nil {
		_, err := c.On(api, s)
		return err
	}
	return nil
}

// SwitchStream is aclrtSwitchStream.
func SwitchStream(t *core.Thread, leftValue core.Addr, cond abi.Condition, rightValue core.Addr,
	dataType abi.CompareDataType, trueStream, falseStream, stream core.Handle) *core.Error {
	const api = "aclrtSwitchStream"
	other, s, _, err := checkSwitchStream(t, leftValue, cond, rightValue, dataType, trueStream, falseStream, stream)
	if err != nil {
		return err
	}
	n := uint64(4)
	if dataType == abi.SwitchInt64 {
		n = 8
	}
	k := &taskMore{kind: switchTask, cond: cond,
		op: driver.Op{Kind: driver.OpCompute, Dst: rightValue, Src: leftValue, N: n}}
	return control(t, api, s, other, k)
}

// holds reports whether a comparison of two numbers of n bytes is true.
func holds(cond abi.Condition, left, right, n uint64) bool {
	a, b := int64(left), int64(right)
	if n == 4 {
		a, b = int64(int32(left)), int64(int32(right))
	}
	switch cond {
	case abi.ConditionEqual:
		return a == b
	case abi.ConditionNotEqual:
		return a != b
	case abi.ConditionGreater:
		return a > b
	case abi.ConditionGreaterOrEqual:
		return a >= b
	case abi.ConditionLess:
		return a < b
	}
	return a <= b
}

// MarkBarrier implements core.Lane.
func (l *lane) MarkBarrier(t *core.Thread, number uint32) {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left || l.checkOpen("") != nil {
		return
	}
	inner := &innerEvent{task: int32(len(m.tasks))}
	l.add(t, &taskMore{kind: recordTask, record: inner})
	if m.barriers == nil {
		m.barriers = map[uint32][]*innerEvent{}
	}
	m.barriers[number] = append(m.barriers[number], inner)
}

// AwaitBarrier implements core.Lane.
func (l *lane) AwaitBarrier(t *core.Thread, number uint32) bool {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left || l.checkOpen("") != nil {
		return false
	}
	for _, inner := range m.barriers[number] {
		inner.waits++
		l.add(t, &taskMore{kind: joinTask, record: inner})
	}
	return len(m.barriers[number]) > 0
}
