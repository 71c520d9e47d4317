package model_test

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/model"
)

// TestAbortAtTheEnd: the abort of an execution, which stops its many streams one by one, has nothing to do with the
// next execution: all streams of that run.
func TestAbortAtTheEnd(t *testing.T) {
	k := coretest.NewMachine(t, "", "")
	th, on := k.Th, k.Stream(k.Th)
	began := make(chan struct{}, 1)
	var s, in, e core.Handle
	coretest.OK(t, th.CreateStream(&s))
	coretest.OK(t, th.CreateStream(&in))
	coretest.OK(t, th.CreateEventExWithFlag(&e, abi.EventSync))
	coretest.OK(t, model.MdlRICaptureBegin(th, s, relaxed))
	for range 100 { // each runs before the loop does
		side := k.Stream(th)
		coretest.OK(t, th.RecordEvent(e, s))
		coretest.OK(t, th.StreamWaitEvent(side, e))
		coretest.OK(t, th.LaunchHostFunc(side, func(core.Addr) {}, 0))
		coretest.OK(t, th.RecordEvent(e, side))
		coretest.OK(t, th.StreamWaitEvent(s, e))
	}
	coretest.OK(t, th.LaunchHostFunc(s, func(core.Addr) { began <- struct{}{} }, 0))
	var m core.Handle
	coretest.OK(t, model.MdlRICaptureGetInfo(th, s, nil, &m))
	c, _ := newCondition(t, th, m, 1, abi.ModelRiCondHandleAssignDefault)
	sub := addBranches(t, th, c, s, abi.ModelRiCondTypeWhile, 1)[0]
	coretest.OK(t, model.MdlRICaptureToModelRIBegin(th, in, sub, relaxed))
	coretest.OK(t, model.MdlRICaptureEnd(th, in, nil))
	coretest.OK(t, model.MdlRICaptureEnd(th, s, &m))
	for range 30 {
		k.Within("an execution after an abort", func() {
			coretest.OK(t, model.MdlRIExecuteAsync(th, m, on))
			<-began
			coretest.OK(t, model.MdlRIAbort(th, m))
			k.Want(th.SynchronizeStream(on), abi.ErrRTModelAbortNormal)
		})
	}
	coretest.OK(t, model.MdlRIDestroy(th, m))
}
