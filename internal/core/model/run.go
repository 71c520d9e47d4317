package model

import (
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// MdlRIExecuteAsync is aclmdlRIExecuteAsync: one execution of a model is one task of the stream.
func MdlRIExecuteAsync(t *core.Thread, modelRI, stream core.Handle) *core.Error {
	const api = "aclmdlRIExecuteAsync"
	m, s, c, err := checkMdlRIExecuteAsync(t, modelRI, stream)
	if err != nil {
		return err
	}
	if s == nil {
		s = c.Default
	}
	p, err := m.execute(api, t, c, s)
	if err != nil || t.Runtime.Blocking() && p.waitsOutside() {
		return err
	}
	return s.WaitIfBlocking(api, t)
}

// execute queues an execution on a stream, if that is possible, and returns the plan.
func (m *Model) execute(api string, t *core.Thread, c *core.Context, s *core.Stream) (*plan, *core.Error) {
	p, refused := m.admit(api)
	if p == nil && !m.built { // of a model that is built by hand, the stream is checked first
		return nil, refused
	}
	_, err := c.On(api, s)
	if err == nil {
		err = refused
	}
	if err == nil {
		err = p.live(api)
	}
	if err == nil {
		err = s.Admit(api)
	}
	switch {
	case err == nil:
		p.launch(api, t, s)
	case p != nil:
		m.ends()
	}
	return p, err
}

// launchable refuses streams on which the product cannot execute models.
func launchable(t *core.Thread, api string, s *core.Stream) *core.Error {
	if s.IsUnwaited() && t.Product("950") {
		return core.Refused(
			api,
			"stream",
			"stream %d was made with flags %#x, and the %s executes no models on such streams",
			s.ID,
			s.Flags(),
			t.Runtime.Product.Name,
		)
	}
	return nil
}

// admit counts a queued execution and returns the plan. It refuses a model that is not complete.
func (m *Model) admit(api string) (*plan, *core.Error) {
	p := m.plan.Load()
	if p != nil {
		m.runs.Add(1) // before it looks again: from here on the model cannot be changed, see withdraw
		if p = m.plan.Load(); p == nil {
			m.ends()
		}
	}
	if p == nil {
		var err *core.Error
		if p, err = m.admitOrdered(api); err != nil {
			return nil, err
		}
	}
	if n := len(p.streams); n > mostStreams && !m.built {
		m.ends()
		return nil, core.Fail(api, abi.ErrRTResourceAllocFail, "modelRI",
			"model %d and its sub-models have %d streams, and an execution takes %d", m.id, n, mostStreams).
			InCapture(m.id)
	}
	return p, nil
}

// admitOrdered is admit, after or before a change in another thread, for a model without a plan at first sight.
func (m *Model) admitOrdered(api string) (*plan, *core.Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.state {
	case modelReady:
		m.runs.Add(1)
		return m.plan.Load(), nil
	case modelBuilding:
		if !m.open.marked && needsMark(m.rt) {
			return nil, m.noEnd(api)
		}
		return nil, core.Fail(api, abi.ErrRTModelExecute, "modelRI", "model %d is not complete; call aclmdlRIBuildEnd",
			m.id)
	case modelOpen, modelInvalid:
		return nil, core.Fail(api, abi.ErrRTModelCaptured, "modelRI",
			"model %d is being captured; end the capture first", m.id)
	case modelLost:
		return nil, core.Fail(api, abi.ErrRTModelCaptured, "modelRI",
			"the capture of model %d ended in an error; it can only be destroyed", m.id)
	}
	return nil, core.Fail(api, abi.ErrRTModelExecute, "modelRI", "model %d was changed %s", m.id, m.why)
}

// mostStreams is the most streams of an executable model, with those of its sub-models.
const mostStreams = 1024

// launch queues an execution on a stream.
func (p *plan) launch(api string, t *core.Thread, s *core.Stream) {
	m := p.model
	k := core.Task{Kind: observe.Model, About: uint64(m.id), Version: p.version, Outside: true}
	if p.all != nil {
		k.Op = driver.Op{Kind: driver.OpProgram, Program: p.all.Program(), Done: m.ends}
		if c, ok := k.Op.Program.Single(); ok { // as fast as a single copy
			k.Op.Kind, k.Op.Dst, k.Op.Src, k.Op.N = driver.OpCopy, c.Dst, c.Src, c.N
		}
		if m.rt.Checked() {
			k.Op.Tag = m.watchExecution(t, s)
		}
		s.Put(api, t, k)
		return
	}
	r := &run{plan: p}
	r.self = r
	dropped := s.Dropped()
	tag := m.watchExecution(t, s)
	r.times = timesOf(m.rt, s, tag)
	r.bound = p.bind(s, tag)
	s.Part(tag, driver.Op{Kind: driver.OpHostFunc, Fn: func() { r.do(s, tag.Task, dropped) }})
	for i, x := range p.externals {
		if x.record {
			s.Part(tag, r.bound.ops[i]) // if the execution did not reach it
		}
	}
	k.Op = driver.Op{Kind: driver.OpCompute, Work: r.result, Done: m.ends, Tag: tag}
	s.Put(api, t, k)
	for i, x := range p.externals {
		if x.record { // it becomes the newest record of its event
			x.event.Queued(r.bound.records[i])
		}
	}
}

// execution is the execution that uses the lanes of a model: one at a time.
type execution struct {
	turn    sync.Mutex       // held while lanes run
	current *run             // guarded by Model.mu
	late    *core.Stream     // guarded by Model.mu; stream on which aclmdlRIExecute timed out, or nil
	retired []*driver.Launch // guarded by Model.mu; replaced kernels that the execution may use
}

// retire returns a former kernel of a task to its owner, once no execution uses it.
func (m *Model) retire(l *driver.Launch) {
	x := &m.running
	m.mu.Lock()
	if x.current != nil {
		x.retired = append(x.retired, l)
		l = nil
	}
	m.mu.Unlock()
	if l != nil {
		l.Return()
	}
}

// run is one execution of a model with lanes. Its tasks go to the queues of the hidden streams, and the stream it was
// launched on waits until these are empty.
type run struct {
	plan    *plan          // immutable
	self    core.Execution // immutable; the run
	bound   bound          // immutable
	times   *times         // immutable; nil without a tracer
	stopped atomic.Bool
	err     atomic.Pointer[error] // why it failed

	ending sync.Mutex // only locks of queues are taken while it is held
	over   bool       // guarded by ending; the lanes belong to the next execution
}

// do runs the model. Executions of one model run one after another, in the order in which their streams reach them.
func (r *run) do(s *core.Stream, task uint32, dropped func() bool) {
	m := r.plan.model
	x := &m.running
	x.turn.Lock()
	defer x.turn.Unlock()
	gone := false
	core.Locked(&m.mu, func() {
		if gone = m.gone; !gone {
			x.current = r
		}
	})
	if gone {
		r.fail(driver.ErrAborted)
		return
	}
	s.BeginExecution(&r.self)
	if c := m.rt.Checker(); c != nil {
		c.ExecutionBegins(m.id, s.ID, task)
	}
	if dropped() {
		r.Stop(driver.ErrAborted)
	}
	for _, c := range r.plan.conditions {
		if err := c.write(c.value); err != nil {
			r.Stop(modelFailure{err})
			break
		}
	}
	r.pass(r.plan, nil)
	s.EndExecution(&r.self)
	var retired []*driver.Launch
	core.Locked(&m.mu, func() { x.current, retired, x.retired = nil, x.retired, nil })
	for _, l := range retired {
		l.Return()
	}
	r.end()
}

// end releases the lanes: Stop then has no effect.
func (r *run) end() {
	r.ending.Lock()
	defer r.ending.Unlock()
	r.over = true
	if r.stopped.Load() {
		for _, l := range r.plan.streams {
			l.own.Reopen()
		}
	}
}

// operation returns the operation of a task for an execution, and the order that it signals or waits for. It locks
// Model.mu for kernels, which a task group may change at any time.
func (p *pass) operation(w *work) (driver.Op, *core.Order) {
	switch d := w.detail.(type) {
	case *external:
		return p.run.bound.op(d.place), nil
	case record:
		return driver.Op{Kind: driver.OpSet, Flag: p.flag(d.innerEvent)}, nil
	case join:
		return driver.Op{Kind: driver.OpAwait, Flag: p.flag(d.innerEvent)}, nil
	case *kernel:
		m := p.plan.model
		m.mu.Lock()
		defer m.mu.Unlock()
	}
	op := w.op
	if g, ok := op.Gate.(interface{ Renew() driver.Gate }); ok {
		op.Gate = g.Renew()
	}
	if op.Launch != nil {
		op.Launch = op.Launch.Lend() // the model keeps it
	}
	return op, w.order
}

// flag returns the flag of a record of an event, which the record sets once in a pass.
func (p *pass) flag(of *innerEvent) driver.Flag {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flags[of]
	if f == nil {
		f = p.plan.model.rt.Driver.NewFlag()
		p.flags[of] = f
	}
	return f
}

// Stop ends the execution and drops the tasks that have not run.
func (r *run) Stop(why error) {
	r.fail(why)
	if r.stopped.Swap(true) {
		return // before ending is locked: a dropped task may fail and call Stop
	}
	r.ending.Lock()
	defer r.ending.Unlock()
	if r.over {
		return
	}
	for _, l := range r.plan.streams {
		l.own.Shut() // also ends the wait for a function of a program's thread
	}
}

// fail records the first failure of the execution.
func (r *run) fail(why error) { r.err.CompareAndSwap(nil, &why) }

// result returns the error of the execution.
func (r *run) result() error {
	if err := r.err.Load(); err != nil {
		return *err
	}
	return nil
}

// TaskFailed implements core.HiddenOwner: a failed task ends its execution.
func (l *lane) TaskFailed(err error) {
	m := l.model.root()
	m.mu.Lock()
	r := m.running.current
	m.mu.Unlock()
	if r != nil {
		r.Stop(modelFailure{err})
	}
}

// modelFailure is the error of a failed task of a model, for the stream that the model was launched on.
type modelFailure struct{ err error }

func (f modelFailure) Error() string { return "a task of the model failed: " + f.err.Error() }
func (f modelFailure) Unwrap() error { return f.err }

// Code returns the code of a memory fault, or one for all other failures, unless a checker made the task fail.
func (f modelFailure) Code() abi.Code {
	switch code := core.TaskCode(f.err); code {
	case core.TaskCode(driver.ErrFault), abi.ErrRTDeviceMemError:
		return code
	default:
		if x, ok := f.err.(interface{ Injected() bool }); ok && x.Injected() {
			return code
		}
	}
	return abi.ErrRTModelExecute
}

// modelAborted is the error of an execution that aclmdlRIAbort has ended.
type modelAborted struct{}

func (modelAborted) Error() string  { return "the execution of the model was aborted" }
func (modelAborted) Code() abi.Code { return abi.ErrRTModelAbortNormal }

// abortable refuses products that cannot abort models.
func abortable(t *core.Thread, api string, _ *Model) *core.Error {
	if t.Runtime.Product.Name == "310" {
		return core.Unsupported(api, "", "the 310 aborts no models").NotRecorded()
	}
	return nil
}

// MdlRIAbort is aclmdlRIAbort. An execution that is one program is not cut short, as it does not wait for anything.
func MdlRIAbort(t *core.Thread, modelRI core.Handle) *core.Error {
	m, _, err := checkMdlRIAbort(t, modelRI)
	if err != nil {
		return err
	}
	m.mu.Lock()
	r, late := m.running.current, m.running.late
	m.running.late = nil
	m.mu.Unlock()
	if r != nil {
		r.Stop(modelAborted{})
	}
	if late != nil { // aclmdlRIExecute has returned; the next call must not get the abort as its error
		late.Wait("aclmdlRIAbort", core.WaitLimit{Timeout: abortWait}) //nolint:errcheck // it was aborted
	}
	return nil
}

// abortWait is the longest wait of aclmdlRIAbort for an execution whose aclmdlRIExecute has timed out.
const abortWait = 100 * time.Millisecond
