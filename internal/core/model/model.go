package model

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Model is work of one context that was captured from streams and can be executed repeatedly.
//
// Its tasks are guarded by a mutex. Complete tasks are compiled into a plan, which does not change: executions look at
// the plan alone. A change of tasks first withdraws the plan, and publishes another one.
type Model struct {
	rt     *core.Runtime // immutable
	ctx    *core.Context // immutable
	handle core.Handle   // immutable
	id     uint32        // immutable
	parent *Model        // immutable; the model whose condition task it belongs to, or nil
	built  bool          // immutable; built by hand, with streams bound to it
	ends   func()        // immutable; ends an execution

	runs    atomic.Int32         // number of executions queued or running
	plan    atomic.Pointer[plan] // what executions carry out; nil if there can be none
	running execution            // the execution that uses the lanes

	mu        sync.Mutex
	state     modelState    // guarded by mu
	gone      bool          // guarded by mu; it was destroyed
	why       string        // guarded by mu; why the capture is invalid, or the model unusable
	name      string        // guarded by mu
	destroys  []destroyFunc // guarded by mu
	atEnd     []func()      // guarded by mu; see core.Lane
	open      *capture      // guarded by mu; nil when a capture is over
	lanes     []*lane       // guarded by mu; the first is that of the stream where the capture began
	tasks     []task        // guarded by mu; of all streams, in the order of submission
	groups    []*taskGroup  // guarded by mu
	externals []*external   // guarded by mu
	branches  []*branch     // guarded by mu
	args      []*argBlock   // guarded by mu; of kernels whose parameters were read
	compiled  compiled      // guarded by mu
}

// modelState is the state of a model.
type modelState uint8

const (
	modelEmpty    modelState = iota // sub-model of a condition task, before its capture
	modelBuilding                   // being built by hand
	modelOpen                       // being captured
	modelInvalid                    // being captured, and the capture is invalid
	modelReady                      // it has a plan
	modelChanged                    // tasks were changed, and aclmdlRIUpdate is outstanding
	modelFaulty                     // a change failed
	modelLost                       // its capture ended in an error: it can only be destroyed
)

// ModelFunc is called when a model is destroyed.
type ModelFunc = func(userData core.Addr)

// destroyFunc is a registered function for the destruction of a model.
type destroyFunc struct {
	f    core.Func[ModelFunc]
	data core.Addr
}

// lane is a stream of a model: a hidden stream with the tasks that were submitted to a stream of the program during the
// capture.
type lane struct {
	model   *Model       // immutable
	user    *core.Stream // immutable; the program's stream
	bound   bool         // immutable; user is bound to the model, not captured
	waits   bool         // immutable; another stream starts it
	own     *core.Stream // immutable; the hidden stream
	self    core.Lane    // immutable; the lane
	index   int32        // immutable; index in Model.lanes
	pending pending      // operations that own has not run, for a tracer

	tasks []int32 // guarded by Model.mu; indices of Model.tasks, in order
	left  bool    // guarded by Model.mu; the user's stream has left the model
}

// newModel returns a model of c, for a condition task of parent if that is not nil; nil if no handle is left or c is
// being destroyed.
func newModel(c *core.Context, parent *Model) *Model {
	return stateOf(c.Runtime).add(&Model{rt: c.Runtime, ctx: c, parent: parent})
}

// findModel returns the model of a handle.
func findModel(t *core.Thread, api, arg string, h core.Handle) (*Model, *core.Error) {
	if m := stateOf(t.Runtime).table.Get(h); m != nil {
		return m, nil
	}
	return nil, core.Fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no model, or one that was destroyed", uintptr(h)).
		Because(core.Gone, uintptr(h))
}

// ofContext refuses a model of another context than the current one.
func ofContext(t *core.Thread, api string, m *Model, c *core.Context) *core.Error {
	if m.ctx != c {
		return core.Fail(api, abi.ErrRTModelContext, "modelRI",
			"model %d belongs to context %#x, but %#x is current in this thread", m.id, uintptr(m.ctx.Handle),
			uintptr(c.Handle)).
			Because(core.OtherContext, 0)
	}
	return nil
}

// stateNow returns the state of the model.
func (m *Model) stateNow() modelState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// addLane adds a lane for user, which is bound or captured. It returns nil if no stream is left. mu is held.
func (m *Model) addLane(user *core.Stream, bound bool) *lane {
	l := &lane{model: m, user: user, index: int32(len(m.lanes)), bound: bound}
	l.self = l
	if l.own = m.ctx.NewHidden(l, !bound && m.holdsStreams()); l.own == nil {
		return nil
	}
	m.lanes = append(m.lanes, l)
	return l
}

// holdsStreams reports whether each stream of a capture uses a stream of the device: the product has no queues in
// software.
func (m *Model) holdsStreams() bool { return !m.rt.Product.Modern }

// noStream reports that the device is out of streams.
func (m *Model) noStream(api, arg string) *core.Error {
	if m.holdsStreams() {
		return core.Fail(api, abi.ErrRTNoStreamResource, arg,
			"device %d has its %d streams in use, and models hold one for each stream that was captured; destroy some",
			m.ctx.Device.User, m.rt.Product.Streams).InCapture(m.id)
	}
	return core.Fail(api, abi.ErrRTNoStreamResource, arg,
		"the process has as many streams as there are handles; destroy some").InCapture(m.id)
}

