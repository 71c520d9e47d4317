package model_test

import (
	"encoding/binary"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
	"ropeway/internal/kernel/kerneltest"
)

const kernelSource = `
#include <stdint.h>
#include "ropeway/kernel.h"
void add(uint32_t *p, uint64_t v) { *p += v; }
void wild(volatile int *p) { *p = 1; }
`

// kernels is a machine with kernels, a stream and one word of device memory.
type kernels struct {
	*coretest.Machine
	bin, s core.Handle
	word   core.Addr
}

func newKernels(t *testing.T) *kernels {
	t.Helper()
	coretest.OnlySoft(t, "its kernels are a shared object, and one breaks the device")
	kerneltest.Support(t)
	k := &kernels{Machine: coretest.NewMachine(t, "A2", "")}
	image := kerneltest.Compile(t, kernelSource)
	k.OK(launch.BinaryLoadFromData(k.Th, core.AddrOf(image), uint64(len(image)), nil, &k.bin))
	k.s = k.Stream(k.Th)
	k.OK(memory.Malloc(k.Th, &k.word, 64, abi.MemMallocHugeFirst))
	k.OK(transfer.MemsetD32(k.Th, k.word, 64, 0, 16))
	return k
}

func (k *kernels) function(name string) (f core.Handle) {
	k.Helper()
	k.OK(launch.BinaryGetFunction(k.Th, k.bin, &append([]byte(name), 0)[0], &f))
	return f
}

