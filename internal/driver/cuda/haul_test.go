package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/testenv"
)

// TestLoads proves that loads begin small, grow to the size of a slot and become small again, whichever lane takes
// them, and have every byte once.
func TestLoads(t *testing.T) {
	for _, lanes := range []uint64{1, 8} {
		for _, n := range []uint64{1, loadFirst - 1, loadFirst, 3*loadFirst + 7, 16 << 20, 256<<20 + 1} {
			h := newHaul(nil, true, cursor{rows: rows{dst: 1 << 40, src: 1 << 30, n: n, height: 1}}, n)
			h.lanes = lanes
			var loads []uint64
			var s slot
			for at := uint64(0); h.load(&s); {
				if len(s.load) != 1 || s.load[0].Src != 1<<30+uintptr(at) || s.load[0].Dst != 1<<40+uintptr(at) {
					t.Fatalf("load %d is %+v", len(loads), s.load)
				}
				at += s.load[0].N
				loads = append(loads, s.load[0].N)
				if s.last != (at == n) {
					t.Errorf("at %d of %d bytes: last %v", at, n, s.last)
				}
			}
			sum, grown := uint64(0), uint64(0)
			for i, x := range loads {
				if x > max(loadFirst, sum) || x > loadBytes || x < loadFirst && i < len(loads)-1 {
					t.Errorf("%d lanes, %d bytes: load %d is of %d", lanes, n, i, x)
				}
				sum += x
				grown = max(grown, x)
			}
			if last := loads[len(loads)-1]; sum != n || last > loadFirst || n > 64*loadBytes && grown != loadBytes {
				t.Errorf("%d lanes, %d bytes: the loads are %d, the largest %d, the last %d", lanes, n, sum, grown,
					last)
			}
		}
	}
}

// TestLanes proves that the number of lanes grows with the bytes of a haul, up to half of the cores and the number that
// keeps the link busy, and that no helper is woken for few bytes.
func TestLanes(t *testing.T) {
	for _, c := range []struct {
		cores   int
		n, want uint64
	}{
		{1, 1 << 40, 1}, {8, 1 << 40, 4}, {64, 1 << 40, 8},
		{16, 1, 1}, {16, laneBytes - 1, 1}, {16, laneBytes, 2}, {16, 3*laneBytes + 1, 4},
	} {
		cores(t, c.cores)
		if got := newHaul(nil, true, cursor{}, c.n).lanes; got != c.want {
			t.Errorf("%d cores, %d bytes: %d lanes, want %d", c.cores, c.n, got, c.want)
		}
	}
}

// link is a fake that records copies between slots and a GPU.
type link struct {
	*fake
	mu     sync.Mutex
	from   []uintptr                  // guarded by mu; sources of copies
	events []uintptr                  // guarded by mu; recorded events
	each   func(i int) libcuda.Result // guarded by mu; called with the number of a copy, and returns its result
}

func (l *link) MemcpyAsync(dst, src uintptr, n uint64, stream uintptr) libcuda.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from = append(l.from, src)
	if r := l.each(len(l.from) - 1); r != libcuda.Success {
		return r
	}
	return l.fake.MemcpyAsync(dst, src, n, stream)
}

func (l *link) EventRecord(event, stream uintptr) libcuda.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event)
	return l.fake.EventRecord(event, stream)
}

// newLink returns a device on a link, with n bytes of its memory.
func newLink(t *testing.T, n uint64) (l *link, d *Driver, device uintptr) {
	t.Helper()
	l = &link{fake: newFake(1), each: func(int) libcuda.Result { return libcuda.Success }}
	d, err := start(l, Options{})
	testenv.OK(t, err)
	v, err := d.Open(0)
	testenv.OK(t, err)
	if device, err = v.Alloc(n, driver.PageHugeFirst); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(v.Close(), d.Close(), l.fake.close()); err != nil {
			t.Error(err)
		}
	})
	return l, d, device
}

// watch resets the link.
func (l *link) watch(each func(i int) libcuda.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from, l.events, l.each = nil, nil, each
}

// TestSlotsTakeTurns proves that a lane uses its slots in turn, and that there is an event after every load except the
// last.
func TestSlotsTakeTurns(t *testing.T) {
	const n = 8 << 20
	cores(t, 1) // and so one lane
	l, d, device := newLink(t, n)
	host := mapped(t, n)
	for range 2 { // the first round creates the lane
		l.watch(func(int) libcuda.Result { return libcuda.Success })
		testenv.OK(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: device, Src: startOf(host), N: n}))
	}
	lane := d.gpus[0].lanes[0]
	for i, from := range l.from {
		if want := lane.stage + uintptr((i+1)%slotCount)*slotBytes; from != want {
			t.Errorf("load %d of %d is at %#x, want %#x", i, len(l.from), from, want)
		}
	}
	// used by a long wait to sleep
	events := slices.DeleteFunc(l.events, func(e uintptr) bool { return e == lane.event })
	for i, event := range events {
		if event != lane.slots[(i+1)%slotCount].event {
			t.Errorf("event %d is not that of the slot", i)
		}
	}
	if len(l.from) < 2*slotCount || len(events) != len(l.from)-1 {
		t.Errorf("%d loads, %d events", len(l.from), len(events))
	}
}

