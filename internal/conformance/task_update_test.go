package conformance

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// changingSource has kernels with numbers, which add to a word once for each block.
const changingSource = `
#include <stdint.h>
void one_1(uint32_t *p) { __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST); }
void more_2(uint32_t *p) { __atomic_fetch_add(p, 100, __ATOMIC_SEQ_CST); }
void wide_3(uint32_t *p) { __atomic_fetch_add(p, 10000, __ATOMIC_SEQ_CST); }
`

// last is the number of the task that was submitted last.
func last(e *env) (n uint32) {
	e.Helper()
	e.ok(e.th.GetThreadLastTaskId(&n))
	return n
}

// drawn is a complete model that draws ten floats from 1 to 2, its stream and the number of the task.
func drawn(e *env) (m core.Handle, a *randomArgs, task uint32) {
	e.Helper()
	a, m = uniform10(e), manual(e)
	a.stream = onto(e, m, 0)
	e.ok(randomNumAsync(e, a))
	task = last(e)
	ends(e, m, a.stream)
	return m, a, task
}

// redraws is a change to what info says, which lies in device memory.
func redraws(e *env, info *abi.RandomNumTaskInfo) *abi.TaskUpdateInfo {
	e.Helper()
	at := e.device(104)
	e.write(at, unsafe.Slice((*byte)(unsafe.Pointer(info)), 104))
	u := &abi.TaskUpdateInfo{ID: abi.UpdateRandomTask}
	*u.Val.RandomTaskAttr() = abi.RandomTaskUpdateAttr{SrcAddr: at, Size: 104}
	return u
}

// relaunches is a change to a kernel of a binary; entry and blocks lie in device memory.
func relaunches(e *env, bin core.Handle, entry uint64, blocks uint32) *abi.TaskUpdateInfo {
	e.Helper()
	at := e.device(16)
	e.write(at, binary.LittleEndian.AppendUint32(eight(entry), blocks))
	u := &abi.TaskUpdateInfo{ID: abi.UpdateAicAivTask}
	*u.Val.AicAivTaskAttr() = abi.AicAivTaskUpdateAttr{BinHandle: uintptr(bin), FuncEntryAddr: at, BlockDimAddr: at + 8}
	return u
}

// adds launches kernel one_1 with two blocks on a stream, and returns its number there.
func adds(e *env, bin core.Handle, p core.Addr, s core.Handle) uint32 {
	e.Helper()
	var f core.Handle
	e.ok(launch.BinaryGetFunction(e.th, bin, ctext("one_1"), &f))
	args := eight(uint64(p))
	e.ok(launch.LaunchKernelWithHostArgs(e.th, f, 2, s, nil, core.AddrOf(args), 8, nil, 0))
	return last(e)
}

func init() {
	random := func(spoil func(a *abi.RandomTaskUpdateAttr)) func(e *env) *core.Error {
		return func(e *env) *core.Error {
			_, a, task := drawn(e)
			u := redraws(e, a.info)
			spoil(u.Val.RandomTaskAttr())
			return model.TaskUpdateAsync(e.th, a.stream, task, u, 0)
		}
	}
	prove("aclrtTaskUpdateAsync", "random-srcAddr-null", random(func(a *abi.RandomTaskUpdateAttr) { a.SrcAddr = 0 }))
	prove("aclrtTaskUpdateAsync", "random-size", random(func(a *abi.RandomTaskUpdateAttr) { a.Size = 96 }))
	prove("aclrtTaskUpdateAsync", "kernel-entry-null", func(e *env) *core.Error {
		s := onto(e, manual(e), 0)
		good := abi.AicAivTaskUpdateAttr{BinHandle: 1, FuncEntryAddr: 1, BlockDimAddr: 1}
		try := func(task, exec core.Handle, spoil func(a *abi.AicAivTaskUpdateAttr)) *core.Error {
			u := &abi.TaskUpdateInfo{ID: abi.UpdateAicAivTask}
			*u.Val.AicAivTaskAttr() = good
			spoil(u.Val.AicAivTaskAttr())
			return model.TaskUpdateAsync(e.stranger(), task, 1, u, exec)
		}
		none := func(*abi.AicAivTaskUpdateAttr) {}
		e.want(try(0, s, none), abi.ErrRTParamInvalid)
		e.want(try(s, 0, none), abi.ErrRTParamInvalid)
		e.want(try(s, s, func(a *abi.AicAivTaskUpdateAttr) { a.FuncEntryAddr = 0 }), abi.ErrRTParamInvalid)
		e.want(try(s, s, func(a *abi.AicAivTaskUpdateAttr) { a.BlockDimAddr = 0 }), abi.ErrRTParamInvalid)
		return try(s, s, func(a *abi.AicAivTaskUpdateAttr) { a.BinHandle = 0 })
	})
	prove("aclrtTaskUpdateAsync", "random-stream-of-other-context", func(e *env) *core.Error {
		_, a, task := drawn(e)
		return model.TaskUpdateAsync(e.th, a.stream, task, redraws(e, a.info), e.foreign())
	})
	prove("aclrtTaskUpdateAsync", "random-task-unknown", func(e *env) *core.Error {
		_, a, task := drawn(e)
		u := redraws(e, a.info)
		e.want(model.TaskUpdateAsync(e.th, e.stream(), task, u, 0), abi.ErrRTParamInvalid)
		e.want(model.TaskUpdateAsync(e.th, a.stream, task+1, u, 0), abi.ErrRTParamInvalid) // the end
		return model.TaskUpdateAsync(e.th, a.stream, task+100, u, 0)
	})
	prove("aclrtTaskUpdateAsync", "kernel-binary-not-live", func(e *env) *core.Error {
		s := onto(e, manual(e), 0)
		return model.TaskUpdateAsync(e.th, s, 1, relaunches(e, e.stream(), 1, 1), s)
	})
	behaves("aclrtTaskUpdateAsync", func(e *env) {
		redrawn(e)
		relaunched(e)
		unlaunched(e)
	})
}

