package cuda

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver/parts"
	"ropeway/internal/memcopy"
)

// hands is how many goroutines move host memory for one operation: as many as keep the link busy, if they leave half of the cores to
// others.
func hands() int { return max(1, min(8, runtime.GOMAXPROCS(0)/2)) }

// portion is what one goroutine does at a time of work that several share.
const portion = 2 << 20

// share does work on n bytes at the offsets that do is called with, with as many goroutines as that is worth. It is done when share
// returns. A memory fault in do is an error, and there may be several.
func share(n uint64, do func(off, n uint64)) error {
	var next atomic.Uint64
	var failed atomic.Bool
	work := func() (err error) {
		defer parts.Guarded(debug.SetPanicOnFault(true), &err)
		for !failed.Load() {
			off := next.Add(portion) - portion
			if off >= n {
				return nil
			}
			do(off, min(portion, n-off))
		}
		return nil
	}
	helpers := min(hands(), int(n/portion)) - 1
	if helpers <= 0 {
		return work()
	}
	errs := make([]error, helpers+1)
	var wg sync.WaitGroup
	for i := range errs[1:] {
		wg.Go(func() {
			errs[i+1] = work()
			failed.CompareAndSwap(false, errs[i+1] != nil)
		})
	}
	errs[0] = work()
	failed.CompareAndSwap(false, errs[0] != nil)
	wg.Wait()
	return errors.Join(errs...)
}

// copyHost copies n bytes of host memory. Overlapping ranges end as memmove leaves them.
func copyHost(dst, src uintptr, n uint64) error {
	if n < 2*portion || overlap(dst, src, n) {
		return guardedCopy(dst, src, n)
	}
	return share(n, func(off, n uint64) { memcopy.CopyStream(dst+uintptr(off), src+uintptr(off), uintptr(n)) })
}

// guardedCopy copies memory that may have lost its pages.
func guardedCopy(dst, src uintptr, n uint64) (err error) {
	defer parts.Guarded(debug.SetPanicOnFault(true), &err)
	memcopy.Copy(dst, src, uintptr(n))
	return nil
}

// access is what memory is touched for.
type access struct {
	touch    func(addr, n uintptr)
	populate uintptr // advice that makes the kernel do so with many pages at a time
}

var (
	reading = access{memcopy.ProbeRead, unix.MADV_POPULATE_READ}
	writing = access{memcopy.ProbeWrite, unix.MADV_POPULATE_WRITE}
)

// populateMin is from how many bytes on it is worth finding out whether memory was never used.
const populateMin = 256 << 10

// probe touches every page of n bytes at addr. That is quick where there are pages. Where there are none, they are made then, which
// takes longer than the copy: so several goroutines do it, and the kernel is asked for many at a time.
func (a access) probe(addr uintptr, n uint64) error {
	return share(n, func(off, n uint64) {
		lo := addr + uintptr(off)
		if n < populateMin || !fresh(lo) || !a.ask(lo, n) {
			a.touch(lo, uintptr(n)) // and so finds out what is wrong
		}
	})
}

// ask tells whether the kernel has made all pages of the n bytes at addr accessible. Kernels before 5.14 cannot.
func (a access) ask(addr uintptr, n uint64) bool {
	lo := addr &^ (hostPage - 1)
	_, _, e := unix.Syscall(unix.SYS_MADVISE, lo, addr+uintptr(n)-lo, a.populate)
	return e == 0
}
