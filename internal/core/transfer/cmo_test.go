package transfer

import (
	"slices"
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

// seen is a driver that notes what of its memory the host computes on.
type seen struct {
	driver.Driver
	mu    sync.Mutex
	views [][2]uint64 // guarded by mu; address and size
}

func (d *seen) Unwrap() driver.Driver { return d.Driver }

func (d *seen) View(addr uintptr, n uint64) ([]byte, error) {
	d.mu.Lock()
	d.views = append(d.views, [2]uint64{uint64(addr), n})
	d.mu.Unlock()
	return d.Driver.(driver.HostViewer).View(addr, n)
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

// TestPrefetchReads: a prefetch reads the memory in the order of its stream, no more of it than there is or a cache
// holds, and other operations do not.
func TestPrefetchReads(t *testing.T) {
	base, err := soft.New(soft.Options{Devices: 1, Memory: 128 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p, err := product.Find("A2", "")
	if err != nil {
		t.Fatal(err)
	}
	d := &seen{Driver: base}
	rt := core.New(core.Options{Driver: d, Product: p})
	defer rt.Close() //nolint:errcheck // tested elsewhere
	th := rt.NewThread(1)
	ok := func(err *core.Error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(th.SetDevice(0))
	dev := th.Current().Device.Opened.Load()
	const size = 48 << 20
	at, err := dev.Alloc(size, driver.PageNormal)
	if err != nil {
		t.Fatal(err)
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