// redrawn: the numbers go elsewhere, there are others of them, and the kind of numbers stays.
func redrawn(e *env) {
	e.Helper()
	m, a, task := drawn(e)
	run := func() { e.ok(model.MdlRIExecute(e.th, m, -1)) }
	run()
	first := e.read(a.info.RandomResultAddr, 40)
	other := uniform10(e)
	other.info.RandomSeed, other.info.RandomNum = given(eight(7)), given(eight(5))
	other.info.RandomNumFuncParaInfo.FuncType = abi.RandomNumFuncTypeNormalDis // which is not taken over
	before := e.read(other.info.RandomResultAddr, 40)
	u := redraws(e, other.info)
	s := e.stream()
	e.ok(model.TaskUpdateAsync(e.th, a.stream, task, u, s))
	e.ok(e.th.SynchronizeStream(s))
	run()
	got := e.read(other.info.RandomResultAddr, 40)
	if !slices.Equal(e.read(a.info.RandomResultAddr, 40), first) {
		e.Error("numbers are still drawn to the old place")
	}
	if !slices.Equal(got[20:], before[20:]) {
		e.Error("more numbers are drawn than asked for")
	}
	want := random(e, abi.RandomNumFuncTypeUniformDis, abi.DataTypeFloat, 1, 2, 5)
	want.info.RandomSeed = given(eight(7))
	e.ok(transfer.RandomNumAsync(e.th, want.info, 0, 0))
	e.ok(e.th.SynchronizeStream(0))
	if !slices.Equal(e.read(want.info.RandomResultAddr, 20), got[:20]) {
		e.Error("the numbers are not those of the same task outside of the model")
	}

	// The parameters are read when the stream gets there, and wrong ones fail their task and change nothing.
	other.info.RandomSeed.Size = 3
	u = redraws(e, other.info)
	e.ok(model.TaskUpdateAsync(e.th, a.stream, task, u, s))
	if e.th.SynchronizeStream(s) == nil {
		e.Error("a seed of three bytes is accepted")
	}
	run()
}

// relaunched: a kernel becomes another one with other blocks, when the stream gets there, at each execution.
func relaunched(e *env) {
	e.Helper()
	bin, p := e.binary(changingSource), e.words(1, 0)
	m := manual(e)
	s, other := onto(e, m, 0), onto(e, m, 0)
	task := adds(e, bin, p, other)
	u := relaunches(e, bin, 2, 3)
	e.ok(model.TaskUpdateAsync(e.th, other, task, u, s))
	second := adds(e, bin, p, s) // after the change, in its stream
	e.ok(model.TaskUpdateAsync(e.th, s, second, relaunches(e, bin, 3, 1), s))
	ends(e, m, s)
	e.ok(model.MdlRIExecute(e.th, m, -1))
	got := e.number(p) % 10000
	if got != 2+2 && got != 300+2 { // the streams are not ordered
		e.Errorf("the first execution made %d", e.number(p))
	}
	e.write(p, make([]byte, 4))
	e.write(u.Val.AicAivTaskAttr().BlockDimAddr, binary.LittleEndian.AppendUint32(nil, 3))
	e.ok(model.MdlRIExecute(e.th, m, -1))
	is(e, "the second execution", e.number(p), 300+10000)
	e.ok(model.MdlRIDestroy(e.th, m))

	// A model that is complete is changed by another one.
	m, p = manual(e), e.words(1, 0)
	s = onto(e, m, 0)
	task = adds(e, bin, p, s)
	ends(e, m, s)
	e.ok(model.MdlRIExecute(e.th, m, -1))
	is(e, "before the change", e.number(p), 2)
	by := manual(e)
	on := onto(e, by, 0)
	e.ok(model.TaskUpdateAsync(e.th, s, task, relaunches(e, bin, 2, 5), on))
	ends(e, by, on)
	e.ok(model.MdlRIExecute(e.th, m, -1))
	is(e, "before the change runs", e.number(p), 4)
	for range 3 {
		e.ok(model.MdlRIExecute(e.th, by, -1))
	}
	e.ok(model.MdlRIExecute(e.th, m, -1))
	is(e, "after the change", e.number(p), 504)
}

// unlaunched: a change to a kernel that is not there, or of a task that is none, ends the execution.
func unlaunched(e *env) {
	e.Helper()
	bin, p := e.binary(changingSource), e.words(1, 0)
	for _, entry := range []uint64{1, 77} {
		m := manual(e)
		s := onto(e, m, 0)
		task := adds(e, bin, p, s)
		if entry == 1 {
			task += 100
		}
		e.ok(model.TaskUpdateAsync(e.th, s, task, relaunches(e, bin, entry, 1), s))
		ends(e, m, s)
		e.want(model.MdlRIExecute(e.th, m, -1), abi.ErrRTModelExecute)
		e.ok(model.MdlRIDestroy(e.th, m))
	}
}
