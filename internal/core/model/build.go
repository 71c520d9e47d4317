package model

import (
	"slices"
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
	m := stateOf(c.Runtime).add(&Model{rt: c.Runtime, ctx: c, built: true, state: modelBuilding, open: &capture{}})
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
		return core.Fail(api, abi.ErrRTStreamModel, "stream", "stream %d is bound to a model", s.ID)
	}
	m.watchLane(t, l)
	return nil
}

// laneBound returns the lane of a stream that is bound to a model; nil if it is not.
func laneBound(s *core.Stream) *lane {
	if l, _ := s.Lane().(*lane); l != nil && l.bound {
		return l
	}
	return nil
}

// boundLane returns the lane of a stream that is bound to the model; nil if it is not.
func (m *Model) boundLane(s *core.Stream) *lane {
	if l := laneBound(s); l != nil && l.model == m {
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
		return isRunning(api, m)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.boundLane(s)
	if l == nil || m.gone {
		return boundTo(t, api, s, m) // another thread was faster
	}
	if !m.withdraw() {
		return isRunning(api, m)
	}
	l.left = true
	l.user.LeaveCapture(&l.self)
	l.clear()
	if m.state == modelReady {
		m.compile()
	}
	return nil
}

func isRunning(api string, m *Model) *core.Error {
	return core.Fail(api, abi.ErrRTModelRunning, "modelRI", "model %d is running; abort it first", m.id)
}

// clear drops the tasks of the lane. Model.mu is held.
func (l *lane) clear() {
	for _, i := range l.tasks {
		v := &l.model.tasks[i]
		if v.work == nil {
			v.work = &work{detail: nothing{}}
		}
		v.work = v.work.disabled()
		l.model.watchChange(nil, i)
	}
	l.tasks = nil
}

// Clear implements core.Lane. The model takes tasks again, until aclmdlRIBuildEnd.
func (l *lane) Clear() bool {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != modelReady || !m.withdraw() {
		return false
	}
	l.clear()
	m.state = modelBuilding
	m.open.marked = slices.ContainsFunc(m.tasks, func(v task) bool {
		return v.work != nil && v.work.detail == endMark{} && !v.work.off
	})
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
	if m.open.marked && t.Product("910") {
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
	if err := boundHere(t, api, m, s); err != nil {
		return err
	}
	l := m.boundLane(s)
	if err := l.checkOpen(api); err != nil {
		return err
	}
	m.open.marked = true
	l.add(t, &work{detail: endMark{}})
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
	if !m.open.marked && needsMark(m.rt) {
		return m.noEnd(api)
	}
	return nil
}

func (m *Model) noEnd(api string) *core.Error {
	return core.Fail(api, abi.ErrRTModelExecute, "modelRI", "model %d has no end; call aclmdlRIEndTask", m.id)
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

// MdlRIExecute is aclmdlRIExecute: the model runs on the default stream, and the call waits.
func MdlRIExecute(t *core.Thread, modelRI core.Handle, timeout int32) *core.Error {
	const api = "aclmdlRIExecute"
	m, c, err := checkMdlRIExecute(t, modelRI, timeout)
	if err != nil {
		return err
	}
	s := c.Default
	if _, err := m.execute(api, t, c, s); err != nil {
		return err
	}
	w := core.WaitLimit{}
	if timeout > 0 {
		w.Timeout = time.Duration(timeout) * time.Millisecond
	}
	err = t.ObserveWait(api, s, func(int64) *core.Error { return s.Wait(api, w) })
	if err != nil && err.Code == abi.ErrRTStreamSyncTimeout {
		core.Locked(&m.mu, func() { m.running.late = s })
	}
	return err
}

// ActiveStream is aclrtActiveStream.
func ActiveStream(t *core.Thread, activeStream, stream core.Handle) *core.Error {
	const api = "aclrtActiveStream"
	other, s, _, err := checkActiveStream(t, activeStream, stream)
	if err != nil {
		return err
	}
	return control(t, api, s, other, func(target *lane) *work { return &work{detail: activate{target}} })
}

// control adds a task to a bound stream that may start another one, or jump there.
func control(t *core.Thread, api string, s, other *core.Stream, make func(target *lane) *work) *core.Error {
	l, target := laneBound(s), laneBound(other)
	if l == nil || target == nil {
		return isUnbound(api, s)
	}
	l.model.mu.Lock()
	defer l.model.mu.Unlock()
	if err := l.checkOpen(api); err != nil {
		return err
	}
	l.add(t, make(target))
	return nil
}

func isUnbound(api string, s *core.Stream) *core.Error {
	return core.Fail(api, abi.ErrRTStreamModel, "stream", "stream %d is not bound to a model any more", s.ID)
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
	op := driver.Op{Kind: driver.OpCompute, Dst: rightValue, Src: leftValue, N: n}
	return control(t, api, s, other, func(target *lane) *work {
		return &work{op: op, detail: &choice{target, cond}}
	})
}

// holds reports whether the comparison of two numbers of n bytes is true.
func (c *choice) holds(left, right, n uint64) bool {
	a, b := int64(left), int64(right)
	if n == 4 {
		a, b = int64(int32(left)), int64(int32(right))
	}
	switch c.cond {
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
	l.add(t, &work{detail: record{inner}})
	o := m.open
	if o.barriers == nil {
		o.barriers = map[uint32][]*innerEvent{}
	}
	o.barriers[number] = append(o.barriers[number], inner)
}

// AwaitBarrier implements core.Lane.
func (l *lane) AwaitBarrier(t *core.Thread, number uint32) bool {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left || l.checkOpen("") != nil {
		return false
	}
	marked := m.open.barriers[number]
	for _, inner := range marked {
		inner.waits++
		l.add(t, &work{detail: join{inner}})
	}
	return len(marked) > 0
}
