package memory_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
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

// TestMemoryKeepsItsContents allocates and frees at random and checks that every block keeps what was written.
func TestMemoryKeepsItsContents(t *testing.T) {
	m := newMachine(t, "A2", "")
	const most = 3 << 20
	buf, start := m.pinned(most), m.free()
	r := rand.New(rand.NewPCG(1, 2))
	var live []block
	var taken uint64
	for i := range 400 {
		if len(live) > 0 && (r.IntN(3) == 0 || len(live) > 20) {
			k := r.IntN(len(live))
			b := live[k]
			if err := b.verify(m.Th, buf); err != nil {
				t.Fatal(err)
			}
			m.OK(memory.Free(m.Th, b.p))
			rounded, _ := memory.Round(b.n, 32)
			taken -= rounded
			live = append(live[:k], live[k+1:]...)
		} else {
			n := uint64(1) << r.IntN(22)
			b := block{n: n + r.Uint64N(n), seed: byte(i)}
			b.n = min(b.n, most)
			b.p = m.device(b.n)
			m.OK(b.write(m.Th, buf))
			rounded, _ := memory.Round(b.n, 32)
			taken += rounded
			live = append(live, b)
		}
		if got := start - m.free(); got != taken {
			t.Fatalf("step %d: %d bytes are in use, %d were asked for", i, got, taken)
		}
	}
	for _, b := range live {
		if err := b.verify(m.Th, buf); err != nil {
			t.Error(err)
		}
	}
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

// TestMemoryFreedInUse frees memory that queued copies still want: they may work or fail, nothing else may happen.
func TestMemoryFreedInUse(t *testing.T) {
	m := newMachine(t, "A2", "")
	for round := range 20 {
		const n = 1 << 20
		var s core.Handle
		m.OK(m.Th.CreateStream(&s))
		gate := make(chan struct{})
		m.OK(m.Th.LaunchHostFunc(s, func(core.Addr) { <-gate }, 0))
		a, b, h := m.device(n), m.device(n), m.pinned(n)
		m.OK(transfer.MemcpyAsync(m.Th, a, n, h, n, abi.MemcpyHostToDevice, s))
		m.OK(transfer.MemcpyAsync(m.Th, b, n, a, n, abi.MemcpyDeviceToDevice, s))
		m.OK(transfer.MemcpyAsync(m.Th, h, n, b, n, abi.MemcpyDeviceToHost, s))
		freed := make(chan *core.Error, 3)
		go func() {
			freed <- memory.Free(m.Th, a)
			freed <- memory.FreeHost(m.Th, h)
			freed <- memory.Free(m.Th, b)
		}()
		if round%2 == 0 { // all freed before the copies run, or meanwhile
			for range 3 {
				m.OK(<-freed)
			}
			close(gate)
		} else {
			close(gate)
			for range 3 {
				m.OK(<-freed)
			}
		}
		if err := m.Runtime.Streams.Get(s).Wait("test", core.WaitLimit{}); err != nil && err.Code != abi.ErrRTSysDma {
			t.Errorf("the stream says %v", err)
		} else if err == nil && round%2 == 0 {
			t.Error("copies of freed memory worked")
		}
		m.OK(m.Th.DestroyStream(s))
	}
}

// TestMemoryAllOfIt takes all memory, frees it and takes it again.
func TestMemoryAllOfIt(t *testing.T) {
	m := newMachine(t, "A2", "")
	start, fill := m.free(), make([]int, 2)
	for round := range fill {
		var live []core.Addr
		for n := uint64(64 << 20); n >= 4096; {
			var p core.Addr
			err := memory.Malloc(m.Th, &p, n-32, abi.MemMallocHugeFirst)
			if err == nil {
				live = append(live, p)
				continue
			}
			m.Want(err, abi.ErrRTMemoryAllocation)
			if !errors.Is(err, driver.ErrNoMemory) {
				t.Fatalf("the driver's own words are lost: %v", err)
			}
			n /= 2
		}
		if left := m.free(); left >= start/64 {
			t.Errorf("%d bytes of %d are left when nothing fits", left, start)
		}
		fill[round] = len(live)
		for _, p := range live {
			m.OK(memory.Free(m.Th, p))
		}
		if got := m.free(); got != start {
			t.Errorf("%d bytes are free afterwards, %d were before", got, start)
		}
	}
	if fill[0] != fill[1] {
		t.Errorf("the second time there was room for %d allocations, the first time for %d", fill[1], fill[0])
	}
}

// TestMemoryFailsCleanly makes every third allocation fail in the driver: what succeeds works, nothing is lost.
func TestMemoryFailsCleanly(t *testing.T) {
	m := newMachine(t, "A2", "")
	start, buf := m.free(), m.pinned(4096)
	var live []block
	for i := range 60 {
		if i%3 == 0 {
			m.Faults.FailAll(faulty.Alloc, driver.ErrNoMemory)
		}
		b := block{n: 4096, seed: byte(i)}
		err := memory.Malloc(m.Th, &b.p, b.n, abi.MemMallocNormalOnly)
		m.Faults.Heal()
		if i%3 == 0 {
			m.Want(err, abi.ErrRTMemoryAllocation)
			continue
		}
		m.OK(err)
		m.OK(b.write(m.Th, buf))
		live = append(live, b)
	}
	for _, b := range live {
		if err := b.verify(m.Th, buf); err != nil {
			t.Error(err)
		}
		m.OK(memory.Free(m.Th, b.p))
	}
	if got := m.free(); got != start {
		t.Errorf("%d bytes are free, want %d", got, start)
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

// TestMemoryAborting covers the one call of the group that looks at a running abort.
func TestMemoryAborting(t *testing.T) {
	m := newMachine(t, "A2", "")
	p := m.device(64)
	th, begun, refused := m.NewThread(0), make(chan struct{}), false
	m.OK(m.Th.LaunchHostFunc(m.Stream(m.Th), func(core.Addr) { // the abort waits for it
		close(begun)
		for until := time.Now().Add(10 * time.Second); !refused && time.Now().Before(until); {
			err := memory.MemFlush(th, 12345, 1)
			refused = err != nil && err.Code == abi.ErrRTDeviceTaskAbort
		}
		if err := memory.MemInvalidate(th, 12345, 1); err != nil {
			t.Error(err)
		}
		if err := memory.Free(th, p); err != nil {
			t.Error(err)
		}
	}, 0))
	<-begun
	m.OK(m.Th.DeviceTaskAbort(0, 0))
	if !refused {
		t.Error("memory was flushed while the device aborted its tasks")
	}
	m.OK(memory.MemFlush(m.Th, 12345, 1))
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
