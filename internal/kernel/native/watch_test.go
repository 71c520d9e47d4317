package native_test

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ropeway/internal/kernel"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/kernel/native"
	"ropeway/internal/testenv"
)

const page = 4096

// closedPages is memory that is closed, with a page before and after it that stays so.
func closedPages(t testing.TB, n int) uintptr {
	t.Helper()
	b, err := unix.Mmap(-1, 0, (n+2)*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	testenv.OK(t, err)
	t.Cleanup(func() { unix.Munmap(b) }) //nolint:errcheck // it ends with the process
	return uintptr(unsafe.Pointer(unsafe.SliceData(b))) + page
}

const watchSource = `
#include <pthread.h>
void each(volatile int *p, uint64_t n, uint64_t write) {
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
		if (write) p[1024 * i] += 1; else (void)p[1024 * i];
}
static void *work(void *p) { *(volatile int *)p = 1; return NULL; }
void helped(int *p) { pthread_t t; pthread_create(&t, NULL, work, p); pthread_join(t, NULL); }
void endless(volatile int *p, uint64_t n) { for (uint64_t i = 0;; i++) p[1024 * (i % n)] += 1; }
`

// TestWatch: pages that a kernel touches are seen, once each, whichever thread it is that touches them: a block or a
// thread that the kernel made. Others are not.
func TestWatch(t *testing.T) {
	o := load(t, watchSource)
	low := closedPages(t, 64)
	high := low + 40*page
	pages := []kernel.Range{{Lo: low, Hi: low + 32*page}, {Lo: high, Hi: high + 24*page}}
	read := func(at uintptr, n uint64) kernel.Touch { return kernel.Touch{Addr: at, N: n * page} }
	write := func(at uintptr, n uint64) kernel.Touch { return kernel.Touch{Addr: at, N: n * page, Write: true} }
	for _, tt := range []struct {
		name, kernel string
		args         []uint64
		want         []kernel.Touch
	}{
		{"nothing", "each", []uint64{uint64(low), 0, 0}, nil},
		{"reads", "each", []uint64{uint64(low), 32, 0}, []kernel.Touch{read(low, 32)}},
		{"a thread of the kernel", "helped", []uint64{uint64(high) + 100}, []kernel.Touch{write(high, 1)}},
		{"the second range", "each", []uint64{uint64(high) + page, 3, 0}, []kernel.Touch{read(high+page, 3)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			end := kernel.WatchPages(pages)
			if end == nil {
				t.Fatal("nothing can be seen")
			}
			f := launch(t, o, kernel.Call{Blocks: 7}, tt.kernel, 3, tt.args...)
			list, all := end()
			protect(t, low, 64, unix.PROT_NONE)
			if f != nil || !all || !slices.Equal(list, tt.want) {
				t.Errorf("%v; all %v, %v, want %v", f, all, list, tt.want)
			}
		})
	}
}

// TestWatchWrites: a page that is read and then written is both; the pages that are seen are open afterwards.
func TestWatchWrites(t *testing.T) {
	o := load(t, watchSource+"void both(volatile int *p) { int x = *p; *p = x + 1; }")
	low := closedPages(t, 2)
	end := kernel.WatchPages([]kernel.Range{{Lo: low, Hi: low + 2*page}})
	f := launch(t, o, kernel.Call{Blocks: 1}, "both", 1, uint64(low))
	list, all := end()
	want := []kernel.Touch{{Addr: low, N: page}, {Addr: low, N: page, Write: true}}
	if f != nil || !all || !slices.Equal(list, want) {
		t.Errorf("%v; all %v, %v, want %v", f, all, list, want)
	}
	if n := wordAt(low).Load(); n != 1 {
		t.Errorf("the kernel left %d", n)
	}
}

// TestWatchOutside: memory that is not in the list stays closed, and the kernel fails there.
func TestWatchOutside(t *testing.T) {
	o := load(t, watchSource)
	low := closedPages(t, 8)
	end := kernel.WatchPages([]kernel.Range{{Lo: low, Hi: low + 4*page}})
	f := launch(t, o, kernel.Call{Blocks: 1}, "each", 1, uint64(low), 8, 0)
	list, all := end()
	if f == nil || f.Signal != unix.SIGSEGV || f.Address != uint64(low)+4*page {
		t.Errorf("the kernel failed with %+v", f)
	}
	if want := []kernel.Touch{{Addr: low, N: 4 * page}}; !all || !slices.Equal(list, want) {
		t.Errorf("all %v, %v, want %v", all, list, want)
	}
}

// TestWatchTooMany: where there is no room for more, all is opened, and that not all was seen is said; the next launch
// is seen again.
func TestWatchTooMany(t *testing.T) {
	defer native.SetMostSeen(8)()
	o := load(t, watchSource)
	low := closedPages(t, 64)
	pages := []kernel.Range{{Lo: low, Hi: low + 64*page}}
	for _, tt := range []struct {
		n   uint64
		all bool
	}{{64, false}, {8, true}, {9, false}, {8, true}} {
		end := kernel.WatchPages(pages)
		f := launch(t, o, kernel.Call{Blocks: 1}, "each", 1, uint64(low), tt.n, 1)
		list, all := end()
		protect(t, low, 64, unix.PROT_NONE)
		if f != nil || all != tt.all || len(list) != 2 || list[0].N != 8*page ||
			list[1] != (kernel.Touch{Addr: low, N: 8 * page, Write: true}) {
			t.Errorf("%d pages: %v; all %v, %v", tt.n, f, all, list)
		}
	}
}

// TestWatchStopped: a kernel that is stopped while it touches pages leaves, and the watch ends.
func TestWatchStopped(t *testing.T) {
	o := load(t, watchSource)
	low := closedPages(t, 64)
	code, err := o.Symbol("endless")
	testenv.OK(t, err)
	for range 20 {
		end := kernel.WatchPages([]kernel.Range{{Lo: low, Hi: low + 64*page}})
		args := []uint64{uint64(low), 64}
		c := kernel.Call{Code: [2]uintptr{code}, Per: [2]uint32{1}, Blocks: 1, Args: uintptr(addr(args)), Size: 16}
		r := cpu(t).NewRun()
		turn := r.Begin(o, &c)
		done := make(chan struct{})
		go func() {
			r.Work(nil)
			close(done)
		}()
		r.Stop(turn, false)
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("the kernel does not leave")
		}
		if f := r.End(); f == nil {
			t.Error("an endless kernel has ended")
		}
		end()
		protect(t, low, 64, unix.PROT_NONE)
	}
}

