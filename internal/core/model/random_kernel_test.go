package model_test

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/kernel/kerneltest"
)

const mixSource = `
#include <stdint.h>
#include "ropeway/kernel.h"
void mix(uint8_t *to, const uint8_t *from, uint64_t n, uint64_t v) {
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num()) to[i] = from[i] * v + to[i] + i;
}`

// mixes makes the action "kernel". Blocks run in any order, so there is one where the kernel reads what it writes. A
// side without the kernel does the same itself, when all before it has run.
func (s *side) mixes(t testing.TB, a *action, st core.Handle) {
	if s.mix != 0 {
		blocks := uint32(1)
		if a.to != a.from {
			blocks += uint32(a.n % 4)
		}
		args := arguments(uint64(s.at(a.to, a.dst)), uint64(s.at(a.from, a.src)), a.n, uint64(a.value))
		coretest.OK(t, launch.LaunchKernelWithHostArgs(s.th, s.mix, blocks, st, nil, core.AddrOf(args),
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
// leave every byte as the same work done by the test itself. Kernels run in this process, and in one of their own.
func TestModelRandomKernels(t *testing.T) {
	kerneltest.Support(t)
	for _, outside := range []bool{false, true} {
		t.Run(map[bool]string{false: "inside", true: "outside"}[outside], func(t *testing.T) {
			_, th := coretest.NewRuntime(t, "", soft.Options{Devices: 2, Memory: 256 << 20, KernelProcess: outside})
			image := kerneltest.Compile(t, mixSource)
			var b, mix core.Handle
			coretest.OK(t, launch.BinaryLoadFromData(th, core.AddrOf(image), uint64(len(image)), nil, &b))
			coretest.OK(t, launch.BinaryGetFunction(th, b, &append([]byte("mix"), 0)[0], &mix))
			randomModels(t, th, mix)
		})
	}
}
