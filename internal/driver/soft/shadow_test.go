package soft

import (
	"bytes"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// Go's own memory is not moved, nor is a range with a gap.
func TestGuardLeavesAlone(t *testing.T) {
	d := guardian(t)
	b := make([]byte, 1<<20)
	_, err := d.Register(addressOf(b), 1<<20, false, 0)
	must(t, err)
	if lo, hi := d.Closable(addressOf(b), 1<<20); lo != hi {
		t.Errorf("Go's heap can be closed, %#x to %#x", lo, hi)
	}
	must(t, d.Unregister(addressOf(b)))
	m := mmap(t, -1, 64<<10, readWrite, unix.MAP_PRIVATE)
	if _, _, e := unix.Syscall(unix.SYS_MUNMAP, addressOf(m)+16384, 4096, 0); e != 0 {
		t.Fatal(e)
	}
	_, err = d.Register(addressOf(m), 64<<10, false, 0)
	must(t, err)
	if lo, hi := d.Closable(addressOf(m), 64<<10); lo != hi {
		t.Errorf("a range with a hole can be closed, %#x to %#x", lo, hi)
	}
	if list, err := mappings(addressOf(m), addressOf(m)+1); err != nil || list[0].shared {
		t.Errorf("it was moved: %+v, %v", list, err)
	}
}

// kinds lists the kinds of memory that a program may register.
func kinds(t *testing.T, n int) []struct {
	name           string
	mem            []byte
	closable, move bool
} {
	t.Helper()
	file := func(dir string) int {
		f, err := os.CreateTemp(dir, "guard")
		must(t, err)
		os.Remove(f.Name())
		must(t, f.Truncate(int64(n)))
		t.Cleanup(func() { f.Close() })
		return int(f.Fd())
	}
	memfd, err := unix.MemfdCreate("guard-test", unix.MFD_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { unix.Close(memfd) })
	must(t, unix.Ftruncate(memfd, int64(n)))
	return []struct {
		name           string
		mem            []byte
		closable, move bool
	}{
		{"private", mmap(t, -1, n, readWrite, unix.MAP_PRIVATE), true, true},
		{"shared", mmap(t, -1, n, readWrite, unix.MAP_SHARED), true, false},
		{"memfd", mmap(t, memfd, n, readWrite, unix.MAP_SHARED), true, false},
		{"shared file", mmap(t, file(""), n, readWrite, unix.MAP_SHARED), true, false},
		{"/dev/shm", mmap(t, file("/dev/shm"), n, readWrite, unix.MAP_SHARED), true, false},
		{"private file", mmap(t, file(""), n, readWrite, unix.MAP_PRIVATE), false, false},
	}
}

func TestGuardRegistered(t *testing.T) {
	const n, size = 3<<20 + 4096, 3<<20 + 1000 // more than two steps, and not a whole number of pages
	for _, k := range kinds(t, n) {
		t.Run(k.name, func(t *testing.T) {
			d := guardian(t)
			want := make([]byte, n)
			for i := range want {
				want[i] = byte(i*7 + i>>12)
			}
			clear(want[1<<20 : 2<<20]) // pages of zeros
			copy(k.mem, want)
			base := addressOf(k.mem)
			start := base + 100
			before, err := mappings(base, base+n)
			must(t, err)
			unregistered := d.Sum(start, size)
			alias, err := d.Register(start, size, true, 0)
			must(t, err)
			if !bytes.Equal(k.mem, want) {
				t.Fatal("registering changed the bytes")
			}
			if d.Sum(start, size) != unregistered || d.Sum(alias, size) != unregistered {
				t.Error("the sum changed")
			}
			first, last := base+4096, base+3<<20
			lo, hi := d.Closable(start, size)
			if !k.closable {
				if lo != hi {
					t.Errorf("closable: %#x to %#x", lo, hi)
				}
				if err := d.Protect(first, last, driver.NoAccess); err == nil {
					t.Error("closed without a shadow")
				}
				must(t, d.Unregister(start))
				return
			}
			if lo != first || hi != last {
				t.Fatalf("closable: %#x to %#x, want %#x to %#x", lo, hi, first, last)
			}
			if lo, hi := d.Closable(alias+4000, 5000); lo != first || hi != first+8192 {
				t.Errorf("closable by the device address: %#x to %#x", lo, hi)
			}
			for _, off := range []uintptr{100, 4096 + 5, 1 << 20, 3<<20 - 1} {
				at, ok := d.EngineView(base + off)
				if second := off >= 4096; ok != second || ok == (at == base+off) {
					t.Fatalf("offset %d: engine view %#x, %v", off, at, ok)
				}
				bytesAt(at, 1)[0] ^= 0x55
				want[off] ^= 0x55
				if k.mem[off] != want[off] {
					t.Errorf("offset %d: the views are not the same memory", off)
				}
			}

			must(t, d.Protect(first, last, driver.NoAccess))
			access(t, "closed", first, false, false)
			access(t, "closed", last-1, false, false)
			access(t, "before", first-1, true, true)
			access(t, "behind", last, true, true)
			p, err := d.AllocHost(size)
			must(t, err)
			must(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: p, Src: start, N: size}))
			if !bytes.Equal(bytesAt(p, size), want[100:100+size]) {
				t.Error("a copy out of closed memory is wrong")
			}
			must(t, d.Run(driver.Op{Kind: driver.OpFill, Dst: alias + 10, N: 1 << 20, Width: 1, Value: 9}))
			copy(want[110:], bytes.Repeat([]byte{9}, 1<<20))
			must(t, d.Protect(first+8192, first+16384, driver.ReadOnly))
			access(t, "read-only", first+8192, true, false)

			must(t, d.Unregister(start))
			if !bytes.Equal(k.mem, want) {
				t.Error("unregistering changed the bytes")
			}
			access(t, "unregistered", first, true, true)
			after, err := mappings(base, base+n)
			must(t, err)
			for _, m := range after {
				if m.shared != before[0].shared || m.prot != before[0].prot || m.inode != before[0].inode ||
					m.path != before[0].path {
					t.Errorf("%+v, was %+v", m, before[0])
				}
			}
			if at, ok := d.EngineView(first); ok {
				t.Errorf("unregistered memory has the view %#x", at)
			}
		})
	}
}