// destroy calls the registered functions of the program and releases the model. Only the first call does that and
// returns true.
func (m *Model) destroy() bool {
	m.mu.Lock()
	if m.gone {
		m.mu.Unlock()
		return false
	}
	m.gone = true
	m.leave()
	destroys, lanes, atEnd, branches := m.destroys, m.lanes, m.atEnd, m.branches
	m.destroys, m.atEnd, m.branches = nil, nil, nil
	current := m.running.current
	m.mu.Unlock()
	stateOf(m.rt).remove(m)
	slices.SortFunc(destroys, func(a, b destroyFunc) int { return cmp.Compare(a.f.Key, b.f.Key) })
	for _, d := range destroys {
		d.f.Call(d.data)
	}
	if current != nil {
		current.Stop(driver.ErrAborted)
	}
	core.Locked(&m.running.turn, func() {}) // waits for a running execution; none can begin
	for _, b := range branches {
		b.end()
	}
	m.mu.Lock()
	tasks := m.tasks
	m.tasks = nil
	m.mu.Unlock()
	for _, l := range lanes {
		l.end()
	}
	if c := m.rt.Checker(); c != nil {
		c.ModelGone(m.id)
	}
	for i := range tasks {
		tasks[i].work.release()
	}
	for _, f := range atEnd {
		f()
	}
	return true
}

// end ends the stream of a lane.
func (l *lane) end() {
	l.user.LeaveCapture(&l.self)
	l.own.EndHidden()
}

// MdlRIDestroy is aclmdlRIDestroy.
func MdlRIDestroy(t *core.Thread, modelRI core.Handle) *core.Error {
	const api = "aclmdlRIDestroy"
	m, _, err := checkMdlRIDestroy(t, modelRI)
	if err != nil {
		return err
	}
	if state := m.stateNow(); state == modelOpen || state == modelInvalid {
		return core.Fail(api, abi.ErrRTModelCaptured, "modelRI",
			"model %d is still being captured; end the capture first", m.id)
	}
	if !m.built && !m.awaitIdle(t.Runtime.Patience) {
		return core.Fail(
			api,
			abi.ErrRTModelRunning,
			"modelRI",
			"model %d still has %d executions queued or running after %v",
			m.id,
			m.runs.Load(),
			t.Runtime.Patience,
		)
	}
	return t.Releasing(m.resource(), func() *core.Error {
		if m.destroy() {
			return nil
		}
		return core.Fail(api, abi.ErrRTInvalidHandle, "modelRI", "%#x was destroyed by another thread meanwhile",
			uintptr(modelRI)).
			Because(core.Gone, uintptr(modelRI))
	})
}

// Executions returns how many executions of models are queued or running.
func Executions(rt *core.Runtime) (n int64) {
	stateOf(rt).table.Each(func(m *Model) { n += int64(m.runs.Load()) })
	return n
}

// awaitIdle waits until no execution is queued or running. It returns false if that takes longer than limit.
func (m *Model) awaitIdle(limit time.Duration) bool {
	until, pause := time.Now().Add(limit), time.Microsecond
	for ; m.runs.Load() > 0; pause = min(2*pause, time.Millisecond) {
		if time.Now().After(until) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// MdlRISetName is aclmdlRISetName.
func MdlRISetName(t *core.Thread, modelRI core.Handle, name *byte) *core.Error {
	m, _, err := checkMdlRISetName(t, modelRI, name)
	if err != nil {
		return err
	}
	text := core.CString(name)
	core.Locked(&m.mu, func() { m.name = text })
	return nil
}

// MdlRIGetName is aclmdlRIGetName.
func MdlRIGetName(t *core.Thread, modelRI core.Handle, maxLen uint32, name *byte) *core.Error {
	const api = "aclmdlRIGetName"
	m, _, err := checkMdlRIGetName(t, modelRI, maxLen, name)
	if err != nil {
		return err
	}
	var text string
	core.Locked(&m.mu, func() { text = m.name })
	if uint64(maxLen) < uint64(len(text))+1 {
		return core.Fail(
			api,
			abi.ErrRTInternalError,
			"maxLen",
			"%d bytes are too few for the name, which has %d and a 0",
			maxLen,
			len(text),
		)
	}
	copy(core.Array(name, uint64(maxLen)), text+"\x00")
	return nil
}

// MdlRIGetId is aclmdlRIGetId.
func MdlRIGetId(t *core.Thread, modelRI core.Handle, modelRIID *uint32) *core.Error {
	m, err := checkMdlRIGetId(t, modelRI, modelRIID)
	if err != nil {
		return err
	}
	*modelRIID = m.id
	return nil
}

// MdlRIDestroyRegisterCallback is aclmdlRIDestroyRegisterCallback.
func MdlRIDestroyRegisterCallback(
	t *core.Thread,
	modelRI core.Handle,
	fn core.Func[ModelFunc],
	userData core.Addr,
) *core.Error {
	const api = "aclmdlRIDestroyRegisterCallback"
	m, err := checkMdlRIDestroyRegisterCallback(t, modelRI, fn, userData)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.destroys, func(d destroyFunc) bool { return d.f.Key == fn.Key }) {
		return core.Refused(api, "func", "%#x is registered for model %d already", fn.Key, m.id)
	}
	m.destroys = append(m.destroys, destroyFunc{fn, userData})
	return nil
}

// MdlRIDestroyUnregisterCallback is aclmdlRIDestroyUnregisterCallback.
func MdlRIDestroyUnregisterCallback(t *core.Thread, modelRI core.Handle, fn core.Func[ModelFunc]) *core.Error {
	const api = "aclmdlRIDestroyUnregisterCallback"
	m, err := checkMdlRIDestroyUnregisterCallback(t, modelRI, fn)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.destroys)
	if m.destroys = slices.DeleteFunc(m.destroys, func(d destroyFunc) bool { return d.f.Key == fn.Key }); len(
		m.destroys,
	) == n {
		return core.Refused(api, "func", "%#x is not registered for model %d", fn.Key, m.id)
	}
	return nil
}
