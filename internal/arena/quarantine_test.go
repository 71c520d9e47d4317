//go:build linux

package arena

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/testenv"
	"ropeway/internal/testenv/seeded"
)

// history is what is to be known about which chunks of a fresh arena were handed out.
type history struct {
	m     *model
	used  []bool // by chunk: handed out, and not recalled since
	freed []run  // that are quarantined, oldest first
}

// chunks are those of size bytes at addr.
func (h *history) chunks(addr uintptr, size uint64) []bool {
	c := uint64(addr-h.m.a.base) >> chunkShift
	return h.used[c : c+(size+chunkSize-1)>>chunkShift]
}

// room reports whether n chunks in a row, at an extent if aligned, are good.
func (h *history) room(size uint64, good func(c int) bool) bool {
	n, run := int((size+chunkSize-1)>>chunkShift), 0
	for c := range h.used {
		if !good(c) {
			run = 0
		} else if run > 0 || size < extentSize || c%chunksInExt == 0 {
			run++
		}
		if run == n {
			return true
		}
	}
	return false
}

// recalled makes chunks new that came back because there was no room elsewhere.
func (h *history) recalled() {
	clear(h.used)
	for _, r := range h.m.live {
		for i := range h.chunks(r.Start, r.Size) {
			h.chunks(r.Start, r.Size)[i] = true
		}
	}
	h.freed = slices.Clone(h.m.a.quarantined)
	for _, r := range h.m.a.quarantined {
		for c := r.c; c < r.c+r.n; c++ {
			h.used[c] = true
		}
	}
}

func (h *history) alloc(size uint64) error {
	unused := h.room(size, func(c int) bool { return !h.used[c] })
	if err := h.m.alloc(size, AllocOptions{}); err != nil {
		return err
	}
	if !unused {
		defer h.recalled()
	}
	var got Range
	for _, r := range h.m.live {
		if r.ID == h.m.a.nextID {
			got = r
		}
	}
	if got.ID == 0 || got.Size != size { // out of memory
		return nil
	}
	again := false
	for i, c := range h.chunks(got.Start, size) {
		again = again || c
		h.chunks(got.Start, size)[i] = true
	}
	if again && unused {
		return fmt.Errorf("%d bytes were handed out again at %#x, though there are addresses never used",
			size, got.Start)
	}
	// A chunk alone finds room as soon as anything is recalled: the older half, so what was freed later stays away.
	if c := int32((got.Start - h.m.a.base) >> chunkShift); again && size <= chunkSize {
		for _, r := range h.freed[(len(h.freed)+1)/2:] {
			if r.c <= c && c < r.c+r.n {
				return fmt.Errorf("%#x is handed out again, of the younger half of %v", got.Start, h.freed)
			}
		}
	}
	return nil
}

func (h *history) free(i int) error {
	r := h.m.live[i]
	c, n := int32((r.Start-h.m.a.base)>>chunkShift), int32((r.Size+chunkSize-1)>>chunkShift)
	h.freed = append(h.freed, run{c, n})
	return h.m.free(i)
}

func (h *history) check() error {
	if !slices.Equal(h.freed, h.m.a.quarantined) {
		return fmt.Errorf("%v are quarantined, want %v", h.m.a.quarantined, h.freed)
	}
	return h.m.check()
}

func newHistory(a *Arena) *history {
	return &history{m: &model{a: a, seen: map[uint64]bool{}}, used: make([]bool, a.capacity>>chunkShift)}
}

