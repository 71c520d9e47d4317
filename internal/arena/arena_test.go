//go:build linux

package arena

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

const rw = unix.PROT_READ | unix.PROT_WRITE

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, o Options) *Arena {
	t.Helper()
	if o.Name == "" {
		o.Name = "test"
	}
	a, err := New(o)
	testenv.OK(t, err)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func alloc(t testing.TB, a *Arena, size uint64) uintptr {
	t.Helper()
	p, err := a.Alloc(size, AllocOptions{})
	testenv.OK(t, err)
	return p
}

func free(t testing.TB, a *Arena, p uintptr) {
	t.Helper()
	testenv.OK(t, a.Free(p))
}

// faults reports whether reading addr faults.
func faults(addr uintptr) (yes bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { yes = recover() != nil }()
	peek(addr)
	return false
}

// maps returns the lines of /proc/self/maps that name the arena.
func maps(t testing.TB, name string) []string {
	b, err := os.ReadFile("/proc/self/maps")
	testenv.OK(t, err)
	var l []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "memfd:"+name) {
			l = append(l, line)
		}
	}
	return l
}

func fds(t testing.TB) int {
	d, err := os.ReadDir("/proc/self/fd")
	testenv.OK(t, err)
	return len(d)
}

func TestAllocPlacesAndSizes(t *testing.T) {
	a := open(t, Options{Capacity: 256 << 20})
	for _, tt := range []struct{ size, align uint64 }{
		{1, 512}, {511, 512}, {512, 512}, {513, 512}, {4096, 512}, {32 << 10, 512},
		{32<<10 + 1, 64 << 10}, {64 << 10, 64 << 10}, {64<<10 + 1, 64 << 10}, {1 << 20, 64 << 10},
		{2<<20 - 1, 64 << 10}, {2 << 20, 2 << 20}, {2<<20 + 32, 2 << 20}, {5 << 20, 2 << 20}, {65 << 20, 2 << 20},
	} {
		t.Run(fmt.Sprint(tt.size), func(t *testing.T) {
			p, err := a.Alloc(tt.size, AllocOptions{Tag: 7})
			testenv.OK(t, err)
			if uint64(p)%tt.align != 0 {
				t.Errorf("%#x is not aligned to %d", p, tt.align)
			}
			end := p + uintptr(tt.size)
			for _, at := range []struct {
				addr uintptr
				room uint64
			}{{p, tt.size}, {end - 1, 1}, {end, 0}, {p - 1, 0}, {p + uintptr(tt.size/2), tt.size - tt.size/2}} {
				if got := a.Room(at.addr); got != at.room {
					t.Errorf("Room(start%+d) = %d, want %d", int64(at.addr)-int64(p), got, at.room)
				}
				r, ok := a.Find(at.addr)
				if ok != (at.room > 0) {
					t.Errorf("Find(start%+d) = %v", int64(at.addr)-int64(p), ok)
				}
				if ok && (r.Start != p || r.Size != tt.size || r.Tag != 7 || r.ID == 0 || r.PageSize != 4096) {
					t.Errorf("Find = %+v", r)
				}
			}
			for _, in := range []uint64{1, tt.size / 2, tt.size - 1, tt.size} {
				if err := a.Free(p + uintptr(in)); in > 0 && !errors.Is(err, ErrNotAllocated) {
					t.Errorf("Free of start%+d: %v", in, err)
				} else if in == 0 {
					p = alloc(t, a, tt.size)
				}
			}
			free(t, a, p)
			if err := a.Free(p); !errors.Is(err, ErrNotAllocated) {
				t.Errorf("second Free: %v", err)
			}
			if a.Room(p) != 0 {
				t.Error("room after Free")
			}
		})
	}
	if s := a.Stats(); s.Live != 0 || s.Count != 0 || s.Peak != 65<<20 {
		t.Errorf("%+v", s)
	}
}

