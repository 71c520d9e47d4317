package memory_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// machine is what these tests run on.
type machine struct{ *coretest.Machine }

func newMachine(t *testing.T, name, form string) *machine {
	t.Helper()
	return &machine{coretest.NewMachine(t, name, form)}
}

func (m *machine) device(n uint64) (p core.Addr) {
	m.Helper()
	m.OK(memory.Malloc(m.Th, &p, n, abi.MemMallocHugeFirst))
	return p
}

func (m *machine) pinned(n uint64) (p core.Addr) {
	m.Helper()
	m.OK(memory.MallocHost(m.Th, &p, n))
	return p
}

// free is how many bytes are left on the thread's device.
func (m *machine) free() uint64 {
	m.Helper()
	var free, total uint64
	m.OK(memory.GetMemInfo(m.Th, abi.MemAttrHBMMem, &free, &total))
	return free
}

// block is one allocation of a test and what is in it.
type block struct {
	p    core.Addr
	n    uint64
	seed byte
}

func (b block) at(i uint64) byte { return b.seed + byte(i*31) }

// write fills a block through a pinned buffer, verify reads it back.
func (b block) write(th *core.Thread, buf core.Addr) *core.Error {
	h := coretest.Bytes(buf, b.n)
	for i := range h {
		h[i] = b.at(uint64(i))
	}
	return transfer.Memcpy(th, b.p, b.n, buf, b.n, abi.MemcpyHostToDevice)
}

func (b block) verify(th *core.Thread, buf core.Addr) error {
	if err := transfer.Memcpy(th, buf, b.n, b.p, b.n, abi.MemcpyDeviceToHost); err != nil {
		return err
	}
	for i, v := range coretest.Bytes(buf, b.n) {
		if v != b.at(uint64(i)) {
			return fmt.Errorf("byte %d of %d at %#x is %#x, want %#x", i, b.n, b.p, v, b.at(uint64(i)))
		}
	}
	return nil
}

// TestMemoryInside copies into the middle of an allocation, and cannot free it from there.
func TestMemoryInside(t *testing.T) {
	for _, form := range []string{"310P EP", "310P RC"} {
		name, form, _ := strings.Cut(form, " ")
		m := newMachine(t, name, form)
		for _, n := range []uint64{100, 8192, 5 << 20} {
			d, h := m.device(n), m.pinned(n)
			b := block{d + 64, n - 64, 9}
			m.OK(b.write(m.Th, h))
			for _, inside := range []core.Addr{1, 64, core.Addr(n - 1)} {
				for _, err := range []*core.Error{memory.Free(m.Th, d+inside), memory.FreeHost(m.Th, h+inside)} {
					m.Want(err, abi.ErrRTParamInvalid)
					if want := fmt.Sprintf("%d bytes inside", inside); !strings.Contains(err.Error(), want) {
						t.Errorf("%v does not say %q", err, want)
					}
				}
			}
			if err := b.verify(m.Th, h); err != nil {
				t.Error(err)
			}
			m.OK(memory.Free(m.Th, d))
			m.OK(memory.FreeHost(m.Th, h))
		}
	}
}

// TestMemoryFreedTwice is refused the second time, whatever is beside it, and says so.
func TestMemoryFreedTwice(t *testing.T) {
	m := newMachine(t, "A2", "")
	for _, n := range []uint64{100, 8192, 5 << 20} {
		var d, h [3]core.Addr
		for i := range d {
			d[i], h[i] = m.device(n), m.pinned(n)
		}
		m.OK(memory.Free(m.Th, d[1]))
		m.OK(memory.FreeHost(m.Th, h[1]))
		for range 2 {
			err := memory.Free(m.Th, d[1])
			m.Want(err, abi.ErrRTParamInvalid)
			if !strings.Contains(err.Error(), "freed already") {
				t.Errorf("%v does not say why", err)
			}
			m.Want(memory.FreeHost(m.Th, h[1]), abi.ErrRTParamInvalid)
		}
		for _, i := range []int{0, 2} {
			m.OK(memory.Free(m.Th, d[i]))
			m.OK(memory.FreeHost(m.Th, h[i]))
		}
	}
}