// freshModel: an address is handed out again only when every other one has been.
func freshModel(t *rapid.T) {
	a, err := New(Options{
		Name: "fresh", Capacity: uint64(rapid.IntRange(1, 3).Draw(t, "extents")) * extentSize,
		Fresh: true, WindowProt: rw,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	h := newHistory(a)
	size := rapid.OneOf(rapid.Just[uint64](100), rapid.SampledFrom(modelSizes))
	t.Repeat(map[string]func(*rapid.T){
		"alloc": func(t *rapid.T) {
			if err := h.alloc(size.Draw(t, "size")); err != nil {
				t.Fatal(err)
			}
		},
		"free": func(t *rapid.T) {
			if len(h.m.live) == 0 {
				t.Skip("nothing to free")
			}
			if err := h.free(rapid.IntRange(0, len(h.m.live)-1).Draw(t, "which")); err != nil {
				t.Fatal(err)
			}
		},
		"": func(t *rapid.T) {
			if err := h.check(); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func TestFreshModel(t *testing.T) {
	rapid.Check(t, freshModel)
	seeded.Cases(t, freshModel, map[string]uint64{
		"two chunks are recalled before a longer run": 9836762076315968092,
	})
}

// TestFreshRecall is that case by hand: of three freed runs the first two come back, in whatever order, and the last
// stays away.
func TestFreshRecall(t *testing.T) {
	h := newHistory(open(t, Options{Capacity: extentSize, Fresh: true, WindowProt: rw}))
	for range chunksInExt - 2 {
		testenv.OK(t, h.alloc(100))
	}
	testenv.OK(t, h.alloc(chunkSize+1))
	first, second := h.m.live[4].Start, h.m.live[2].Start
	for _, i := range []int{4, 2, len(h.m.live) - 3} {
		testenv.OK(t, h.free(i))
	}
	if want := []run{{4, 1}, {2, 1}, {chunksInExt - 2, 2}}; !slices.Equal(h.freed, want) {
		t.Fatalf("freed %v, want %v", h.freed, want)
	}
	for range 2 {
		testenv.OK(t, errors.Join(h.alloc(100), h.check()))
		if want := []run{{chunksInExt - 2, 2}}; !slices.Equal(h.m.a.quarantined, want) {
			t.Fatalf("quarantined are %v, want %v", h.m.a.quarantined, want)
		}
	}
	_, one := h.m.at(first)
	_, two := h.m.at(second)
	if !one || !two {
		t.Errorf("live: the chunk freed first %t, the second %t; want both", one, two)
	}
}

// In a window of n chunks the same address comes back after n allocations, not before.
func TestFreshGoesRound(t *testing.T) {
	a := open(t, Options{Capacity: 4 << 20, Fresh: true, WindowProt: rw})
	n := int(a.capacity >> chunkShift)
	seen := map[uintptr]bool{}
	for i := range n {
		p := alloc(t, a, 100)
		if seen[p] {
			t.Fatalf("allocation %d of %d: %#x again", i, n, p)
		}
		seen[p] = true
		free(t, a, p)
	}
	if p := alloc(t, a, 100); !seen[p] {
		t.Errorf("%#x is no chunk of the window", p)
	}
}

// Freed memory faults, is returned to the kernel, and is open and empty when it is handed out again.
func TestFreshClosesWhatIsFreed(t *testing.T) {
	a := open(t, Options{Capacity: 8 << 20, Fresh: true, WindowProt: rw, populateMax: 2 << 20})
	for _, size := range []uint64{100, 64 << 10, 1 << 20, 3 << 20} {
		for range 5 {
			p := alloc(t, a, size)
			last := p + uintptr(size-1)
			if faults(p) || faults(last) {
				t.Fatalf("%d bytes: live memory faults", size)
			}
			if b := a.Bytes(p, size); b[0] != 0 || b[size-1] != 0 {
				t.Errorf("%d bytes: not empty", size)
			}
			a.Bytes(p, size)[0], a.Bytes(p, size)[size-1] = 7, 7
			free(t, a, p)
			if !faults(p) || !faults(last) {
				t.Errorf("%d bytes: freed memory does not fault", size)
			}
			if s := a.Stats(); s.Resident != 0 || s.Cached != 0 {
				t.Errorf("%d bytes freed: %+v", size, s)
			}
		}
	}
	if p := alloc(t, a, 8<<20); faults(p) || faults(p+8<<20-1) {
		t.Error("the whole window, handed out again, faults")
	}
}

func TestProtect(t *testing.T) {
	a := open(t, Options{Capacity: 8 << 20, Fresh: true, WindowProt: rw})
	p := alloc(t, a, 3*pageSize)
	testenv.OK(t, a.Protect(p+pageSize, p+2*pageSize, 0))
	if faults(p) || !faults(p+pageSize) || faults(p+2*pageSize) {
		t.Error("not the second page alone is closed")
	}
	a.Bytes(p, 3*pageSize)[pageSize] = 9
	testenv.OK(t, a.Protect(p+pageSize, p+2*pageSize, rw))
	if peek(p+pageSize) != 9 {
		t.Error("what the engine wrote is not there")
	}
	for _, r := range [][2]uintptr{{p + 1, p + pageSize}, {p, p + 1}, {a.base - pageSize, a.base}, {p + pageSize, p},
		{p, p + 16<<20}} {
		if err := a.Protect(r[0], r[1], 0); err == nil {
			t.Errorf("%#x to %#x: no error", r[0], r[1])
		}
	}
	if err := a.Protect(p, p, 0); err != nil || faults(p) {
		t.Errorf("nothing at all: %v", err)
	}
}

func TestLimit(t *testing.T) {
	a := open(t, Options{Capacity: 8 << 20, Fresh: true, Limit: 3 << 20})
	if a.Limit() != 3<<20 {
		t.Fatal(a.Limit())
	}
	p := alloc(t, a, 2<<20)
	for _, size := range []uint64{1<<20 + 1, 4 << 20} {
		if _, err := a.Alloc(size, AllocOptions{}); !errors.Is(err, ErrNoMemory) {
			t.Errorf("%d bytes more: %v", size, err)
		}
	}
	alloc(t, a, 1<<20)
	free(t, a, p)
	alloc(t, a, 2<<20)
	if s := a.Stats(); s.Live != 3<<20 {
		t.Errorf("%+v", s)
	}
}

func TestReserveAt(t *testing.T) {
	base, err := Reserve(8 << 20)
	testenv.OK(t, err)
	if err := ReserveAt(base, 2<<20); err == nil {
		t.Fatal("what is taken was reserved again")
	}
	testenv.OK(t, Unreserve(base, 8<<20))
	testenv.OK(t, ReserveAt(base, 2<<20))
	testenv.OK(t, Unreserve(base, 2<<20))
}

// TestIsolate proves that pages which were isolated stay a mapping of their own: closing and opening them neither makes
// nor joins mappings, as it does elsewhere, and nothing is left of it when they are freed.
func TestIsolate(t *testing.T) {
	a := open(t, Options{Name: "isolated", Capacity: 64 << 20, Fresh: true, WindowProt: rw})
	first := len(maps(t, a.name))
	addr := alloc(t, a, 16*pageSize)
	lo, hi := addr+4*pageSize, addr+6*pageSize
	count := func(prot int) int {
		t.Helper()
		testenv.OK(t, a.Protect(lo, hi, prot))
		return len(maps(t, a.name))
	}
	opened, closed := count(protReadWrite), count(0)
	if closed != opened+2 {
		t.Errorf("%d mappings when all is open, %d when the pages are closed", opened, closed)
	}
	a.Isolate(lo, hi)
	for range 3 {
		if opened, closed := count(protReadWrite), count(0); opened != closed {
			t.Errorf("isolated: %d mappings when all is open, %d when the pages are closed", opened, closed)
		}
	}
	free(t, a, addr)
	if last := len(maps(t, a.name)); last != first {
		t.Errorf("%d mappings at first, %d at last", first, last)
	}
	// not in the window: nothing happens
	a.Isolate(a.base+uintptr(a.capacity)-pageSize, a.base+uintptr(a.capacity)+pageSize)
	if last := len(maps(t, a.name)); last != first {
		t.Errorf("%d mappings at first, %d after a range that is not the arena's", first, last)
	}
}