func arguments(list ...uint64) []byte {
	b := []byte{}
	for _, a := range list {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	return b
}

// launch launches a kernel with arguments in host memory, which are overwritten afterwards: the launch has a copy.
func (k *kernels) launch(name string, list ...uint64) {
	k.Helper()
	a := arguments(list...)
	k.OK(launch.LaunchKernelWithHostArgs(k.Th, k.function(name), 1, k.s, nil, core.AddrOf(a), uint64(len(a)), nil, 0))
	clear(a)
}

func (k *kernels) captured(f func()) (m core.Handle) {
	k.Helper()
	k.OK(model.MdlRICaptureBegin(k.Th, k.s, relaxed))
	f()
	k.OK(model.MdlRICaptureEnd(k.Th, k.s, &m))
	return m
}

// run executes the model n times, and the first word is want then.
func (k *kernels) run(m core.Handle, n int, want uint32) {
	k.Helper()
	for range n {
		k.OK(model.MdlRIExecuteAsync(k.Th, m, k.s))
	}
	k.OK(k.Th.SynchronizeStream(k.s))
	k.is(k.word, want)
}

func (k *kernels) is(at core.Addr, want uint32) {
	k.Helper()
	b := make([]byte, 4)
	k.OK(transfer.Memcpy(k.Th, core.AddrOf(b), 4, at, 4, abi.MemcpyDeviceToHost))
	if got := binary.LittleEndian.Uint32(b); got != want {
		k.Fatalf("the word is %d, want %d", got, want)
	}
}

// onlyTask is the task of a model that has one.
func (k *kernels) onlyTask(m core.Handle) (task core.Handle) {
	k.Helper()
	var s core.Handle
	one := uint32(1)
	k.OK(model.MdlRIGetStreams(k.Th, m, &s, &one))
	k.OK(model.MdlRIGetTasksByStream(k.Th, s, &task, &one))
	return task
}

// TestModelKernel: a captured launch runs at each execution with the arguments of the call, in the order of its stream,
// and also after its binary was unloaded.
func TestModelKernel(t *testing.T) {
	k := newKernels(t)
	m := k.captured(func() {
		k.launch("add", uint64(k.word), 3)
		k.OK(transfer.MemcpyAsync(k.Th, k.word+4, 4, k.word, 4, abi.MemcpyDeviceToDevice, k.s))
		k.launch("add", uint64(k.word)+4, 100)
	})
	k.is(k.word, 0)
	k.run(m, 5, 15)
	k.is(k.word+4, 115)
	k.OK(launch.BinaryUnLoad(k.Th, k.bin))
	k.run(m, 1, 18)
	k.OK(model.MdlRIDestroy(k.Th, m))
}

// TestModelKernelChanges: the parameters of a kernel are read and changed, and it is disabled.
func TestModelKernelChanges(t *testing.T) {
	k := newKernels(t)
	m := k.captured(func() { k.launch("add", uint64(k.word), 3) })
	task := k.onlyTask(m)
	var typ abi.MdlRITaskType
	k.OK(model.MdlRITaskGetType(k.Th, task, &typ))
	var params abi.MdlRITaskParams
	k.OK(model.MdlRITaskGetParams(k.Th, task, &params))
	v := params.Union.KernelTaskParams()
	if typ != abi.ModelRiTaskKernel || core.Handle(v.FuncHandle) != k.function("add") || v.ArgsSize != 16 ||
		v.NumBlocks != 1 || v.IsHostArgs != 0 {
		t.Fatalf("type %d, %+v", typ, v)
	}
	k.run(m, 1, 3)
	a := arguments(uint64(k.word), 40)
	v.Args, v.IsHostArgs = core.AddrOf(a), 1
	k.OK(model.MdlRITaskSetParams(k.Th, task, &params))
	clear(a)
	k.Want(model.MdlRIExecuteAsync(k.Th, m, k.s), abi.ErrRTModelExecute)
	k.OK(model.MdlRIUpdate(k.Th, m))
	k.run(m, 2, 83)
	k.OK(model.MdlRITaskDisable(k.Th, task))
	k.OK(model.MdlRIUpdate(k.Th, m))
	k.run(m, 1, 83)
	k.OK(model.MdlRITaskGetParams(k.Th, task, &params))
	k.OK(transfer.Memcpy(k.Th, k.word+8, 16, core.AddrOf(arguments(uint64(k.word), 5)), 16, abi.MemcpyHostToDevice))
	v.Args, v.IsHostArgs = k.word+8, 0 // in device memory
	k.OK(model.MdlRITaskSetParams(k.Th, task, &params))
	k.OK(model.MdlRIUpdate(k.Th, m))
	k.run(m, 2, 93)
	k.OK(memory.Free(k.Th, k.word))
	k.Want(model.MdlRIExecuteAsync(k.Th, m, k.s), abi.ErrRTParamInvalid) // the arguments are gone
}

// TestModelKernelReadBack: the arguments that are read with the parameters of a kernel are in device memory. They can
// be set again as they are, with something else changed, and stay what they are as long as the model.
func TestModelKernelReadBack(t *testing.T) {
	k := newKernels(t)
	m := k.captured(func() { k.launch("add", uint64(k.word), 3) })
	task := k.onlyTask(m)
	var params abi.MdlRITaskParams
	k.OK(model.MdlRITaskGetParams(k.Th, task, &params))
	v := params.Union.KernelTaskParams()
	var at abi.PtrAttributes
	k.OK(memory.PointerGetAttributes(k.Th, v.Args, &at))
	if at.Location.Type != abi.MemLocationTypeDevice {
		t.Errorf("the arguments are in memory of kind %d, not of the device", at.Location.Type)
	}
	k.OK(model.MdlRITaskSetParams(k.Th, task, &params))
	k.OK(model.MdlRIUpdate(k.Th, m))
	for range 100 { // takes the memory of launches that are over
		k.launch("add", uint64(k.word)+4, 1)
	}
	k.run(m, 2, 6)
	var again abi.MdlRITaskParams
	k.OK(model.MdlRITaskGetParams(k.Th, task, &again))
	if got := again.Union.KernelTaskParams().Args; got != v.Args {
		t.Errorf("the kernel has its arguments at %#x, want %#x, where they were set", got, v.Args)
	}
	a := arguments(uint64(k.word), 10)
	k.OK(transfer.Memcpy(k.Th, v.Args, 16, core.AddrOf(a), 16, abi.MemcpyHostToDevice))
	k.run(m, 1, 16)
	v.Args, v.IsHostArgs = core.AddrOf(a), 1
	for range 3 { // the memory that is read is used again
		k.OK(model.MdlRITaskSetParams(k.Th, task, &params))
		k.OK(model.MdlRIUpdate(k.Th, m))
		k.OK(model.MdlRITaskGetParams(k.Th, task, &again))
	}
	k.run(m, 1, 26)
	k.OK(model.MdlRIDestroy(k.Th, m))
}

// TestModelKernelRefused: parameters that no launch has make the model unusable.
func TestModelKernelRefused(t *testing.T) {
	k := newKernels(t)
	for _, tt := range []struct {
		name string
		code abi.Code
		set  func(p *abi.MdlRITaskParams, v *abi.MdlRIKernelTaskParams)
	}{
		{"group", abi.ErrRTParamInvalid, func(p *abi.MdlRITaskParams, _ *abi.MdlRIKernelTaskParams) { p.TaskGrp = 1 }},
		{"no function", abi.ErrRTParamInvalid, func(_ *abi.MdlRITaskParams, v *abi.MdlRIKernelTaskParams) {
			v.FuncHandle = 0
		}},
		{"no arguments", abi.ErrRTParamInvalid, func(_ *abi.MdlRITaskParams, v *abi.MdlRIKernelTaskParams) {
			v.ArgsSize = 0
		}},
		{"dead function", abi.ErrRTInvalidHandle, func(_ *abi.MdlRITaskParams, v *abi.MdlRIKernelTaskParams) {
			v.FuncHandle = uintptr(k.s)
		}},
	} {
		m := k.captured(func() { k.launch("add", uint64(k.word), 3) })
		task := k.onlyTask(m)
		var params abi.MdlRITaskParams
		k.OK(model.MdlRITaskGetParams(k.Th, task, &params))
		tt.set(&params, params.Union.KernelTaskParams())
		if err := model.MdlRITaskSetParams(k.Th, task, &params); err == nil || err.Code != tt.code {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.code)
		}
		k.Want(model.MdlRIExecuteAsync(k.Th, m, k.s), abi.ErrRTModelExecute)
	}
}

