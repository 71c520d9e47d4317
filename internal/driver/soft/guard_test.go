package soft

import (
	"bytes"
	"errors"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/memcopy"
)

// guardian returns a driver for the checker.
func guardian(t testing.TB) *Driver {
	t.Helper()
	d := open(t, Options{Devices: 1, Memory: 256 << 20, Guard: true})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mmap returns n bytes of new memory; fd is -1 for anonymous memory.
func mmap(t testing.TB, fd, n, prot, flags int) []byte {
	t.Helper()
	if fd < 0 {
		flags |= unix.MAP_ANONYMOUS
	}
	b, err := unix.Mmap(fd, 0, n, prot, flags)
	must(t, err)
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

// faults reports whether a read, or a write, of the byte by the program faults. It does not change the byte.
func faults(addr uintptr, write bool) (yes bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { yes = recover() != nil }()
	if write {
		memcopy.ProbeWrite(addr, 1)
	} else {
		memcopy.ProbeRead(addr, 1)
	}
	return false
}

// access fails the test unless the program may read and write addr exactly as given.
func access(t *testing.T, what string, addr uintptr, read, write bool) {
	t.Helper()
	if got := !faults(addr, false); got != read {
		t.Errorf("%s: reading works: %v, want %v", what, got, read)
	}
	if got := !faults(addr, true); got != write {
		t.Errorf("%s: writing works: %v, want %v", what, got, write)
	}
}

func TestGuardPinned(t *testing.T) {
	d := guardian(t)
	lo, hi := d.Span()
	if hi <= lo {
		t.Fatalf("the span is %#x to %#x", lo, hi)
	}
	const n = 12_288
	p, err := d.AllocHost(n)
	must(t, err)
	q, err := d.AllocHost(100)
	must(t, err)
	if p < lo || q >= hi || floor(p+n-1) == floor(q) {
		t.Fatalf("%#x and %#x, span %#x to %#x", p, q, lo, hi)
	}
	for _, tt := range []struct {
		off    uintptr
		n      uint64
		lo, hi uintptr
	}{{0, n, 0, 12288}, {0, 1, 0, 4096}, {4095, 2, 0, 8192}, {5000, 100, 4096, 8192}, {9999, 1, 8192, 12288}, {9999, 99,
		8192, 12288}} {
		if lo, hi := d.Closable(p+tt.off, tt.n); lo != p+tt.lo || hi != p+tt.hi {
			t.Errorf("closable of %d bytes at %d: %d to %d", tt.n, tt.off, lo-p, hi-p)
		}
	}
	odd, err := d.AllocHost(10_000) // it ends near the end of a page
	must(t, err)
	if lo, hi := d.Closable(odd, 10_000); lo != odd-2240 || hi != lo+12288 || lo != floor(odd) {
		t.Errorf("closable of 10,000 bytes at %#x: %#x to %#x", odd, lo, hi)
	}
	must(t, d.Protect(floor(odd), floor(odd)+4096, driver.NoAccess))
	access(t, "closed, odd", odd, false, false)
	for _, addr := range []uintptr{p + n, odd - 1, lo + (hi-lo)/2, 0, hi} {
		if lo, hi := d.Closable(addr, 10); lo != hi {
			t.Errorf("closable at %#x, where nothing is: %#x to %#x", addr, lo, hi)
		}
	}

	engine, ok := d.EngineView(p)
	if !ok || engine == p {
		t.Fatalf("engine view of %#x is %#x, %v", p, engine, ok)
	}
	bytesAt(p, n)[5000] = 42
	if bytesAt(engine, n)[5000] != 42 {
		t.Error("the views are not the same memory")
	}
	access(t, "open", p, true, true)
	must(t, d.Protect(p, p+4096, driver.NoAccess))
	access(t, "closed", p, false, false)
	access(t, "the next page", p+4096, true, true)
	must(t, d.Protect(p, p+4096, driver.ReadOnly))
	access(t, "read-only", p, true, false)
	must(t, d.Protect(p, p+12288, driver.NoAccess))

	// The engine is not affected.
	src := mmap(t, -1, n, readWrite, unix.MAP_PRIVATE)
	for i := range src {
		src[i] = byte(i * 7)
	}
	must(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: p, Src: addressOf(src), N: n}))
	must(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: q, Src: p + 300, N: 100}))
	if !bytes.Equal(bytesAt(q, 100), src[300:400]) {
		t.Error("a copy between closed pages lost bytes")
	}
	if d.Sum(p, n) != d.Sum(addressOf(src), n) {
		t.Error("equal bytes, other sums")
	}
	must(t, d.Protect(p, p+12288, driver.ReadWrite))
	if !bytes.Equal(bytesAt(p, n), src) {
		t.Error("what was copied to closed pages is not there")
	}

	for _, r := range [][2]uintptr{{p, p + 16384}, {p + 1, p + 4096}, {q + 65536, q + 65536 + 4096}, {8192, 12288}} {
		if err := d.Protect(r[0], r[1], driver.NoAccess); err == nil {
			t.Errorf("%#x to %#x were closed", r[0], r[1])
		}
	}
}

