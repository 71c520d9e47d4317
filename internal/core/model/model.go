package model

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Model is work of one context that is captured from streams, to be run as often as it is executed.
//
// Tasks are appended while it is captured. When it is complete they are compiled (modelplan.go), and an execution is
// one task of the stream it is launched on (modelrun.go).
type Model struct {
	rt     *core.Runtime // immutable
	ctx    *core.Context // immutable
	handle core.Handle   // immutable
	id     uint32        // immutable
	parent *Model        // immutable; whose condition task it belongs to; nil: none
	built  bool          // immutable; by hand, with streams that are bound to it

	runs atomic.Int32 // executions that are queued or running
	ends func()       // immutable; ends an execution

	mu        sync.Mutex
	state     modelState               // guarded by mu
	gone      bool                     // guarded by mu; it is destroyed
	broke     abi.Code                 // guarded by mu; what the end of a task group returns for an invalid capture
	why       string                   // guarded by mu; why the capture is invalid, or the model unusable
	name      string                   // guarded by mu
	mode      abi.MdlRICaptureMode     // guarded by mu; of the capture
	by        *core.Thread             // guarded by mu; the thread that began the capture
	counted   bool                     // guarded by mu; the capture counts for its context and thread
	lanes     []*lane                  // guarded by mu; the stream where the capture began is the first
	tasks     []modelTask              // guarded by mu while it is captured; all streams, in the order of submission
	events    []*core.Event            // guarded by mu; that have their newest captured record here
	destroys  []destroyFunc            // guarded by mu
	atEnd     []func()                 // guarded by mu; see core.Lane
	group     *taskGroup               // guarded by mu; that is open
	groups    []*taskGroup             // guarded by mu
	retired   []*driver.Launch         // guarded by mu; replaced kernels that the execution may use
	externals []external               // guarded by mu while it is captured
	marked    bool                     // guarded by mu; aclmdlRIEndTask was called
	barriers  map[uint32][]*innerEvent // guarded by mu; of cache operations, by number
	conds     []*condition             // guarded by mu
	args      []*argBlock              // guarded by mu; of kernels whose parameters were read
	branches  []*branch                // guarded by mu while it is captured
	plan      *plan                    // guarded by mu; once it is complete
	changes   []int32                  // guarded by mu; tasks that were changed since it was compiled

	running sync.Mutex   // held while lanes run: one execution at a time; see run
	current *run         // guarded by mu; what runs
	late    *core.Stream // guarded by mu; where the time of aclmdlRIExecute was up; nil: nowhere
	round   uint64       // guarded by mu; executions that have begun in lanes

	pieces  []int32 // guarded by mu; by task, as a tracer knows them
	version uint32  // guarded by mu; how often they have changed
}

// modelState is how far a model has come.
type modelState uint8

const (
	modelEmpty    modelState = iota // of a condition task, and nothing was captured into it yet
	modelBuilding                   // by hand
	modelOpen                       // being captured
	modelInvalid                    // being captured, and the capture is invalid
	modelReady
	modelChanged // tasks were changed, and aclmdlRIUpdate is outstanding
	modelFaulty  // a change failed
	modelLost    // its capture ended in an error: it can only be destroyed
)

// ModelFunc is a function that is called when a model goes.
type ModelFunc = func(userData core.Addr)

// destroyFunc is a function that the program wants to be called when a model goes.
type destroyFunc struct {
	f    core.Func[ModelFunc]
	data core.Addr
}

// lane is a stream of a model: a hidden one with the tasks that were submitted to a stream of the program while that
// was captured.
type lane struct {
	model *Model       // immutable
	user  *core.Stream // immutable; whose submissions come here
	bound bool         // immutable; user is bound to the model, rather than captured
	waits bool         // immutable; another stream starts it
	own   *core.Stream // immutable; hidden
	self  core.Lane    // immutable; the lane
	index int32        // immutable; in Model.lanes
	given given        // what own was given and has not run, for a tracer

	tasks   []int32 // guarded by Model.mu; in Model.tasks, in their order
	left    bool    // guarded by Model.mu; the user's stream goes its own way again
	invalid bool    // guarded by Model.mu; a task could not be placed
}

// modelTask is one task of a model. Most are plain copies, so that is what fits in here.
type modelTask struct {
	dst, src core.Addr
	n        uint64
	lane     int32
	number   uint32 // on its lane, as aclrtGetThreadLastTaskId gives it
	more     *taskMore
}

// taskMore is a task that is no plain copy.
type taskMore struct {
	kind  taskKind
	typ   abi.MdlRITaskType // what a program sees
	op    driver.Op         // its Done is called when the model goes
	touch bool              // it may touch memory that op does not say
	off   bool              // aclmdlRITaskDisable
	holds bool              // the model keeps its streams because of it, as it is compiled

	args   *argBlock   // the arguments of a kernel, as a program reads them; nil: it has not
	group  *taskGroup  // of a kernel; nil: none
	place  int         // of an external record or wait, in Model.externals
	record *innerEvent // a record, or the record that a wait waits for
	event  *core.Event // of the program: state events and places for external ones
	value  core.ValueParams
	order  *core.Order // what op signals or waits for, for a checker; may be nil
	branch *branch     // a condition task

	change core.Changer  // of a task that another one changes
	update *kernelUpdate // the change of a kernel
	late   bool          // a kernel that another task changes: it is looked up when its stream gets there

	target *lane         // that the task starts
	cond   abi.Condition // when it does
	list   *labelList    // where it jumps to
	most   uint32        // the largest index there
}

