package cuda

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/memcopy"
)

// maxHelpers is how many goroutines move host memory for one operation: as many as keep the link busy, if they leave
// half of the cores to others.
func maxHelpers() int { return max(1, min(8, runtime.GOMAXPROCS(0)/2)) }

// withHelpers does own, while up to n helpers do help. When it returns, all helpers that began have ended and no more
// begin: waking one may take longer than the work.
func withHelpers(n int, own, help func()) {
	if n <= 0 {
		own()
		return
	}
	var d latch
	for range n {
		go func() {
			if d.enter() {
				defer d.leave()
				help()
			}
		}()
	}
	own()
	d.close()
}

// latch lets helpers in until it is closed.
type latch struct {
	closed atomic.Bool
	inside sync.RWMutex // held by each that is inside; once all have left, by the one that closed it
}

// enter reports whether one is inside.
func (d *latch) enter() bool { return !d.closed.Load() && d.inside.TryRLock() }

func (d *latch) leave() { d.inside.RUnlock() }

// close lets no more in, and waits until all have left.
func (d *latch) close() {
	d.closed.Store(true)
	if !soon(d.inside.TryLock) {
		d.inside.Lock()
	}
}

// soon reports whether something becomes true within a time in which it is better to look than to sleep and be woken.
func soon(is func() bool) bool {
	const long = time.Millisecond
	if is() {
		return true
	}
	if runtime.GOMAXPROCS(0) >= 4 {
		for begin := time.Now(); time.Since(begin) < long; {
			if is() {
				return true
			}
		}
	}
	return false
}

// portions is work on n bytes that several goroutines share.
type portions struct {
	n    uint64
	do   func(off, n uint64)
	next atomic.Uint64 // offset of what is not taken yet
	done atomic.Uint64 // bytes
	once sync.Once     // for err and over
	err  error         // of the portion that failed first, when over is closed
	over chan struct{} // closed when all is done, or a portion has failed
}

// portion is what one goroutine does at a time.
const portion = 2 << 20

func newPortions(n uint64, do func(off, n uint64)) *portions {
	return &portions{n: n, do: do, over: make(chan struct{})}
}

// work does portions as long as there are any and none has failed.
func (p *portions) work() {
	if err := p.some(); err != nil {
		p.end(err)
	}
}

// some does portions. A memory fault is an error.
func (p *portions) some() (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	for !p.ended() {
		off := p.next.Add(portion) - portion
		if off >= p.n {
			break
		}
		n := min(portion, p.n-off)
		p.do(off, n)
		if p.done.Add(n) == p.n {
			p.end(nil)
		}
	}
	return nil
}

func (p *portions) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.over)
	})
}

// ended reports whether there is nothing more to do.
func (p *portions) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// join does what is left, and waits for what others do.
func (p *portions) join() error {
	if !p.ended() {
		p.work()
		if !soon(p.ended) {
			<-p.over
		}
	}
	return p.err
}

// share does work on n bytes at the offsets that do is called with, with as many goroutines as that is worth. It is
// done when share returns. A memory fault in do is an error.
func share(n uint64, do func(off, n uint64)) error {
	if n <= portion {
		return guarded(n, do)
	}
	p := newPortions(n, do)
	withHelpers(min(maxHelpers(), int(n/portion))-1, p.work, p.work)
	return p.err
}

// guarded does all of a work.
func guarded(n uint64, do func(off, n uint64)) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	do(0, n)
	return nil
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
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
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
const populateMin = 64 << 10

// probe touches every page of n bytes at addr.
func (a access) probe(addr uintptr, n uint64) error { return share(n, a.prober(addr)) }

// prober touches pages from addr on. That is quick where there are pages. Where there are none, they are made then,
// which takes longer than the copy: so several goroutines do it, and the kernel is asked for many at a time.
func (a access) prober(addr uintptr) func(off, n uint64) {
	return func(off, n uint64) {
		lo := addr + uintptr(off)
		// of memory from a heap the first page has been used
		unused := n >= populateMin && (fresh(lo) || fresh(lo+uintptr(n)-1))
		if !unused || !a.ask(lo, n) {
			a.touch(lo, uintptr(n)) // and so finds out what is wrong
		}
	}
}

// ask reports whether the kernel has made all pages of the n bytes at addr accessible. Kernels before 5.14 cannot.
func (a access) ask(addr uintptr, n uint64) bool {
	lo := addr &^ (gpu.HostPage - 1)
	_, _, e := unix.Syscall(unix.SYS_MADVISE, lo, addr+uintptr(n)-lo, a.populate)
	return e == 0
}