// Freed memory is closed, and its address, like a device's, is not reused at once.
func TestGuardFreed(t *testing.T) {
	d := guardian(t)
	dev, err := d.Open(0)
	must(t, err)
	defer dev.Close()
	seen := map[uintptr]bool{}
	for range 100 {
		for _, m := range []struct {
			alloc func() (uintptr, error)
			free  func(uintptr) error
		}{
			{func() (uintptr, error) { return d.AllocHost(3000) }, d.FreeHost},
			{func() (uintptr, error) { return dev.Alloc(3000, driver.PageNormal) }, dev.Free},
		} {
			p, err := m.alloc()
			must(t, err)
			if seen[p] {
				t.Fatalf("%#x was handed out again", p)
			}
			seen[p] = true
			must(t, m.free(p))
			access(t, "freed", p, false, false)
			if l := d.Locate(p); l.Place != driver.Nowhere {
				t.Errorf("freed memory is %+v", l)
			}
			if d.Sum(p, 3000) != 0 {
				t.Error("freed memory has a sum")
			}
		}
	}
	p, err := d.AllocHost(4096)
	must(t, err)
	must(t, d.Protect(p, p+4096, driver.NoAccess))
	must(t, d.FreeHost(p)) // closed memory can be freed
	if err := d.Protect(p, p+4096, driver.ReadWrite); !errors.Is(err, driver.ErrNotAllocated) {
		t.Errorf("freed memory was opened: %v", err)
	}
}

// Memory reports a device's memory, not the addresses it may use.
func TestGuardMemory(t *testing.T) {
	d := guardian(t)
	dev, err := d.Open(0)
	must(t, err)
	defer dev.Close()
	if free, total := dev.Memory(); total > 256<<20 || free != total {
		t.Errorf("%d of %d bytes free", free, total)
	}
	if _, err := dev.Alloc(300<<20, driver.PageNormal); !errors.Is(err, driver.ErrNoMemory) {
		t.Errorf("more than there is: %v", err)
	}
}

// A driver without Guard closes nothing.
func TestNoGuard(t *testing.T) {
	d := open(t, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	p, err := d.AllocHost(10_000)
	must(t, err)
	b := mmap(t, -1, 1<<20, readWrite, unix.MAP_PRIVATE)
	if _, err := d.Register(addressOf(b), 1<<20, false, 0); err != nil {
		t.Fatal(err)
	}
	if lo, hi := d.Span(); lo != hi {
		t.Errorf("span %#x to %#x", lo, hi)
	}
	for _, addr := range []uintptr{p, addressOf(b)} {
		if lo, hi := d.Closable(addr, 8192); lo != hi {
			t.Errorf("closable: %#x to %#x", lo, hi)
		}
		if err := d.Protect(floor(addr), floor(addr)+4096, driver.NoAccess); err == nil {
			t.Errorf("%#x was closed", addr)
		}
	}
	if list, err := mappings(addressOf(b), addressOf(b)+1); err != nil || len(list) != 1 || list[0].shared {
		t.Errorf("registered memory is now %+v, %v", list, err)
	}
}

// Pinned memory has an address of its own; a second driver's is elsewhere.
func TestGuardPlace(t *testing.T) {
	lo, hi := guardian(t).Span()
	if len(pinnedAt) > 0 && lo != pinnedAt[0] {
		there, err := mappings(pinnedAt[0], pinnedAt[0]+(hi-lo))
		must(t, err)
		if len(there) == 0 {
			t.Errorf("pinned memory is at %#x, though nothing is at %#x", lo, pinnedAt[0])
		}
	}
	other := guardian(t)
	lo2, hi2 := other.Span()
	if lo2 < hi && lo < hi2 || lo2 == hi2 {
		t.Errorf("spans %#x to %#x and %#x to %#x", lo, hi, lo2, hi2)
	}
	if p, err := other.AllocHost(100); err != nil || p < lo2 || p >= hi2 {
		t.Errorf("%#x, %v", p, err)
	}
}