// waits reports whether the task may hold its stream until something happens elsewhere.
func (k *taskMore) waits() bool {
	switch k.op.Kind {
	case driver.OpAwait, driver.OpWaitCond, driver.OpHostFunc:
		return true
	}
	return k.kind == joinTask || k.kind == externalTask
}

// taskKind is what has to be done for a task when the model runs.
type taskKind uint8

const (
	workTask     taskKind = iota // op, which does not wait
	waitTask                     // op, which may wait or take long: a gate, a flag, a function of the program, a kernel
	recordTask                   // an event of the capture is recorded
	joinTask                     // an event of the capture is waited for
	externalTask                 // a place that each execution fills
	branchTask                   // a condition task
	activateTask                 // starts target
	switchTask                   // starts target and stops, if a comparison holds
	jumpTask                     // goes on at a label
	labelTask                    // a label
	endTask                      // the end of the model
	updateTask                   // changes a kernel
	nopTask
)

// innerEvent is a record of an event inside a capture.
type innerEvent struct {
	task  int32 // the record, in Model.tasks
	id    uint32
	waits int32 // tasks that wait for it
	gate  edge
	order core.Order // from the record to what waits for it, for a checker
}

// newModel makes a model of c, which belongs to a condition task of parent if that is not nil; nil if there are no
// handles left or c goes.
func newModel(c *core.Context, parent *Model) *Model {
	st := stateOf(c.Runtime)
	return addModel(st, &Model{rt: c.Runtime, ctx: c, parent: parent})
}

// newBuilt makes a model that is built by hand.
func newBuilt(c *core.Context) *Model {
	return addModel(stateOf(c.Runtime), &Model{rt: c.Runtime, ctx: c, built: true, state: modelBuilding})
}

// addModel makes m known; nil if there are no handles left or its context goes.
func addModel(st *state, m *Model) *Model {
	m.id = st.count.Add(1)
	m.ends = func() { m.runs.Add(-1) }
	if m.handle = st.table.Add(m); m.handle == 0 {
		return nil
	}
	if !st.add(m) {
		st.table.Remove(m.handle)
		return nil
	}
	return m
}

// findModel finds the model that a handle names.
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

// stateNow is the state of the model.
func (m *Model) stateNow() modelState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// addLane gives the model a hidden stream for what user is given: bound is whether that is bound rather than captured.
// nil: there is none left. mu is held.
func (m *Model) addLane(user *core.Stream, bound bool) *lane {
	l := &lane{model: m, user: user, index: int32(len(m.lanes)), bound: bound}
	l.self = l
	if l.own = m.ctx.NewHidden(l, !bound && m.holdsStreams()); l.own == nil {
		return nil
	}
	m.lanes = append(m.lanes, l)
	return l
}

// holdsStreams reports whether each stream of a capture takes one of the device: there are no queues in software.
func (m *Model) holdsStreams() bool { return !m.rt.Product.Modern }

// noStream is the error of a stream that cannot be captured because there is none left.
func (m *Model) noStream(api, arg string) *core.Error {
	if m.holdsStreams() {
		return core.Fail(api, abi.ErrRTNoStreamResource, arg,
			"device %d has its %d streams in use, and models hold one for each stream that was captured; destroy some",
			m.ctx.Device.User, m.rt.Product.Streams).InCapture(m.id)
	}
	return core.Fail(api, abi.ErrRTNoStreamResource, arg,
		"the process has as many streams as there are handles; destroy some").InCapture(m.id)
}

// destroy ends the model: functions of the program are called, and what it has is released. The first caller does it
// and gets true. wait is how long executions that are under way are waited for; a context that goes has dropped them.
func (m *Model) destroy() bool {
	m.mu.Lock()
	if m.gone {
		m.mu.Unlock()
		return false
	}
	m.gone = true
	m.release()
	m.forgetEvents()
	destroys, lanes, atEnd := m.destroys, m.lanes, m.atEnd
	m.destroys, m.atEnd = nil, nil
	current, branches, conds, args := m.current, m.branches, m.conds, m.args
	m.branches, m.conds, m.args = nil, nil, nil
	m.mu.Unlock()
	st := stateOf(m.rt)
	st.table.Remove(m.handle)
	st.remove(m)
	slices.SortFunc(destroys, func(a, b destroyFunc) int {
		switch {
		case a.f.Key < b.f.Key:
			return -1
		case a.f.Key > b.f.Key:
			return 1
		}
		return 0
	})
	for _, d := range destroys {
		d.f.Call(d.data)
	}
	if current != nil {
		current.Stop(driver.ErrAborted)
	}
	core.Locked(&m.running, func() {}) // what runs is over, and nothing begins any more
	for _, b := range branches {
		b.end()
	}
	for _, c := range conds {
		c.end()
	}
	for _, b := range args {
		m.ctx.Device.Opened.Load().Free(b.addr)
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
		if k := tasks[i].more; k != nil {
			k.release()
		}
	}
	for _, f := range atEnd {
		f()
	}
	return true
}

// release frees what the operation of a task has.
func (k *taskMore) release() {
	if k.op.Done != nil {
		k.op.Done()
	}
	if k.op.Launch != nil {
		k.op.Launch.Return()
	}
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
	if !m.built && !m.settle(t.Runtime.Patience) {
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

// settle waits until no execution is queued or running; false if that takes longer than limit.
func (m *Model) settle(limit time.Duration) bool {
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
