package core

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

// memTest is a runtime on two small devices with a thread that has device 0 set.
type memTest struct {
	*testing.T
	rt     *Runtime
	th     *Thread
	faults *faulty.Driver
}

func newMemTest(t *testing.T, name, form string) *memTest {
	t.Helper()
	p, err := product.Find(name, form)
	if err != nil {
		t.Fatal(err)
	}
	d, err := soft.New(soft.Options{Devices: 2, Memory: 128 << 20, Open: p.RC})
	if err != nil {
		t.Fatal(err)
	}
	m := &memTest{T: t, faults: faulty.Wrap(d)}
	m.rt = New(Options{Driver: m.faults, Product: p})
	t.Cleanup(func() {
		if err := m.rt.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	m.th = m.thread(0)
	return m
}

// thread is a new thread with a device set.
func (m *memTest) thread(device int32) *Thread {
	m.Helper()
	th := m.rt.NewThread(1)
	m.ok(th.SetDevice(device))
	return th
}

func (m *memTest) ok(err *Error) {
	if err != nil {
		m.Helper()
		m.Fatal(err)
	}
}

func (m *memTest) want(err *Error, code abi.Code) {
	m.Helper()
	if err == nil && code != 0 || err != nil && err.Code != code {
		m.Fatalf("got %v, want %v", err, code)
	}
}

func (m *memTest) device(n uint64) (p Addr) {
	m.Helper()
	m.ok(m.th.Malloc(&p, n, abi.MemMallocHugeFirst))
	return p
}

func (m *memTest) pinned(n uint64) (p Addr) {
	m.Helper()
	m.ok(m.th.MallocHost(&p, n))
	return p
}

// free is how many bytes are left on the thread's device.
func (m *memTest) free() uint64 {
	m.Helper()
	var free, total uint64
	m.ok(m.th.GetMemInfo(abi.MemAttrHBMMem, &free, &total))
	return free
}

// memBytes is host memory at p.
func memBytes(p Addr, n uint64) []byte { return unsafe.Slice(pointer[byte](p), n) }

// block is one allocation of a test and what is in it.
type block struct {
	p    Addr
	n    uint64
	seed byte
}

func (b block) at(i uint64) byte { return b.seed + byte(i*31) }

// write fills a block through a pinned buffer, verify reads it back.
func (b block) write(th *Thread, buf Addr) *Error {
	h := memBytes(buf, b.n)
	for i := range h {
		h[i] = b.at(uint64(i))
	}
	return th.Memcpy(b.p, b.n, buf, b.n, abi.MemcpyHostToDevice)
}

func (b block) verify(th *Thread, buf Addr) error {
	if err := th.Memcpy(buf, b.n, b.p, b.n, abi.MemcpyDeviceToHost); err != nil {
		return err
	}
	for i, v := range memBytes(buf, b.n) {
		if v != b.at(uint64(i)) {
			return fmt.Errorf("byte %d of %d at %#x is %#x, want %#x", i, b.n, b.p, v, b.at(uint64(i)))
		}
	}
	return nil
}

// TestMemoryKeepsItsContents allocates and frees at random and checks that every block keeps what was written.
func TestMemoryKeepsItsContents(t *testing.T) {
	m := newMemTest(t, "A2", "")
	const most = 3 << 20
	buf, start := m.pinned(most), m.free()
	r := rand.New(rand.NewPCG(1, 2))
	var live []block
	var taken uint64
	for i := range 400 {
		if len(live) > 0 && (r.IntN(3) == 0 || len(live) > 20) {
			k := r.IntN(len(live))
			b := live[k]
			if err := b.verify(m.th, buf); err != nil {
				t.Fatal(err)
			}
			m.ok(m.th.Free(b.p))
			rounded, _ := round(b.n, 32)
			taken -= rounded
			live = append(live[:k], live[k+1:]...)
		} else {
			n := uint64(1) << r.IntN(22)
			b := block{n: n + r.Uint64N(n), seed: byte(i)}
			b.n = min(b.n, most)
			b.p = m.device(b.n)
			m.ok(b.write(m.th, buf))
			rounded, _ := round(b.n, 32)
			taken += rounded
			live = append(live, b)
		}
		if got := start - m.free(); got != taken {
			t.Fatalf("step %d: %d bytes are in use, %d were asked for", i, got, taken)
		}
	}
	for _, b := range live {
		if err := b.verify(m.th, buf); err != nil {
			t.Error(err)
		}
	}
}

// TestMemoryInside copies into the middle of an allocation, and cannot free it from there.
func TestMemoryInside(t *testing.T) {
	for _, form := range []string{"310P EP", "310P RC"} {
		name, form, _ := strings.Cut(form, " ")
		m := newMemTest(t, name, form)
		for _, n := range []uint64{100, 8192, 5 << 20} {
			d, h := m.device(n), m.pinned(n)
			b := block{d + 64, n - 64, 9}
			m.ok(b.write(m.th, h))
			for _, inside := range []Addr{1, 64, Addr(n - 1)} {
				for _, err := range []*Error{m.th.Free(d + inside), m.th.FreeHost(h + inside)} {
					m.want(err, abi.ErrRTParamInvalid)
					if want := fmt.Sprintf("%d bytes inside", inside); !strings.Contains(err.Error(), want) {
						t.Errorf("%v does not say %q", err, want)
					}
				}
			}
			if err := b.verify(m.th, h); err != nil {
				t.Error(err)
			}
			m.ok(m.th.Free(d))
			m.ok(m.th.FreeHost(h))
		}
	}
}

// TestMemoryFreedTwice is refused the second time, whatever is beside it, and says so.
func TestMemoryFreedTwice(t *testing.T) {
	m := newMemTest(t, "A2", "")
	for _, n := range []uint64{100, 8192, 5 << 20} {
		var d, h [3]Addr
		for i := range d {
			d[i], h[i] = m.device(n), m.pinned(n)
		}
		m.ok(m.th.Free(d[1]))
		m.ok(m.th.FreeHost(h[1]))
		for range 2 {
			err := m.th.Free(d[1])
			m.want(err, abi.ErrRTParamInvalid)
			if !strings.Contains(err.Error(), "freed already") {
				t.Errorf("%v does not say why", err)
			}
			m.want(m.th.FreeHost(h[1]), abi.ErrRTParamInvalid)
		}
		for _, i := range []int{0, 2} {
			m.ok(m.th.Free(d[i]))
			m.ok(m.th.FreeHost(h[i]))
		}
	}
}

// TestMemoryFreedInUse frees memory that queued copies still want: they may work or fail, nothing else may happen.
func TestMemoryFreedInUse(t *testing.T) {
	m := newMemTest(t, "A2", "")
	for round := range 20 {
		const n = 1 << 20
		var s Handle
		m.ok(m.th.CreateStream(&s))
		gate := make(chan struct{})
		m.ok(m.th.LaunchHostFunc(s, func(Addr) { <-gate }, 0))
		a, b, h := m.device(n), m.device(n), m.pinned(n)
		m.ok(m.th.MemcpyAsync(a, n, h, n, abi.MemcpyHostToDevice, s))
		m.ok(m.th.MemcpyAsync(b, n, a, n, abi.MemcpyDeviceToDevice, s))
		m.ok(m.th.MemcpyAsync(h, n, b, n, abi.MemcpyDeviceToHost, s))
		freed := make(chan *Error, 3)
		go func() {
			freed <- m.th.Free(a)
			freed <- m.th.FreeHost(h)
			freed <- m.th.Free(b)
		}()
		if round%2 == 0 { // all freed before the copies run, or meanwhile
			for range 3 {
				m.ok(<-freed)
			}
			close(gate)
		} else {
			close(gate)
			for range 3 {
				m.ok(<-freed)
			}
		}
		if err := m.rt.streams.get(s).wait("test", waiting{}); err != nil && err.Code != abi.ErrRTSysDma {
			t.Errorf("the stream says %v", err)
		} else if err == nil && round%2 == 0 {
			t.Error("copies of freed memory worked")
		}
		m.ok(m.th.DestroyStream(s))
	}
}

// TestMemoryAllOfIt takes all memory, gives it back and takes it again.
func TestMemoryAllOfIt(t *testing.T) {
	m := newMemTest(t, "A2", "")
	start, fill := m.free(), make([]int, 2)
	for round := range fill {
		var live []Addr
		for n := uint64(64 << 20); n >= 4096; {
			var p Addr
			err := m.th.Malloc(&p, n-32, abi.MemMallocHugeFirst)
			if err == nil {
				live = append(live, p)
				continue
			}
			m.want(err, abi.ErrRTMemoryAllocation)
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
			m.ok(m.th.Free(p))
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
	m := newMemTest(t, "A2", "")
	start, buf := m.free(), m.pinned(4096)
	var live []block
	for i := range 60 {
		if i%3 == 0 {
			m.faults.FailAll(faulty.Alloc, driver.ErrNoMemory)
		}
		b := block{n: 4096, seed: byte(i)}
		err := m.th.Malloc(&b.p, b.n, abi.MemMallocNormalOnly)
		m.faults.Heal()
		if i%3 == 0 {
			m.want(err, abi.ErrRTMemoryAllocation)
			continue
		}
		m.ok(err)
		m.ok(b.write(m.th, buf))
		live = append(live, b)
	}
	for _, b := range live {
		if err := b.verify(m.th, buf); err != nil {
			t.Error(err)
		}
		m.ok(m.th.Free(b.p))
	}
	if got := m.free(); got != start {
		t.Errorf("%d bytes are free, want %d", got, start)
	}
}

// TestMemoryGoesWithItsDevice resets a device: its memory is gone, other memory is not.
func TestMemoryGoesWithItsDevice(t *testing.T) {
	m := newMemTest(t, "A2", "")
	start, buf := m.free(), m.pinned(4096)
	keep := block{n: 4096, seed: 3}
	other := m.thread(1)
	m.ok(other.Malloc(&keep.p, 4096, abi.MemMallocHugeFirst))
	m.ok(keep.write(m.thread(1), buf))
	p := m.device(1 << 20)
	late := m.thread(0)
	m.ok(m.th.ResetDeviceForce(0))
	m.want(m.th.Free(p), abi.ErrRTParamInvalid)
	m.want(late.Malloc(&p, 64, abi.MemMallocHugeFirst), abi.ErrRTContextNull)
	m.want(late.MallocHost(&p, 64), abi.ErrRTContextNull)
	if err := keep.verify(other, buf); err != nil { // pinned memory belongs to no device
		t.Error(err)
	}
	m.ok(m.th.SetDevice(0))
	if got := m.free(); got != start {
		t.Errorf("%d bytes are free on the device, %d were at first", got, start)
	}
}

// TestMemoryLostDevice tells what happened to a device when memory is wanted from it.
func TestMemoryLostDevice(t *testing.T) {
	m := newMemTest(t, "A2", "")
	p := m.device(4096)
	m.faults.Lose(0)
	err := m.th.Malloc(new(Addr), 4096, abi.MemMallocHugeFirst)
	m.want(err, abi.ErrRTLostHeartbeat)
	m.ok(m.th.Free(p))
}

// TestMemoryAborting covers the one call of the group that looks at a running abort.
func TestMemoryAborting(t *testing.T) {
	m := newMemTest(t, "A2", "")
	m.rt.devices[0].aborting.Store(true)
	m.want(m.th.MemFlush(12345, 1), abi.ErrRTDeviceTaskAbort)
	m.ok(m.th.MemInvalidate(12345, 1))
	m.ok(m.th.Free(m.device(64)))
	m.rt.devices[0].aborting.Store(false)
	m.ok(m.th.MemFlush(12345, 1))
}

// TestMemoryHammer allocates, writes, reads and frees from many threads at once; half of what one allocates another
// frees.
func TestMemoryHammer(t *testing.T) {
	const threads, each = 8, 1250
	m := newMemTest(t, "A2", "")
	start := [2]uint64{m.free()}
	other := m.thread(1)
	var total uint64
	m.ok(other.GetMemInfo(abi.MemAttrHBMMem, &start[1], &total))

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
		if err := other.Free(b.p); err != nil {
			t.Error(err)
		}
	}
	done.Wait()
	var now [2]uint64
	m.ok(m.th.GetMemInfo(abi.MemAttrHBMMem, &now[0], &total))
	m.ok(other.GetMemInfo(abi.MemAttrHBMMem, &now[1], &total))
	if now != start {
		t.Errorf("%d bytes are free, %d were at first", now, start)
	}
}

// hammerMemory is one thread of TestMemoryHammer; it returns the first thing that went wrong.
func hammerMemory(m *memTest, g, rounds int, passed chan<- block) error {
	const most = 64 << 10
	th := m.rt.NewThread(uint32(g))
	defer th.Close()
	if err := th.SetDevice(int32(g % 2)); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(uint64(g), 1))
	var live []block
	for i := range rounds {
		b := block{n: 1 + r.Uint64N(most>>r.IntN(12)), seed: byte(g*rounds + i)}
		var buf Addr
		if err := th.Malloc(&b.p, b.n, abi.MemMallocPolicy(r.IntN(3)%2*2)); err != nil {
			return err
		}
		if err := th.MallocHost(&buf, most); err != nil {
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
				} else if err := th.Free(old.p); err != nil {
					return err
				}
			}
			live = live[:0]
		}
		if err := th.FreeHost(buf); err != nil {
			return err
		}
	}
	return nil
}