// Memory that the program may only read stays read-only, for the engine too.
func TestGuardReadOnlyMemory(t *testing.T) {
	d := guardian(t)
	b := mmap(t, -1, 16384, readWrite, unix.MAP_PRIVATE)
	b[5000] = 3
	must(t, unix.Mprotect(b, unix.PROT_READ))
	start := addressOf(b)
	_, err := d.Register(start, 16384, false, 0)
	must(t, err)
	lo, hi := d.Closable(start, 16384)
	if lo != start || hi != start+16384 {
		t.Fatalf("%#x to %#x", lo, hi)
	}
	must(t, d.Protect(lo, hi, driver.NoAccess))
	access(t, "closed", start, false, false)
	must(t, d.Protect(lo, hi, driver.ReadWrite))
	access(t, "open", start, true, false)
	if err := d.Run(driver.Op{Kind: driver.OpFill, Dst: start, N: 10, Width: 1}); !errors.Is(err, driver.ErrFault) {
		t.Errorf("filled: %v", err)
	}
	must(t, d.Unregister(start))
	access(t, "unregistered", start, true, false)
	if b[5000] != 3 {
		t.Error("a byte was lost")
	}
}

// Parts that the program unmapped or replaced are not touched.
func TestGuardUnmappedMeanwhile(t *testing.T) {
	d := guardian(t)
	b := mmap(t, -1, 1<<20, readWrite, unix.MAP_PRIVATE)
	start := addressOf(b)
	_, err := d.Register(start, 1<<20, false, 0)
	must(t, err)
	b[0], b[1<<20-1] = 1, 2
	hole := start + 256<<10
	if _, _, e := unix.Syscall(unix.SYS_MUNMAP, hole, 256<<10, 0); e != 0 {
		t.Fatal(e)
	}
	if err := d.Run(driver.Op{Kind: driver.OpFill, Dst: start, N: 1 << 20, Width: 1}); !errors.Is(err,
		driver.ErrFault) {
		t.Errorf("filled what is not all there: %v", err)
	}
	if d.Accessible(hole, false) || !d.Accessible(start, true) {
		t.Error("what is mapped is not known")
	}
	// Replace half of it.
	_, _, e := unix.Syscall6(unix.SYS_MMAP, hole, 128<<10, readWrite,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
	if e != 0 {
		t.Fatal(e)
	}
	bytesAt(hole, 1)[0] = 77
	must(t, d.Unregister(start))
	if b[0] != 1 || b[1<<20-1] != 2 || bytesAt(hole, 1)[0] != 77 {
		t.Error("bytes were lost")
	}
	if !faults(hole+128<<10, false) {
		t.Error("a hole was filled")
	}
}

// A range over several mappings has one fragment for each part that can be closed.
func TestGuardSeveralRuns(t *testing.T) {
	d := guardian(t)
	b := mmap(t, -1, 40960, readWrite, unix.MAP_PRIVATE)
	must(t, unix.Mprotect(b[8192:12288], unix.PROT_NONE))
	must(t, unix.Mprotect(b[20480:24576], unix.PROT_READ))
	start := addressOf(b)
	_, err := d.Register(start+1, 40958, false, 0)
	must(t, err)
	var got []uintptr
	for at, end := start+1, start+40959; at < end; {
		lo, hi := d.Closable(at, uint64(end-at))
		if lo == hi {
			break
		}
		got = append(got, lo-start, hi-start)
		must(t, d.Protect(lo, hi, driver.NoAccess))
		at = hi
	}
	want := []uintptr{4096, 8192, 12288, 20480, 20480, 24576, 24576, 36864}
	if !slices.Equal(got, want) {
		t.Fatalf("runs %v, want %v", got, want)
	}
	must(t, d.Unregister(start+1))
	access(t, "first", start+4096, true, true)
	access(t, "never", start+8192, false, false)
	access(t, "reading", start+20480, true, false)
}

// Registering repeatedly leaks neither mappings nor files, and Close releases everything.
func TestGuardGivesBack(t *testing.T) {
	lines := func() int {
		b, err := os.ReadFile("/proc/self/maps")
		must(t, err)
		return strings.Count(string(b), "\n")
	}
	files := func() int {
		l, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(l)
	}
	mem := kinds(t, 64<<10)
	d := open(t, Options{Devices: 1, Memory: 256 << 20, Guard: true})
	round := func() {
		for _, k := range mem {
			k.mem[5000]++
			_, err := d.Register(addressOf(k.mem)+50, 60_000, k.move, 0)
			must(t, err)
		}
		for _, k := range mem {
			must(t, d.Unregister(addressOf(k.mem)+50))
		}
	}
	round()
	maps, fds := lines(), files()
	for range 1000 {
		round()
	}
	// The Go runtime may have added mappings of its own.
	if m, f := lines(), files(); m > maps+20 || f > fds+2 {
		t.Errorf("1,000 rounds: %d mappings, were %d; %d files, were %d", m, maps, f, fds)
	}
	for _, k := range mem {
		if k.mem[5000] != byte(1001%256) {
			t.Errorf("%s: a byte was lost", k.name)
		}
		_, err := d.Register(addressOf(k.mem), 64<<10, true, 0)
		must(t, err)
		if lo, hi := d.Closable(addressOf(k.mem), 64<<10); lo < hi {
			must(t, d.Protect(lo, hi, driver.NoAccess))
		}
	}
	must(t, d.Close())
	for _, k := range mem {
		access(t, k.name, addressOf(k.mem), true, true)
		if list, err := mappings(addressOf(k.mem), addressOf(k.mem)+1); err != nil ||
			list[0].path == "/memfd:ropeway-registered (deleted)" {
			t.Errorf("%s: %+v, %v", k.name, list, err)
		}
	}
}

// Other threads read and write while memory is moved: a write that faults can be retried as soon as Accessible returns,
// and none is lost.
func TestGuardMovesUnderWriters(t *testing.T) {
	d := guardian(t)
	const n, writers = 4 << 20, 3
	b := mmap(t, -1, n, readWrite, unix.MAP_PRIVATE)
	var stop atomic.Bool
	var wg sync.WaitGroup
	var counts [writers]uint64
	var faulted atomic.Int64
	write := func(i int) (ok bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { ok = recover() == nil }()
		b[i]++
		return true
	}
	source := testenv.Rand(t)
	for w := range writers {
		wg.Go(func() {
			rnd := source(w)
			for !stop.Load() {
				i := rnd.IntN(n/writers)*writers + w // bytes of its own
				for !write(i) {
					faulted.Add(1)
					if !d.Accessible(addressOf(b)+uintptr(i), true) {
						t.Error("memory that is there cannot be written")
						return
					}
				}
				counts[w]++
			}
		})
	}
	for range 30 {
		_, err := d.Register(addressOf(b)+10, n-10, false, 0)
		must(t, err)
		must(t, d.Unregister(addressOf(b)+10))
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d writes of %d, %d and %d faulted", faulted.Load(), counts[0], counts[1], counts[2])
	var got [writers]uint64 // bytes count modulo 256, and so do their sums
	for i, v := range b {
		got[i%writers] += uint64(v)
	}
	for w := range writers {
		if (got[w]-counts[w])%256 != 0 {
			t.Errorf("writer %d: %d writes, the bytes add up to %d", w, counts[w], got[w])
		}
	}
}
