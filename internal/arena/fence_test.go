//go:build linux

package arena

import (
	"testing"

	"ropeway/internal/testenv"
)

// TestFence proves that of a fenced window only pages with bytes of an allocation are open, that these are all of an
// allocation's pages, and that a freed one is closed.
func TestFence(t *testing.T) {
	a := open(t, Options{Capacity: 64 << 20, WindowProt: rw, Fenced: true})
	for _, size := range []uint64{1, 64, 100, 4095, 4096, 4097, 64 << 10, 100_000, 2 << 20, 3<<20 + 1} {
		p, err := a.Alloc(size, AllocOptions{Huge: Prefer})
		testenv.OK(t, err)
		first, end := p&^(pageSize-1), (p+uintptr(size)+pageSize-1)&^(pageSize-1)
		for _, x := range []struct {
			at   uintptr
			open bool
		}{
			{first - FenceBytes, false}, {first - 1, false}, {first, true}, {p, true},
			{p + uintptr(size) - 1, true}, {end - 1, true}, {end, false}, {end + FenceBytes - 1, false},
		} {
			if got := !faults(x.at); got != x.open {
				t.Errorf("%d bytes at %#x: %#x is open: %v", size, p, x.at, got)
			}
		}
		if r, ok := a.FindOn(first); !ok || r.Start != p {
			t.Errorf("%d bytes at %#x: its first page is %+v, %v", size, p, r, ok)
		}
		if _, ok := a.FindOn(end); ok {
			t.Errorf("%d bytes at %#x: the page after it belongs to it", size, p)
		}
		testenv.OK(t, a.Free(p))
		if !faults(p) {
			t.Errorf("%d bytes at %#x are open after Free", size, p)
		}
	}
}

// TestManyFences proves that there are no more mappings than the kernel allows, however many allocations there are.
func TestManyFences(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 40,000 allocations")
	}
	a := open(t, Options{Capacity: 16 << 30, WindowProt: rw, Fenced: true})
	for i := range 40_000 {
		p, err := a.Alloc(64, AllocOptions{})
		if err != nil {
			t.Fatalf("allocation %d: %v", i, err)
		}
		if i%1000 == 0 && faults(p) {
			t.Errorf("allocation %d is closed", i)
		}
	}
}