// TestModelKernelFails: a kernel that fails ends the execution, the stream reports it, and the model runs again.
func TestModelKernelFails(t *testing.T) {
	k := newKernels(t)
	m := k.captured(func() {
		k.launch("wild", 16)
		k.launch("add", uint64(k.word), 1)
	})
	for range 2 {
		k.OK(model.MdlRIExecuteAsync(k.Th, m, k.s))
		err := k.Th.SynchronizeStream(k.s)
		if err == nil || err.Code != abi.ErrRTModelExecute && err.Code != abi.ErrRTDeviceMemError {
			t.Fatalf("%v, want the failure of a model", err)
		}
		k.is(k.word, 0)
	}
}

// TestModelGroup: launches on a stream that updates a task group replace its kernels, in the order of that stream.
func TestModelGroup(t *testing.T) {
	k := newKernels(t)
	var group core.Handle
	m := k.captured(func() {
		k.OK(model.MdlRICaptureTaskGrpBegin(k.Th, k.s))
		k.launch("add", uint64(k.word), 1)
		k.launch("add", uint64(k.word)+4, 10)
		k.OK(model.MdlRICaptureTaskGrpEnd(k.Th, k.s, &group))
	})
	k.run(m, 2, 2)
	k.is(k.word+4, 20)
	k.OK(model.MdlRIExecuteAsync(k.Th, m, k.s)) // with the kernels as they were
	k.OK(model.MdlRICaptureTaskUpdateBegin(k.Th, k.s, group))
	k.launch("add", uint64(k.word), 100)
	k.Want(transfer.MemsetAsync(k.Th, k.word, 4, 0, 4, k.s), abi.ErrRTTaskTypeNotSupport)
	k.launch("add", uint64(k.word), 1000)
	a := arguments(uint64(k.word), 1)
	over := launch.LaunchKernelWithHostArgs(k.Th, k.function("add"), 1, k.s, nil, core.AddrOf(a), 16, nil, 0)
	k.Want(over, abi.ErrRTInternalError) // there is no third
	k.OK(model.MdlRICaptureTaskUpdateEnd(k.Th, k.s))
	k.run(m, 1, 1103)
	k.is(k.word+4, 30)
	k.OK(model.MdlRICaptureTaskUpdateBegin(k.Th, k.s, group))
	k.launch("add", uint64(k.word), 7)
	k.Want(model.MdlRICaptureTaskUpdateEnd(k.Th, k.s), abi.ErrRTInternalError) // one is missing; the other stays
	k.run(m, 1, 2110)
	k.OK(model.MdlRIDestroy(k.Th, m))
}

