package transfer

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// seen is a driver that notes what of its memory the host computes on.
type seen struct {
	driver.Driver
	mu    sync.Mutex
	views [][2]uint64 // guarded by mu; address and size
}

func (d *seen) Caps() driver.Caps {
	c := d.Driver.Caps()
	c.View = d
	return c
}

func (d *seen) Stays(addr uintptr) bool { return d.Driver.Caps().View.Stays(addr) }

func (d *seen) View(addr uintptr, n uint64) ([]byte, error) {
	d.mu.Lock()
	d.views = append(d.views, [2]uint64{uint64(addr), n})
	d.mu.Unlock()
	return d.Driver.Caps().View.View(addr, n)
}

// total is how many bytes were looked at; they are one range from start on, without gaps.
func (d *seen) total(t *testing.T, start uintptr) (n uint64) {
	t.Helper()
	slices.SortFunc(d.views, func(a, b [2]uint64) int { return int(int64(a[0] - b[0])) })
	for _, v := range d.views {
		if v[0] != uint64(start)+n {
			t.Fatalf("%d bytes at %#x were read, after %d bytes at %#x", v[1], v[0], n, start)
		}
		n += v[1]
	}
	d.views = nil
	return n
}

// watched is a runtime on a driver that notes what the host computes on, with device memory of a size.
func watched(t *testing.T, name string, size uint64) (*core.Thread, *seen, core.Addr) {
	t.Helper()
	base, err := soft.New(soft.Options{Devices: 1, Memory: 128 << 20})
	testenv.OK(t, err)
	p, err := product.Find(name, "")
	testenv.OK(t, err)
	d := &seen{Driver: base}
	rt := core.New(core.Options{Driver: d, Product: p})
	t.Cleanup(func() { rt.Close() }) //nolint:errcheck // tested elsewhere
	th := rt.NewThread(1)
	if err := th.SetDevice(0); err != nil {
		t.Fatal(err)
	}
	at, err := th.Current().Device.Opened.Load().Alloc(size, driver.PageNormal)
	testenv.OK(t, err)
	return th, d, at
}

// TestPrefetchReads: a prefetch reads the memory in the order of its stream, no more of it than there is or a cache
// holds, and other operations do not.
func TestPrefetchReads(t *testing.T) {
	const size = 48 << 20
	th, d, at := watched(t, "A2", size)
	ok := func(err *core.Error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		kind         abi.CmoType
		offset       uintptr
		n, wantBytes uint64
	}{
		{abi.CmoTypePrefetch, 0, 1, 1},
		{abi.CmoTypePrefetch, 100, 200_000, 200_000},
		{abi.CmoTypePrefetch, 0, size, mostCached},
		{abi.CmoTypePrefetch, size - 4096, size, 4096}, // as far as there is memory
		{abi.CmoTypePrefetch, 0, 1<<32 + 7, 7},         // 32 bits of the size count
		{abi.CmoTypeWriteback, 0, 4096, 0},
		{abi.CmoTypeInvalid, 0, 4096, 0},
		{abi.CmoTypeFlush, 0, 4096, 0},
	} {
		running, gate := make(chan bool), make(chan bool)
		ok(th.LaunchHostFunc(0, func(core.Addr) { close(running); <-gate }, 0))
		<-running
		ok(CmoAsync(th, at+tt.offset, tt.n, tt.kind, 0))
		d.mu.Lock()
		early := len(d.views)
		d.mu.Unlock()
		close(gate)
		ok(th.SynchronizeStream(0))
		if got := d.total(t, at+tt.offset); got != tt.wantBytes || early != 0 {
			t.Errorf("%v of %d bytes at %d reads %d, want %d; %d parts before its turn", tt.kind, tt.n, tt.offset, got,
				tt.wantBytes, early)
		}
	}
}

// TestPrefetchDescribed: what a descriptor says counts when the task runs, each time; making the task clears the head.
func TestPrefetchDescribed(t *testing.T) {
	for name, head := range map[string]int{"A2": 8, "950": 28} {
		th, d, at := watched(t, name, 1<<20)
		rt := th.Runtime
		write := func(b []byte) {
			t.Helper()
			if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: at, Src: core.AddrOf(b),
				N: uint64(len(b))}); err != nil {
				t.Fatal(err)
			}
		}
		write(bytes.Repeat([]byte{0xFF}, 128))
		op, err := describedCmo(rt, at, abi.CmoTypePrefetch)
		testenv.OK(t, err)
		desc := make([]byte, 128)
		testenv.OK(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: core.AddrOf(desc), Src: at, N: 128}))
		if want := append(make([]byte, head), bytes.Repeat([]byte{0xFF}, 128-head)...); !bytes.Equal(desc, want) {
			t.Errorf("%s: %x", name, desc)
		}
		for _, n := range []uint64{100_000, 5} { // changed between two runs
			if err := CmoSetDesc(th, at, at+4096, n); err != nil {
				t.Fatal(err)
			}
			testenv.OK(t, op.Work())
			if got := d.total(t, at+4096); got != n {
				t.Errorf("%s: %d bytes were read, want %d", name, got, n)
			}
		}
		for _, kind := range []abi.CmoType{abi.CmoTypeWriteback, abi.CmoTypeInvalid, abi.CmoTypeFlush} {
			other, err := describedCmo(rt, at, kind)
			if err == nil {
				err = other.Work()
			}
			if err != nil || d.views != nil {
				t.Errorf("%s: %v reads %d parts: %v", name, kind, len(d.views), err)
			}
		}
		if _, err := describedCmo(rt, 0x123456, abi.CmoTypePrefetch); err == nil {
			t.Error("a descriptor in no memory")
		}
	}
}
