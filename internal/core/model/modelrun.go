package model

import (
	"slices"
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
	if err := m.execute(api, t, c, s); err != nil || m.waitsOutside() {
		return err
	}
	return s.WaitIfBlocking(api, t)
}

// waitsOutside reports whether an execution may wait for something that the program submits later: an event, a notify
// or a value. Launch blocking does not wait for such a model.
func (m *Model) waitsOutside() bool {
	if !m.rt.Blocking() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.tasks, func(k modelTask) bool {
		return k.more != nil && k.more.kind != joinTask && k.more.op.Kind != driver.OpHostFunc && k.more.waits()
	})
}

// execute queues an execution on a stream, if that is possible.
func (m *Model) execute(api string, t *core.Thread, c *core.Context, s *core.Stream) *core.Error {
	if err := m.executable(api); err != nil {
		return err
	}
	if err := m.ready(api, c, s); err != nil {
		m.ends()
		return err
	}
	m.launch(api, t, s)
	return nil
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

// ready refuses a stream that cannot execute the model, and a model that cannot be executed.
func (m *Model) ready(api string, c *core.Context, s *core.Stream) *core.Error {
	if _, err := c.On(api, s); err != nil {
		return err
	}
	if err := m.loaded(api); err != nil {
		return err
	}
	if err := m.there(api); err != nil {
		return err
	}
	return s.Admit(api)
}

// executable refuses a model that is not complete, or else counts a queued execution.
func (m *Model) executable(api string) *core.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.state {
	case modelBuilding:
		m.runs.Add(1)
		return nil // the stream is checked first
	case modelReady:
		if !m.built && m.plan.streams > mostStreams {
			return core.Fail(api, abi.ErrRTResourceAllocFail, "modelRI",
				"model %d and its sub-models have %d streams, and an execution takes %d", m.id, m.plan.streams,
				mostStreams).InCapture(m.id)
		}
		m.runs.Add(1) // from here on the model cannot be changed
		return nil
	case modelOpen, modelInvalid:
		return core.Fail(api, abi.ErrRTModelCaptured, "modelRI", "model %d is being captured; end the capture first",
			m.id)
	case modelLost:
		return core.Fail(api, abi.ErrRTModelCaptured, "modelRI",
			"the capture of model %d ended in an error; it can only be destroyed", m.id)
	}
	return core.Fail(api, abi.ErrRTModelExecute, "modelRI", "model %d was changed %s", m.id, m.why)
}

// mostStreams is the most streams of an executable model, with those of its sub-models.
const mostStreams = 1024

// launch queues an execution on a stream.
func (m *Model) launch(api string, t *core.Thread, s *core.Stream) {
	p := m.plan // lockcheck: a model that is ready keeps it
	if p.all != nil {
		op := driver.Op{Kind: driver.OpProgram, Program: p.all.Program(), Done: m.ends}
		if c, ok := op.Program.Single(); ok { // as fast as a single copy
			op.Kind, op.Dst, op.Src, op.N = driver.OpCopy, c.Dst, c.Src, c.N
		}
		if m.rt.Checked() {
			op.Tag = m.watchExecution(t, s)
		}
		m.put(api, t, s, op)
		return
	}
	r := &run{m: m}
	r.self = r
	dropped := s.Dropped()
	tag := m.watchExecution(t, s)
	r.times = m.timesOf(s, tag)
	r.bound = m.bind(s, tag)
	s.Part(tag, driver.Op{Kind: driver.OpHostFunc, Fn: func() { r.do(s, tag.Task, dropped) }})
	for i, x := range m.externals { // lockcheck: a model that is ready keeps them
		if x.record {
			s.Part(tag, r.bound.ops[i]) // if the execution did not reach it
		}
	}
	op := driver.Op{Kind: driver.OpCompute, Work: r.result, Done: m.ends, Tag: tag}
	m.put(api, t, s, op)
	m.publish(r.bound)
}

// put queues an execution as a task of s (lockcheck: a model that is ready keeps its version).
func (m *Model) put(api string, t *core.Thread, s *core.Stream, op driver.Op) {
	s.Put(api, t, core.Task{Op: op, Kind: observe.Model, About: uint64(m.id), Version: m.version, Outside: true})
}

// run is one execution of a model with lanes. Its tasks go to the queues of the hidden streams, and the stream it was
// launched on waits until these are empty.
type run struct {
	m       *Model
	self    core.Execution
	bound   bound   // immutable
	times   *times  // immutable; nil without a tracer
	lanes   []*lane // of the model and its sub-models; written before the run becomes the model's current one
	stopped atomic.Bool
	err     atomic.Pointer[error] // why it failed

	ending sync.Mutex // only locks of queues are taken while it is held
	over   bool       // guarded by ending; the lanes belong to the next execution
}

// do runs the model. Executions of one model run one after another, in the order in which their streams reach them.
func (r *run) do(s *core.Stream, task uint32, dropped func() bool) {
	m := r.m
	m.running.Lock()
	defer m.running.Unlock()
	m.mu.Lock()
	gone := m.gone
	if !gone {
		for _, each := range m.within() {
			r.lanes = append(r.lanes, each.lanes...) // lockcheck: a model that is ready keeps them
		}
		m.current = r
	}
	m.mu.Unlock()
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
	r.assign()
	r.play(m, nil)
	s.EndExecution(&r.self)
	var retired []*driver.Launch
	core.Locked(&m.mu, func() { m.current, retired, m.retired = nil, m.retired, nil })
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
		for _, l := range r.lanes {
			l.own.Reopen()
		}
	}
}

// operation returns the operation of a task of m for an execution, and the order that it signals or waits for. It locks
// m.mu for kernels, which a task group may change at any time.
func (r *run) operation(m *Model, k *taskMore, round uint64) (driver.Op, *core.Order) {
	switch k.kind {
	case externalTask:
		return r.bound.op(k.place), nil
	case recordTask:
		e := &k.record.gate
		return driver.Op{Kind: driver.OpFunc, Fn: func() { e.set(round) }}, &k.record.order
	case joinTask:
		return driver.Op{Kind: driver.OpWaitCond, Gate: &edgeWait{&k.record.gate, round}}, &k.record.order
	}
	if k.typ == abi.ModelRiTaskKernel {
		m.mu.Lock()
		defer m.mu.Unlock()
	}
	op := k.op
	op.Done = nil
	if g, ok := op.Gate.(interface{ Again() driver.Gate }); ok {
		op.Gate = g.Again()
	}
	if op.Launch != nil {
		op.Launch = op.Launch.Lend() // the model keeps it
	}
	return op, k.order
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
	for _, l := range r.lanes {
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
	r := m.current
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
	r, late := m.current, m.late
	m.late = nil
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