// TestWatchOne: there is one watch at a time.
func TestWatchOne(t *testing.T) {
	kerneltest.Support(t)
	low := closedPages(t, 1)
	pages := []kernel.Range{{Lo: low, Hi: low + page}}
	end := kernel.WatchPages(pages)
	if end == nil || kernel.WatchPages(pages) != nil {
		t.Error("two watches at a time")
	}
	end()
	end = kernel.WatchPages(pages)
	if end == nil {
		t.Fatal("no watch after the first has ended")
	}
	end()
}

func protect(t testing.TB, low uintptr, pages, prot int) {
	t.Helper()
	if _, _, e := unix.Syscall(unix.SYS_MPROTECT, low, uintptr(pages*page), uintptr(prot)); e != 0 {
		t.Fatal(e)
	}
}

// BenchmarkWatch: what a kernel pays for each page that it touches, read alone or read and written; open: nothing is
// watched.
func BenchmarkWatch(b *testing.B) {
	const n = 4096
	o := load(b, watchSource)
	low := closedPages(b, n)
	for _, what := range []struct {
		name   string
		closed bool
		write  uint64
	}{{"open", false, 1}, {"read", true, 0}, {"written", true, 1}} {
		b.Run(what.name, func(b *testing.B) {
			protect(b, low, n, unix.PROT_READ|unix.PROT_WRITE)
			for range b.N {
				end := func() ([]kernel.Touch, bool) { return nil, true }
				if what.closed {
					protect(b, low, n, unix.PROT_NONE)
					end = kernel.WatchPages([]kernel.Range{{Lo: low, Hi: low + n*page}})
				}
				if f := launch(b, o, kernel.Call{Blocks: 1}, "each", 1, uint64(low), n, what.write); f != nil {
					b.Fatal(f)
				}
				if _, all := end(); !all {
					b.Fatal("not all was seen")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/page")
		})
	}
}
