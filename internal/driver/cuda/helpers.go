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

// maxHelpers returns the most goroutines that move host memory for one operation: enough to keep the link busy, but at
// most half of the cores.
func maxHelpers() int { return max(1, min(8, runtime.GOMAXPROCS(0)/2)) }

// withHelpers calls own, while up to n helpers call help. When it returns, all helpers that began have ended and no
// other begins: waking one may take longer than the work.
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
	inside sync.RWMutex // held for reading by each helper inside; for writing by close, once all have left
}

// enter lets the caller in and returns true, unless the latch is closed.
func (d *latch) enter() bool { return !d.closed.Load() && d.inside.TryRLock() }

func (d *latch) leave() { d.inside.RUnlock() }

// close lets no other helper in, and waits until all have left.
func (d *latch) close() {
	d.closed.Store(true)
	if !soon(d.inside.TryLock) {
		d.inside.Lock()
	}
}

// soon reports whether is returns true within a time for which polling is faster than sleeping.
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

// portions divides work on n bytes between goroutines.
type portions struct {
	n    uint64
	do   func(off, n uint64)
	next atomic.Uint64 // offset of the next portion
	done atomic.Uint64 // bytes done
	once sync.Once     // for err and over
	err  error         // error of the first portion that failed; read after over is closed
	over chan struct{} // closed when all portions are done or one has failed
}

// portion is the number of bytes that a goroutine takes at a time.
const portion = 2 << 20

func newPortions(n uint64, do func(off, n uint64)) *portions {
	return &portions{n: n, do: do, over: make(chan struct{})}
}

// work does portions until none is left or one has failed.
func (p *portions) work() {
	if err := p.some(); err != nil {
		p.end(err)
	}
}

// some is work that returns a memory fault as an error.
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

// ended reports whether all portions are done or one has failed.
func (p *portions) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// join does the remaining portions, and waits for those of other goroutines.
func (p *portions) join() error {
	if !p.ended() {
		p.work()
		if !soon(p.ended) {
			<-p.over
		}
	}
	return p.err
}

// share calls do for all parts of n bytes, in as many goroutines as pays, and returns when they are done. A memory
// fault in do becomes an error.
func share(n uint64, do func(off, n uint64)) error {
	if n <= portion {
		return guarded(n, do)
	}
	p := newPortions(n, do)
	withHelpers(min(maxHelpers(), int(n/portion))-1, p.work, p.work)
	return p.err
}

// guarded calls do for all n bytes and returns a memory fault as an error.
func guarded(n uint64, do func(off, n uint64)) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	do(0, n)
	return nil
}

// copyHost copies n bytes of host memory, with the result of memmove.
func copyHost(dst, src uintptr, n uint64) error {
	if n < 2*portion || overlap(dst, src, n) {
		return guardedCopy(dst, src, n)
	}
	return share(n, func(off, n uint64) { memcopy.CopyStream(dst+uintptr(off), src+uintptr(off), uintptr(n)) })
}

// guardedCopy copies memory that may be unmapped by now.
func guardedCopy(dst, src uintptr, n uint64) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	memcopy.Copy(dst, src, uintptr(n))
	return nil
}

// access is a kind of access that memory is probed for.
type access struct {
	touch    func(addr, n uintptr)
	populate uintptr // advice that makes the kernel touch many pages at a time
}

var (
	reading = access{memcopy.ProbeRead, unix.MADV_POPULATE_READ}
	writing = access{memcopy.ProbeWrite, unix.MADV_POPULATE_WRITE}
)

// populateMin is the smallest range that is worth checking for pages that were never used.
const populateMin = 64 << 10

// probe touches every page of n bytes at addr.
func (a access) probe(addr uintptr, n uint64) error { return share(n, a.prober(addr)) }

// prober returns a function that touches pages relative to addr. That is quick for existing pages. Creating missing
// ones takes longer than the copy: so several goroutines do it, and ask the kernel for many pages at a time.
func (a access) prober(addr uintptr) func(off, n uint64) {
	return func(off, n uint64) {
		lo := addr + uintptr(off)
		// the first page of memory from a heap has been used
		unused := n >= populateMin && (fresh(lo) || fresh(lo+uintptr(n)-1))
		if !unused || !a.ask(lo, n) {
			a.touch(lo, uintptr(n)) // and so finds a fault
		}
	}
}

// ask reports whether the kernel has made all pages of the n bytes at addr accessible. Kernels before 5.14 cannot.
func (a access) ask(addr uintptr, n uint64) bool {
	lo := addr &^ (gpu.HostPage - 1)
	_, _, e := unix.Syscall(unix.SYS_MADVISE, lo, addr+uintptr(n)-lo, a.populate)
	return e == 0
}
