package transfer_test

import (
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// TestRoute: two copies in a row between two allocations make a route of their stream, for all threads; what is outside
// of it is checked, and so is everything once memory was freed.
func TestRoute(t *testing.T) {
	const n, all = 4096, 3 * 4096
	m := coretest.NewMachine(t, "A2", "EP")
	var c core.Handle
	var host, dev core.Addr
	m.OK(m.Th.GetCurrentContext(&c))
	m.OK(memory.MallocHost(m.Th, &host, all))
	m.OK(memory.Malloc(m.Th, &dev, all, abi.MemMallocHugeFirst))
	s, other := m.Stream(m.Th), m.Stream(m.Th)
	shared := m.Runtime.ThreadIn(c)
	repeats := func(th *core.Thread, dst, src core.Addr, n uint64, s core.Handle) bool {
		return th.RepeatCopy(dst, n, src, n, abi.MemcpyDefault, s)
	}
	copies := func(th *core.Thread, s core.Handle) {
		m.OK(transfer.MemcpyAsync(th, dev+n, n, host+n, n, abi.MemcpyHostToDevice, s))
	}
	copies(m.Th, s)
	if repeats(m.Th, dev+n, host+n, n, s) {
		t.Error("one copy made a route")
	}
	copies(m.Th, s)
	for _, th := range []*core.Thread{m.Th, shared} {
		if !repeats(th, dev+n, host+n, n, s) || !repeats(th, dev, host, all, s) {
			t.Error("two copies made no route")
		}
	}
	for name, bad := range map[string]bool{
		"past the end of dst":     repeats(m.Th, dev+n, host, all, s),
		"past the end of src":     repeats(m.Th, dev, host+n, all, s),
		"before dst":              repeats(m.Th, dev-1, host, n, s),
		"before src":              repeats(m.Th, dev, host-1, n, s),
		"no bytes":                repeats(m.Th, dev, host, 0, s),
		"the other way":           repeats(m.Th, host, dev, n, s),
		"another stream":          repeats(m.Th, dev, host, n, other),
		"the default stream":      repeats(m.Th, dev, host, n, 0),
		"no stream":               repeats(m.Th, dev, host, n, s+1<<40),
		"more than destMax":       m.Th.RepeatCopy(dev, n-1, host, n, abi.MemcpyDefault, s),
		"host to host":            m.Th.RepeatCopy(dev, n, host, n, abi.MemcpyHostToHost, s),
		"a thread without device": repeats(m.Runtime.NewThread(2), dev, host, n, s),
		"another context":         repeats(m.NewThread(1), dev, host, n, s),
	} {
		if bad {
			t.Error(name, "needs no check")
		}
	}
	m.OK(model.MdlRICaptureBegin(m.Th, s, abi.ModelRiCaptureModeRelaxed))
	if repeats(m.Th, dev, host, n, s) {
		t.Error("a copy is queued on a stream that is captured")
	}
	var captured core.Handle
	m.OK(model.MdlRICaptureEnd(m.Th, s, &captured))
	if !repeats(m.Th, dev, host, n, s) {
		t.Error("the route did not survive a capture")
	}
	m.OK(m.Th.SynchronizeStream(s))
	m.OK(memory.Free(m.Th, dev))
	if repeats(m.Th, dev, host, n, s) {
		t.Error("a copy to memory that was freed needs no check")
	}
}

// TestRouteShared: goroutines copy between different allocations on one stream, and every byte arrives.
func TestRouteShared(t *testing.T) {
	const n, rounds = 64, 2000
	m := coretest.NewMachine(t, "A2", "EP")
	var c core.Handle
	m.OK(m.Th.GetCurrentContext(&c))
	s, shared := m.Stream(m.Th), m.Runtime.ThreadIn(c)
	var all sync.WaitGroup
	for g := range byte(4) {
		var up, dev, down core.Addr
		m.OK(memory.MallocHost(m.Th, &up, n))
		m.OK(memory.Malloc(m.Th, &dev, n, abi.MemMallocHugeFirst))
		m.OK(memory.MallocHost(m.Th, &down, n))
		coretest.Bytes(up, n)[0] = g + 1
		all.Go(func() {
			for range rounds {
				if err := transfer.MemcpyAsync(shared, dev, n, up, n, abi.MemcpyHostToDevice, s); err != nil {
					t.Error(err)
				}
				if err := transfer.MemcpyAsync(shared, down, n, dev, n, abi.MemcpyDeviceToHost, s); err != nil {
					t.Error(err)
				}
			}
		})
		defer func() {
			if got := coretest.Bytes(down, n)[0]; got != g+1 {
				t.Errorf("goroutine %d has %d", g, got)
			}
		}()
	}
	all.Wait()
	m.OK(m.Th.SynchronizeStream(s))
}
