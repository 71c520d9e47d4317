package model_test

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// firstTask is the first task of a model with one stream.
func (k *kernels) firstTask(m core.Handle) core.Handle {
	k.Helper()
	var s core.Handle
	streams, tasks := uint32(1), make([]core.Handle, 16)
	count := uint32(len(tasks))
	k.OK(model.MdlRIGetStreams(k.Th, m, &s, &streams))
	k.OK(model.MdlRIGetTasksByStream(k.Th, s, &tasks[0], &count))
	return tasks[0]
}

// TestStaleTasks proves that handles of a task and of a task group name nothing once their model was destroyed, also
// when another model has come in its place.
func TestStaleTasks(t *testing.T) {
	k := newKernels(t)
	var groups [2]core.Handle
	capture := func(i int) core.Handle {
		return k.captured(func() {
			k.OK(model.MdlRICaptureTaskGrpBegin(k.Th, k.s))
			k.launch("add", uint64(k.word), 3)
			k.OK(model.MdlRICaptureTaskGrpEnd(k.Th, k.s, &groups[i]))
		})
	}
	old := capture(0)
	task := k.firstTask(old)
	k.OK(model.MdlRIDestroy(k.Th, old))
	now := capture(1)
	var typ abi.MdlRITaskType
	k.Want(model.MdlRITaskGetType(k.Th, task, &typ), abi.ErrRTInternalError)
	k.Want(model.MdlRITaskDisable(k.Th, task), abi.ErrRTInternalError)
	k.Want(model.MdlRICaptureTaskUpdateBegin(k.Th, k.s, groups[0]), abi.ErrRTInternalError)
	k.run(now, 2, 6)
	k.OK(model.MdlRITaskGetType(k.Th, k.firstTask(now), &typ))
	k.OK(model.MdlRICaptureTaskUpdateBegin(k.Th, k.s, groups[1]))
}

// TestUpdatingStreamTakesNoCopy proves that a copy like the last one of its thread is refused, as any other, on a
// stream that updates a task group.
func TestUpdatingStreamTakesNoCopy(t *testing.T) {
	k := newKernels(t)
	var host core.Addr
	k.OK(memory.MallocHost(k.Th, &host, 4096))
	copied := func() *core.Error {
		return transfer.MemcpyAsync(k.Th, k.word, 4, host, 4, abi.MemcpyHostToDevice, k.s)
	}
	var group core.Handle
	k.captured(func() {
		k.OK(model.MdlRICaptureTaskGrpBegin(k.Th, k.s))
		k.launch("add", uint64(k.word), 3)
		k.OK(model.MdlRICaptureTaskGrpEnd(k.Th, k.s, &group))
	})
	k.OK(copied())
	k.OK(copied())
	k.OK(model.MdlRICaptureTaskUpdateBegin(k.Th, k.s, group))
	k.Want(copied(), abi.ErrRTTaskTypeNotSupport)
}

// TestLabelListsGoWithTheirDevice proves that a list of labels names nothing once its device was reset, also when its
// address is memory of the program by then.
func TestLabelListsGoWithTheirDevice(t *testing.T) {
	m := coretest.NewMachine(t, "A3", "")
	var label, list core.Handle
	m.OK(model.CreateLabel(m.Th, &label))
	m.OK(model.CreateLabelList(m.Th, &label, 1, &list))
	m.OK(m.Th.ResetDevice(0))
	m.OK(m.Th.SetDevice(0))
	found := false
	for range 1000 {
		var addr core.Addr
		m.OK(memory.Malloc(m.Th, &addr, 4, abi.MemMallocHugeFirst))
		if found = addr == core.Addr(list); found {
			break
		}
	}
	m.Want(model.DestroyLabelList(m.Th, list), abi.ErrRTParamInvalid)
	if found { // as on the software device
		m.OK(memory.Free(m.Th, core.Addr(list)))
	}
}