// TestMemoryGoesWithItsDevice resets a device: its memory is gone, other memory is not.
func TestMemoryGoesWithItsDevice(t *testing.T) {
	m := newMachine(t, "A2", "")
	start, buf := m.free(), m.pinned(4096)
	keep := block{n: 4096, seed: 3}
	other := m.NewThread(1)
	m.OK(memory.Malloc(other, &keep.p, 4096, abi.MemMallocHugeFirst))
	m.OK(keep.write(m.NewThread(1), buf))
	p := m.device(1 << 20)
	late := m.NewThread(0)
	m.OK(m.Th.ResetDeviceForce(0))
	m.Want(memory.Free(m.Th, p), abi.ErrRTParamInvalid)
	m.Want(memory.Malloc(late, &p, 64, abi.MemMallocHugeFirst), abi.ErrRTContextNull)
	m.Want(memory.MallocHost(late, &p, 64), abi.ErrRTContextNull)
	if err := keep.verify(other, buf); err != nil { // pinned memory belongs to no device
		t.Error(err)
	}
	m.OK(m.Th.SetDevice(0))
	if got := m.free(); got != start {
		t.Errorf("%d bytes are free on the device, %d were at first", got, start)
	}
}

// TestMemoryLostDevice shows what happened to a device when memory is wanted from it.
func TestMemoryLostDevice(t *testing.T) {
	m := newMachine(t, "A2", "")
	p := m.device(4096)
	m.Faults.Lose(0)
	err := memory.Malloc(m.Th, new(core.Addr), 4096, abi.MemMallocHugeFirst)
	m.Want(err, abi.ErrRTLostHeartbeat)
	m.OK(memory.Free(m.Th, p))
}

// TestMemoryHammer allocates, writes, reads and frees from many threads at once; half of what one allocates another
// frees.
func TestMemoryHammer(t *testing.T) {
	const threads, each = 8, 1250
	m := newMachine(t, "A2", "")
	start := [2]uint64{m.free()}
	other := m.NewThread(1)
	var total uint64
	m.OK(memory.GetMemInfo(other, abi.MemAttrHBMMem, &start[1], &total))

	passed := make(chan block, threads)
	var wg, done sync.WaitGroup
	for g := range threads {
		wg.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			defer wg.Done()
			if err := hammerMemory(m, g, each, passed); err != nil {
				t.Error(err)
			}
		}()
	}
	go func() { wg.Wait(); close(passed) }()
	for b := range passed {
		if err := memory.Free(other, b.p); err != nil {
			t.Error(err)
		}
	}
	done.Wait()
	var now [2]uint64
	m.OK(memory.GetMemInfo(m.Th, abi.MemAttrHBMMem, &now[0], &total))
	m.OK(memory.GetMemInfo(other, abi.MemAttrHBMMem, &now[1], &total))
	if now != start {
		t.Errorf("%d bytes are free, %d were at first", now, start)
	}
}

// hammerMemory is one thread of TestMemoryHammer; it returns the first thing that went wrong.
func hammerMemory(m *machine, g, rounds int, passed chan<- block) error {
	const most = 64 << 10
	th := m.Runtime.NewThread(uint32(g))
	defer th.Close()
	if err := th.SetDevice(int32(g % 2)); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(uint64(g), 1))
	var live []block
	for i := range rounds {
		b := block{n: 1 + r.Uint64N(most>>r.IntN(12)), seed: byte(g*rounds + i)}
		var buf core.Addr
		if err := memory.Malloc(th, &b.p, b.n, abi.MemMallocPolicy(r.IntN(3)%2*2)); err != nil {
			return err
		}
		if err := memory.MallocHost(th, &buf, most); err != nil {
			return err
		}
		if err := b.write(th, buf); err != nil {
			return err
		}
		if live = append(live, b); len(live) > 8 || i == rounds-1 {
			for k, old := range live {
				if err := old.verify(th, buf); err != nil {
					return err
				}
				if k%2 == 0 {
					passed <- old
				} else if err := memory.Free(th, old.p); err != nil {
					return err
				}
			}
			live = live[:0]
		}
		if err := memory.FreeHost(th, buf); err != nil {
			return err
		}
	}
	return nil
}