// TestModelGroupRuns: kernels are replaced while the model runs; an execution sees old or new ones, and no memory of
// arguments is used by two.
func TestModelGroupRuns(t *testing.T) {
	k := newKernels(t)
	var group core.Handle
	m := k.captured(func() {
		k.OK(model.MdlRICaptureTaskGrpBegin(k.Th, k.s))
		k.launch("add", uint64(k.word), 1)
		k.OK(model.MdlRICaptureTaskGrpEnd(k.Th, k.s, &group))
	})
	other := k.Stream(k.Th)
	const rounds = 200
	for i := range uint64(rounds) {
		k.OK(model.MdlRIExecuteAsync(k.Th, m, other))
		k.OK(model.MdlRICaptureTaskUpdateBegin(k.Th, k.s, group))
		k.launch("add", uint64(k.word)+4*(i%2), 1)
		k.OK(model.MdlRICaptureTaskUpdateEnd(k.Th, k.s))
	}
	k.OK(k.Th.SynchronizeStream(other))
	k.OK(k.Th.SynchronizeStream(k.s))
	b := make([]byte, 8)
	k.OK(transfer.Memcpy(k.Th, core.AddrOf(b), 8, k.word, 8, abi.MemcpyDeviceToHost))
	if n := binary.LittleEndian.Uint32(b) + binary.LittleEndian.Uint32(b[4:]); n != rounds {
		t.Errorf("kernels were counted %d times, want %d", n, rounds)
	}
}

// TestModelGroupAfterWait: an execution that waits for an event of the program sees the kernels as they are when the
// wait is over: the way to update each execution while the one before it runs.
func TestModelGroupAfterWait(t *testing.T) {
	k := newKernels(t)
	var event, group core.Handle
	k.OK(k.Th.CreateEventWithFlag(&event, abi.EventExternal))
	begun := make(chan struct{}, 1)
	m := k.captured(func() {
		k.OK(k.Th.LaunchHostFunc(k.s, func(core.Addr) { begun <- struct{}{} }, 0))
		k.OK(k.Th.StreamWaitEvent(k.s, event))
		k.OK(k.Th.ResetEvent(event, k.s))
		k.OK(model.MdlRICaptureTaskGrpBegin(k.Th, k.s))
		k.launch("add", uint64(k.word), 1)
		k.OK(model.MdlRICaptureTaskGrpEnd(k.Th, k.s, &group))
	})
	other := k.Stream(k.Th)
	var want uint32
	for i := range uint32(20) {
		k.OK(model.MdlRIExecuteAsync(k.Th, m, other))
		<-begun
		k.OK(model.MdlRICaptureTaskUpdateBegin(k.Th, k.s, group))
		k.launch("add", uint64(k.word), uint64(100+i))
		k.OK(model.MdlRICaptureTaskUpdateEnd(k.Th, k.s))
		k.OK(k.Th.RecordEvent(event, k.s))
		k.OK(k.Th.SynchronizeStream(other))
		want += 100 + i
		k.is(k.word, want)
	}
	k.OK(model.MdlRIDestroy(k.Th, m))
}
