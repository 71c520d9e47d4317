package model

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// task is one task of a model. Most are plain copies, so only those fit in here.
type task struct {
	driver.Segment       // a plain copy
	work           *work // nil: a plain copy
	lane           int32
	number         uint32 // on its lane, as from aclrtGetThreadLastTaskId
}

// work is a task other than a plain copy. A change of the task puts another work in its place: only the launch of a
// kernel that executions look up (kernel) changes in one that is in a plan.
type work struct {
	op       driver.Op
	done     func()            // called when the model is destroyed; may be nil
	typ      abi.MdlRITaskType // for the program
	order    *core.Order       // order that op signals or waits for, for a checker; may be nil
	alone    bool              // op is not a step of a program: it may wait or take long, or the checker has to see it
	anything bool              // op may touch memory whose address is not in it
	off      bool              // aclmdlRITaskDisable

	// detail is what a task of its kind has besides op: *kernel, *core.Event (op sets, clears or awaits its state),
	// core.ValueParams or core.Changer; or one of the types below, whose work is not op.
	detail any
}

// kernel is a kernel whose launch may be replaced while the model runs. Model.mu guards work.op.Launch then.
type kernel struct {
	group *taskGroup // its group, or nil
	late  bool       // another task changes it: the launch is looked up when its stream reaches it
	args  *argBlock  // guarded by Model.mu; the arguments that a program has read; nil: it has not
}

type (
	nothing  struct{}              // a task without work
	endMark  struct{}              // the end of a model that is built by hand
	setLabel struct{}              // a label
	record   struct{ *innerEvent } // an event of the capture is recorded
	join     struct{ *innerEvent } // an event of the capture is waited for
	activate struct{ *lane }       // starts a lane
)

// choice starts a lane, and stops its own, if a comparison of the numbers at op.Src and op.Dst holds.
type choice struct {
	target *lane
	cond   abi.Condition
}

// jump continues at a label: op.Src has its index in the list.
type jump struct {
	list *labelList
	most uint32 // largest index
}

// innerEvent is a record of an event inside a capture.
type innerEvent struct {
	task  int32 // the record, an index of Model.tasks
	id    uint32
	waits int32 // guarded by Model.mu; number of tasks that wait for it
}

// isOp reports whether the work of the task is its operation.
func (w *work) isOp() bool {
	switch w.detail.(type) {
	case nil, *kernel, *core.Event, core.ValueParams, core.Changer:
		return true
	}
	return false
}

// waits reports whether the task may block its stream until something happens elsewhere.
func (w *work) waits() bool {
	switch w.detail.(type) {
	case join, *external:
		return true
	}
	switch w.op.Kind {
	case driver.OpAwait, driver.OpWaitCond, driver.OpHostFunc:
		return true
	}
	return false
}

// disabled returns the work without an effect.
func (w *work) disabled() *work {
	fresh := *w
	fresh.off = true
	return &fresh
}

// release releases what the work, which may be nil, holds until the model is destroyed.
func (w *work) release() {
	if w == nil {
		return
	}
	if w.done != nil {
		w.done()
	}
	if w.op.Launch != nil {
		w.op.Launch.Return()
	}
}

// touched returns an operation with the memory that the task touches; nil if it touches none.
func (v *task) touched() *driver.Op {
	w := v.work
	switch {
	case w == nil:
		return &driver.Op{Kind: driver.OpCopy, Dst: v.Dst, Src: v.Src, N: v.N}
	case w.off:
		return nil
	case w.isOp():
		return &w.op
	}
	switch d := w.detail.(type) {
	case *branch:
		return &driver.Op{Kind: driver.OpCompute, Src: d.cond.addr, N: condBytes}
	case *choice, *jump:
		return &driver.Op{Kind: driver.OpCompute, Src: w.op.Src, N: w.op.N}
	}
	return nil
}