// TestHaulFails proves that a haul ends with the first error, a load that CUDA refuses or memory that is unmapped, and
// that its lanes can be used again.
func TestHaulFails(t *testing.T) {
	const n = 16 << 20
	for _, most := range []int{1, 8} {
		cores(t, 2*most)
		l, d, device := newLink(t, n)
		want := mapped(t, n)
		rand.NewChaCha8([32]byte{5}).Read(want)
		for _, up := range []bool{true, false} {
			host := mapped(t, n)
			clear(host)
			op := driver.Op{Kind: driver.OpCopy, Dst: startOf(host), Src: device, N: n}
			if up {
				op.Dst, op.Src = op.Src, op.Dst
			}
			for _, bad := range []int{0, 1, 5} {
				l.watch(func(i int) libcuda.Result {
					if i >= bad {
						return 1
					}
					return libcuda.Success
				})
				if err := d.Run(op); !errors.Is(err, libcuda.ErrRefused) {
					t.Errorf("%d hands, up %v, load %d: %v", most, up, bad, err)
				}
			}
			l.watch(func(i int) libcuda.Result {
				if i == 3 {
					unix.Mprotect(host[n/2:], unix.PROT_NONE)
				}
				return libcuda.Success
			})
			if err := d.Run(op); !errors.Is(err, driver.ErrFault) {
				t.Errorf("%d hands, up %v, memory has gone: %v", most, up, err)
			}
			l.watch(func(int) libcuda.Result { return libcuda.Success })
			got := mapped(t, n)
			for _, op := range []driver.Op{
				{Kind: driver.OpCopy, Dst: device, Src: startOf(want), N: n},
				{Kind: driver.OpCopy, Dst: startOf(got), Src: device, N: n},
			} {
				if err := d.Run(op); err != nil {
					t.Error(err)
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d hands, up %v: what comes after it is wrong", most, up)
			}
		}
	}
}

// TestSmallMemoryMissing is TestOrdinaryMemoryMissing for copies of one load and of a few, with used and with unused
// memory.
func TestSmallMemoryMissing(t *testing.T) {
	manyHands(t)
	l, d, device := newLink(t, 2<<20)
	for _, n := range []int{8 << 10, 64 << 10, 1 << 20} {
		before := bytes.Repeat([]byte{7}, n)
		for _, used := range []bool{false, true} {
			for _, up := range []bool{false, true} {
				if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: device, Src: startOf(before),
					N: uint64(n)}); err != nil {
					t.Fatal(err)
				}
				host := mapped(t, n)
				if used {
					clear(host)
				}
				unix.Mprotect(host[n-4096:], unix.PROT_NONE)
				op := driver.Op{Kind: driver.OpCopy, Dst: startOf(host), Src: device, N: uint64(n)}
				if up {
					op.Dst, op.Src = op.Src, op.Dst
				}
				l.watch(func(int) libcuda.Result { return libcuda.Success })
				if err := d.Run(op); !errors.Is(err, driver.ErrFault) {
					t.Errorf("%d bytes, used %v, up %v: %v", n, used, up, err)
				}
				if up && len(l.from) > 0 {
					t.Errorf("%d bytes, used %v: %d loads went up", n, used, len(l.from))
				}
				if !bytes.Equal(host[:n-4096], make([]byte, n-4096)) {
					t.Errorf("%d bytes, used %v, up %v: host memory was written", n, used, up)
				}
			}
		}
	}
}

// TestLatch proves that close waits for helpers inside, and that later ones are neither let in nor waited for.
func TestLatch(t *testing.T) {
	manyHands(t)
	var d latch
	for range 2 {
		if !d.enter() {
			t.Fatal("an open latch lets nobody in")
		}
	}
	var left atomic.Int32
	over := make(chan int32)
	go func() {
		d.close()
		over <- left.Load()
	}()
	for !d.closed.Load() {
		runtime.Gosched()
	}
	if d.enter() {
		t.Error("a latch that is being closed lets a helper in")
	}
	for range 2 {
		left.Add(1)
		d.leave()
	}
	if n := <-over; n != 2 {
		t.Errorf("it was closed when %d of 2 had left", n)
	}
	if d.enter() {
		t.Error("a closed latch lets a helper in")
	}
}

// TestTogether proves that all helpers that began have ended when withHelpers returns, and that the work needs no
// helper.
func TestTogether(t *testing.T) {
	manyHands(t)
	for _, n := range []int{-1, 0, 1, 7} {
		for range 100 {
			owned := false
			var began, ended atomic.Int32
			withHelpers(n, func() { owned = true }, func() {
				began.Add(1)
				runtime.Gosched()
				ended.Add(1)
			})
			if b, e := began.Load(), ended.Load(); !owned || b != e || int(b) > max(n, 0) {
				t.Fatalf("%d helpers: own work done: %v, %d began, %d ended", n, owned, b, e)
			}
		}
	}
	began := make(chan struct{})
	helped := false
	withHelpers(1, func() { <-began }, func() {
		close(began)
		runtime.Gosched()
		helped = true
	})
	if !helped {
		t.Error("a helper that had begun was not waited for")
	}
}