func TestAddressesOutside(t *testing.T) {
	a := open(t, Options{Capacity: 2 << 20})
	alloc(t, a, 2<<20)
	for _, addr := range []uintptr{0, 1, a.Base() - 1, a.Base() + 2<<20, ^uintptr(0)} {
		if _, ok := a.Find(addr); ok || a.Room(addr) != 0 || a.Contains(addr) || !errors.Is(a.Free(addr),
			ErrNotAllocated) {
			t.Errorf("%#x is taken for a part of the arena", addr)
		}
	}
	if !a.Contains(a.Base()) || !a.Contains(a.Base()+2<<20-1) || a.Room(a.Base()+2<<20-1) != 1 {
		t.Error("the ends of the window")
	}
	if _, err := a.Alloc(0, AllocOptions{}); err == nil || errors.Is(err, ErrNoMemory) {
		t.Errorf("0 bytes: %v", err)
	}
	for _, size := range []uint64{1, 2<<20 + 1, 1 << 40, 1<<64 - 1} {
		if _, err := a.Alloc(size, AllocOptions{}); !errors.Is(err, ErrNoMemory) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// Everything fits until the window is full; then all of it comes back in one piece.
func TestExhaustion(t *testing.T) {
	const capacity = 32 << 20
	for _, size := range []uint64{512, 700, 20 << 10, 32 << 10, 64 << 10, 100 << 10, 1 << 20, 2 << 20, 3 << 20} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprintf("size=%d/own=%v", size, own), func(t *testing.T) {
				a := open(t, Options{Capacity: capacity, OwnPages: own})
				var all []uintptr
				for {
					p, err := a.Alloc(size, AllocOptions{})
					if err != nil {
						if !errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), fmt.Sprint(size)) {
							t.Fatal(err)
						}
						break
					}
					all = append(all, p)
				}
				if n := uint64(len(all)); !own && size&(size-1) == 0 && n != capacity/size {
					t.Errorf("%d allocations of %d bytes", n, size)
				}
				for i := 0; i < len(all); i += 2 {
					free(t, a, all[i])
				}
				for i := 1; i < len(all); i += 2 {
					free(t, a, all[i])
				}
				p := alloc(t, a, capacity)
				if p != a.Base() {
					t.Errorf("at %#x", p)
				}
				free(t, a, p)
				if s := a.Stats(); s.Live != 0 || s.Count != 0 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

func TestOwnPages(t *testing.T) {
	a := open(t, Options{Capacity: 64 << 20, OwnPages: true})
	var end uintptr
	for range 20 {
		p := alloc(t, a, 5000)
		if p%pageSize != 0 || p < end {
			t.Fatalf("%#x shares a page", p)
		}
		end = p + 8192
	}
	if s := a.Stats(); s.Resident != 20*8192 {
		t.Errorf("resident %d: more than the pages covered", s.Resident)
	}
}

func TestOnlyCoveredPagesAreBacked(t *testing.T) {
	a := open(t, Options{Capacity: 64 << 20})
	alloc(t, a, 100<<10)
	if s := a.Stats(); s.Resident != 100<<10 {
		t.Errorf("resident %d", s.Resident)
	}
}

func TestWindowAndEngine(t *testing.T) {
	closed := open(t, Options{Capacity: 4 << 20, WindowProt: unix.PROT_NONE})
	opened := open(t, Options{Capacity: 4 << 20, WindowProt: rw})
	for _, a := range []*Arena{closed, opened} {
		p := alloc(t, a, 8192)
		b := a.Bytes(p, 8192)
		for i := range b {
			b[i] = byte(i * 7)
		}
		if got := peek(p + 100 + a.Delta()); got != 700&255 {
			t.Errorf("engine address: %d", got)
		}
		if faults(p) != (a == closed) {
			t.Errorf("window faults: %v", faults(p))
		}
	}
	if p := opened.Base(); peek(p+100) != 700&255 {
		t.Error("bytes written by the engine are not seen in the window")
	}
	if opened.Bytes(opened.Base()+4<<20-1, 2) != nil || opened.Bytes(opened.Base()-1, 1) != nil ||
		len(opened.Bytes(opened.Base(), 4<<20)) != 4<<20 {
		t.Error("bounds of Bytes")
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	runtime.GC()
	before := fds(t)
	a, err := New(Options{Name: "leftover", Capacity: 64 << 20, WindowProt: rw})
	testenv.OK(t, err)
	p := alloc(t, a, 5<<20)
	if n := len(maps(t, "leftover")); n != 2 {
		t.Errorf("%d mappings", n)
	}
	for range 2 {
		testenv.OK(t, a.Close())
	}
	if l := maps(t, "leftover"); len(l) != 0 || fds(t) != before {
		t.Errorf("left: %q, %d descriptors more", l, fds(t)-before)
	}
	if _, ok := a.Find(p); ok || a.Room(p) != 0 || !faults(p) {
		t.Error("found after Close")
	}
	if _, err := a.Alloc(1, AllocOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Alloc after Close: %v", err)
	}
	if err := a.Free(p); !errors.Is(err, ErrClosed) {
		t.Errorf("Free after Close: %v", err)
	}
	a.Each(func(Range) bool { t.Error("Each after Close"); return false })
	a.Trim()
	a.Stats()
}

func TestWindowInReservation(t *testing.T) {
	base, err := Reserve(64 << 20)
	testenv.OK(t, err)
	if base%extentSize != 0 {
		t.Errorf("reserved at %#x", base)
	}
	for range 2 { // the reservation stays, so it can be used again
		a := open(t, Options{Name: "within", Capacity: 16 << 20, WindowAt: base + 32<<20, WindowProt: rw})
		if a.Base() != base+32<<20 {
			t.Errorf("window at %#x", a.Base())
		}
		a.Bytes(alloc(t, a, 10), 10)[3] = 9
		if peek(a.Base()+3) != 9 || !faults(base) {
			t.Error("window in a reservation")
		}
		testenv.OK(t, a.Close())
		if len(maps(t, "within")) != 0 || !faults(base+32<<20) {
			t.Error("left behind")
		}
		b, _ := os.ReadFile("/proc/self/maps") // the hole must be mapped, or others could move in
		if !mapped(string(b), base, 64<<20) {
			t.Error("the reservation has a hole")
		}
	}
	testenv.OK(t, Unreserve(base, 64<<20))
}

// mapped reports whether all n bytes from base are mapped.
func mapped(maps string, base uintptr, n uintptr) bool {
	at := base
	for line := range strings.Lines(maps) {
		var from, to uintptr
		fmt.Sscanf(line, "%x-%x", &from, &to)
		if from <= at && at < to {
			at = to
		}
	}
	return at >= base+n
}

func TestNewRefuses(t *testing.T) {
	before := fds(t)
	for _, o := range []Options{
		{Capacity: 0},
		{Capacity: 1 << 20},
		{Capacity: MaxCapacity * 2},
		{Capacity: 2 << 20, WindowAt: 4096},
		{Capacity: 2 << 20, Name: "nul\x00"},
		{Capacity: 2 << 20, WindowAt: ^uintptr(extentSize - 1)}, // the kernel's half
	} {
		if a, err := New(o); err == nil {
			t.Errorf("%+v accepted", o)
			a.Close()
		}
	}
	if _, err := Reserve(1 << 60); err == nil {
		t.Error("1 EiB reserved")
	}
	if n := fds(t); n != before {
		t.Errorf("%d descriptors left", n-before)
	}
}

// Under ulimit -v a window that does not fit is an error, and a smaller one works.
func TestAddressSpaceLimit(t *testing.T) {
	var old unix.Rlimit
	testenv.OK(t, unix.Getrlimit(unix.RLIMIT_AS, &old))
	b, err := os.ReadFile("/proc/self/statm")
	testenv.OK(t, err)
	var pages uint64
	fmt.Sscan(string(b), &pages)
	before := fds(t)
	limit := old
	limit.Cur = pages*uint64(os.Getpagesize()) + 1<<30
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		t.Skip(err)
	}
	capacity := uint64(64 << 30)
	a, err := New(Options{Name: "limited", Capacity: capacity})
	first := err
	for ; err != nil && capacity > extentSize; a, err = New(Options{Name: "limited", Capacity: capacity}) {
		capacity /= 2
	}
	testenv.OK(t, unix.Setrlimit(unix.RLIMIT_AS, &old))
	if !errors.Is(first, unix.ENOMEM) || err != nil || capacity < 128<<20 {
		t.Fatalf("64 GiB: %v; %d bytes: %v", first, capacity, err)
	}
	alloc(t, a, 100)
	a.Close()
	if len(maps(t, "limited")) != 0 || fds(t) != before {
		t.Error("failed attempts left something")
	}
}

func TestEach(t *testing.T) {
	a := open(t, Options{Capacity: 256 << 20, populateMax: 1 << 20})
	want := map[uintptr]uint64{}
	for _, size := range []uint64{1, 600, 30000, 40000, 1 << 20, 2 << 20, 70 << 20} {
		want[alloc(t, a, size)] = size
	}
	var last uintptr
	a.Each(func(r Range) bool {
		if r.Start <= last || want[r.Start] != r.Size {
			t.Errorf("%+v", r)
		}
		last = r.Start
		delete(want, r.Start)
		return true
	})
	if len(want) != 0 {
		t.Errorf("not seen: %v", want)
	}
	n := 0
	a.Each(func(Range) bool { n++; return n < 3 })
	if n != 3 {
		t.Errorf("stopped after %d", n)
	}
}

func TestPageKind(t *testing.T) {
	a := open(t, Options{Capacity: 64 << 20})
	for _, tt := range []struct {
		size   uint64
		policy HugePolicy
		want   uint32
	}{
		{4 << 20, Normal, 4096}, {4 << 20, Prefer, extentSize}, {1 << 20, Prefer, 4096},
		{1<<20 + 1, Prefer, extentSize}, {100, Require, extentSize}, {3 << 20, Require, extentSize},
	} {
		p, err := a.Alloc(tt.size, AllocOptions{Huge: tt.policy})
		testenv.OK(t, err)
		if r, _ := a.Find(p); r.PageSize != tt.want || r.Size != tt.size {
			t.Errorf("%+v: %+v", tt, r)
		}
		if tt.policy == Require && p%extentSize != 0 {
			t.Errorf("%+v at %#x", tt, p)
		}
	}
}

func TestIDsAreNotReused(t *testing.T) {
	a := open(t, Options{Capacity: 4 << 20})
	seen := map[uint64]bool{}
	for i := range 100 {
		p := alloc(t, a, []uint64{100, 100 << 10}[i%2])
		r, _ := a.Find(p)
		if seen[r.ID] {
			t.Fatalf("ID %d twice", r.ID)
		}
		seen[r.ID] = true
		free(t, a, p)
	}
}

func TestLookupsAllocateNothing(t *testing.T) {
	a := open(t, Options{Capacity: 16 << 20})
	p, q := alloc(t, a, 100), alloc(t, a, 3<<20)
	if n := testing.AllocsPerRun(100, func() {
		a.Room(p + 5)
		a.Room(q + 5)
		a.Find(p + 5)
		a.Find(q + 5)
		a.Prepare(q, 10)
	}); n != 0 {
		t.Errorf("%v allocations a lookup", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		free(t, a, alloc(t, a, 5000))
		free(t, a, alloc(t, a, 2<<20))
	}); n != 0 {
		t.Errorf("%v allocations an Alloc", n)
	}
}
