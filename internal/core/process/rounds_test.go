package process_test

import (
	"runtime"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
)

// TestRounds: a process that initialises, works and finalises again and again keeps nothing of earlier rounds.
func TestRounds(t *testing.T) {
	rt, first := coretest.NewProcess(t, 64<<20)
	coretest.OK(t, first.ResetDevice(0))
	round := func(i int) {
		th := rt.NewThread(1)
		coretest.OK(t, process.Init(th, nil))
		coretest.OK(t, th.SetDevice(0))
		var s, e core.Handle
		var device, host core.Addr
		coretest.OK(t, th.CreateStream(&s))
		coretest.OK(t, th.CreateEvent(&e))
		coretest.OK(t, memory.Malloc(th, &device, 4096, abi.MemMallocHugeFirst))
		coretest.OK(t, memory.MallocHost(th, &host, 4096))
		coretest.OK(t, transfer.MemcpyAsync(th, device, 4096, host, 4096, abi.MemcpyHostToDevice, s))
		coretest.OK(t, th.RecordEvent(e, s))
		coretest.OK(t, th.LaunchHostFunc(s, func(core.Addr) {}, 0))
		coretest.OK(t, th.SynchronizeStream(s))
		th.Done(th.SetDevice(99))
		coretest.OK(t, th.DestroyEvent(e))
		if i%2 == 0 { // else they go with the device
			coretest.OK(t, th.DestroyStream(s))
			coretest.OK(t, memory.Free(th, device))
		}
		coretest.OK(t, memory.FreeHost(th, host))
		coretest.OK(t, th.ResetDevice(0))
		coretest.OK(t, process.Finalize(th))
		th.Close()
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what a finalizer has kept
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const warm, rounds = 200, 4000
	for i := range warm {
		round(i)
	}
	before := heap()
	for i := range rounds {
		round(i)
	}
	if kept := (heap() - before) / rounds; kept > 16 {
		t.Errorf("a round leaves %d bytes", kept)
	}
}
