package model_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/driver/soft"
)

// mixer is a thread of a new runtime, and the kernel of the action "kernel".
func mixer(t *testing.T, o soft.Options) (th *core.Thread, mix core.Handle) {
	rt, th := coretest.NewRuntime(t, "", o)
	image := drivertest.Kernels(t, rt.Driver)
	var b core.Handle
	coretest.OK(t, launch.BinaryLoadFromData(th, core.AddrOf(image), uint64(len(image)), nil, &b))
	coretest.OK(t, launch.BinaryGetFunction(th, b, &append([]byte("mix"), 0)[0], &mix))
	return th, mix
}

var twoDevices = soft.Options{Devices: 2, Memory: 256 << 20}

// kernel makes a the launch of a kernel. Threads run in any order, so that where it reads what it writes, it reads the
// same bytes.
func (a *action) kernel() {
	a.kind = "kernel"
	if a.to == a.from && a.dst < a.src+a.n && a.src < a.dst+a.n {
		a.src = a.dst
	}
}

// someKernels makes a third of the actions launches.
func someKernels(list []action) {
	for i := range list {
		if list[i].value%3 == 0 {
			list[i].kernel()
		}
	}
}

// someKernelsOf is someKernels for programs with control flow.
func someKernelsOf(list []node) {
	for i := range list {
		if list[i].call.value%3 == 0 {
			list[i].call.kernel()
		}
		for _, kid := range list[i].kids {
			someKernelsOf(kid)
		}
	}
}

func (s *side) mixArguments(a *action) []byte {
	return arguments(uint64(s.at(a.to, a.dst)), uint64(s.at(a.from, a.src)), a.n, uint64(a.value))
}

// mixes makes the action "kernel". A side without the kernel does the same itself, when all before it has run.
func (s *side) mixes(t testing.TB, a *action, st core.Handle) {
	if s.mix != 0 {
		args := s.mixArguments(a)
		coretest.OK(t, launch.LaunchKernelWithHostArgs(s.th, s.mix, 1+uint32(a.n%4), st, nil, core.AddrOf(args),
			uint64(len(args)), nil, 0))
		return
	}
	coretest.OK(t, s.th.SynchronizeDevice())
	var held [4][]byte
	for i := range held {
		held[i] = make([]byte, sideLen)
		coretest.OK(t, transfer.Memcpy(s.th, core.AddrOf(held[i]), sideLen, s.at(i, 0), sideLen, abi.MemcpyDefault))
	}
	to, from := held[a.to][a.dst:], held[a.from][a.src:]
	for i := range a.n {
		to[i] += from[i]*byte(a.value) + byte(i)
	}
	coretest.OK(t, transfer.Memcpy(s.th, s.at(a.to, 0), sideLen, core.AddrOf(held[a.to]), sideLen, abi.MemcpyDefault))
}

// TestModelRandomKernels is TestModelRandom with kernels among copies, events and functions: captured and run, they
// leave every byte as the same work done by the test itself.
func TestModelRandomKernels(t *testing.T) {
	th, mix := mixer(t, twoDevices)
	randomModels(t, th, mix)
}

// TestConditionsRandomKernels is TestConditionsRandom with kernels.
func TestConditionsRandomKernels(t *testing.T) {
	th, mix := mixer(t, twoDevices)
	randomConditions(t, th, mix)
}

// TestBuiltRandomKernels is TestBuiltRandom with kernels.
func TestBuiltRandomKernels(t *testing.T) {
	th, mix := mixer(t, twoDevices)
	randomBuilt(t, th, mix)
}

// TestModelUpdateRandomKernels changes and disables kernels and copies of a model between executions, and compares
// every byte with the same work done directly.
func TestModelUpdateRandomKernels(t *testing.T) {
	th, mix := mixer(t, twoDevices)
	one, other := newSide(t, th), newSide(t, th)
	other.mix = mix
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(drawCopy), 1, 20).Draw(rt, "actions")
		someKernels(list)
		one.begin(t)
		other.begin(t)
		coretest.OK(t, model.MdlRICaptureBegin(th, other.streams[0], relaxed))
		other.program(t, list)
		var m, s core.Handle
		coretest.OK(t, model.MdlRICaptureEnd(th, other.streams[0], &m))
		n := uint32(1)
		coretest.OK(t, model.MdlRIGetStreams(th, m, &s, &n))
		tasks, count := make([]core.Handle, len(list)), uint32(len(list))
		coretest.OK(t, model.MdlRIGetTasksByStream(th, s, &tasks[0], &count))
		if int(count) != len(list) {
			rt.Fatalf("%d tasks for %d calls", count, len(list))
		}
		for round := range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			kernels := false
			for range rapid.IntRange(0, 3).Draw(rt, "changes") {
				i, a := rapid.IntRange(0, len(list)-1).Draw(rt, "which"), drawCopy(rt)
				switch off := rapid.IntRange(0, 3).Draw(rt, "disable") == 0; {
				case list[i].kind == "copy" && kernels, list[i].kind == "off":
					continue // a copy is changed in a model that can be executed, and there is no way back
				case list[i].kind == "copy":
					list[i] = a
					coretest.OK(t, model.SetModelCopy(th, m, i, other.at(a.to, a.dst), other.at(a.from, a.src), a.n))
				case off:
					kernels, list[i].kind = true, "off"
					coretest.OK(t, model.MdlRITaskDisable(th, tasks[i]))
				default:
					kernels, list[i] = true, a
					list[i].kernel()
					other.setKernel(t, tasks[i], &list[i])
				}
			}
			if kernels {
				coretest.OK(t, model.MdlRIUpdate(th, m))
			}
			one.program(t, list)
			coretest.OK(t, th.SynchronizeStream(one.streams[0]))
			coretest.OK(t, model.MdlRIExecuteAsync(th, m, other.streams[0]))
			coretest.OK(t, th.SynchronizeStream(other.streams[0]))
			if !bytes.Equal(one.contents(t), other.contents(t)) {
				rt.Fatalf("round %d: the model and the calls themselves differ", round)
			}
		}
		coretest.OK(t, model.MdlRIDestroy(th, m))
	})
}

// setKernel gives a kernel of a model the arguments and the blocks of another launch.
func (s *side) setKernel(t testing.TB, task core.Handle, a *action) {
	var params abi.MdlRITaskParams
	coretest.OK(t, model.MdlRITaskGetParams(s.th, task, &params))
	args, v := s.mixArguments(a), params.Union.KernelTaskParams()
	v.Args, v.IsHostArgs, v.ArgsSize, v.NumBlocks = core.AddrOf(args), 1, uint64(len(args)), 1+uint32(a.n%4)
	coretest.OK(t, model.MdlRITaskSetParams(s.th, task, &params))
}
