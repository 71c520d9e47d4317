package native

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"ropeway/internal/dl"
	"ropeway/internal/kernel"
)

// Reasons for the failure of a run, as in capi/shim/kernel.h: a signal, or one of these.
const (
	stopped = 256
	barrier = 257
	ended   = 258
	refused = 259
)

// launched is ropeway_run of capi/shim/kernel.h.
type launched struct {
	entry   [2]uintptr
	args    uintptr
	size    uint64
	blocks  uint32
	per     [2]uint32
	first   uint32
	grid    [3]uint32
	threads [3]uint32

	together uint32
	next     atomic.Uint32
	failed   uint32
	block    uint32
	address  uint64
	code     uint64
	arrived  uint32
	round    uint32
	lock     uint32
	whole    uint32 // see kernel.Call.ByAddress
	inside   uintptr
	touches  *touch // of run.list; nil: not watched
	most     uint32
	touched  uint32
}

// set initializes r for a launch. If Grid and Threads are 0, it is not a SIMT launch.
func (r *launched) set(c *kernel.Call) {
	r.entry, r.args, r.size = c.Code, c.Args, c.Size
	r.blocks, r.per, r.first, r.grid, r.threads = c.Blocks, c.Per, c.First, c.Grid, c.Threads
	if r.grid[0] == 0 {
		r.grid, r.threads = [3]uint32{c.Blocks, 1, 1}, [3]uint32{1, 1, 1}
	}
	r.together, r.failed, r.block, r.address, r.code, r.arrived, r.round = 0, 0, 0, 0, 0, 0, 0
	r.lock, r.inside, r.whole = 0, 0, 0
	if c.ByAddress {
		r.whole = 1
	}
	r.next.Store(0)
	r.touches, r.most, r.touched = nil, 0, 0
}

// fault returns the failure of the launch, or nil; late means that it was stopped because its time limit expired.
func (r *launched) fault(late bool) *kernel.Fault {
	switch r.failed {
	case 0:
		return nil
	case stopped:
		return &kernel.Fault{Late: late}
	case barrier:
		return &kernel.Fault{Barrier: true, Block: r.block}
	case ended:
		return &kernel.Fault{Ended: true, Block: r.block}
	case refused:
		return &kernel.Fault{Result: uint32(r.address), Block: r.block}
	}
	return &kernel.Fault{Signal: syscall.Signal(r.failed), Block: r.block, Address: r.address, Code: r.code}
}

// run implements kernel.Run.
type run struct {
	launched
	list  []touch // of a watched launch
	of    *support
	calls uint64
	mu    sync.Mutex
	turn  uint64 // guarded by mu; number of launches begun
	live  bool   // guarded by mu; the launch has not ended
	late  bool   // guarded by mu; stopped because its time limit expired
}

// Begin implements kernel.Run.
func (r *run) Begin(o kernel.SharedObject, c *kernel.Call) (turn uint64) {
	r.of, r.calls = o.(*object).support, c.Calls()
	r.set(c)
	if c.Watch {
		if r.list == nil {
			r.list = make([]touch, kernel.MostTouches)
		}
		r.touches, r.most = &r.list[0], kernel.MostTouches
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn++
	r.live, r.late = true, false
	return r.turn
}

// Work implements kernel.Run.
func (r *run) Work(s *kernel.Share) {
	dl.CallInt(r.of.run, uintptr(unsafe.Pointer(&r.launched)), uintptr(unsafe.Pointer(s)))
	runtime.KeepAlive(r)
	runtime.KeepAlive(s)
}

// Together implements kernel.Run.
func (r *run) Together(work func()) {
	n := min(r.calls, kernel.MostTogether)
	if n == r.calls {
		r.together = 1
	}
	var wg sync.WaitGroup
	for range n - 1 {
		wg.Go(func() {
			runtime.LockOSThread() // it ends with the goroutine
			work()
			runtime.UnlockOSThread()
		})
	}
	work()
	wg.Wait()
}

// Stop implements kernel.Run.
func (r *run) Stop(turn uint64, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.live || r.turn != turn {
		return
	}
	r.late = late
	dl.CallInt(r.of.stop, uintptr(unsafe.Pointer(&r.launched)))
}

// touch is ropeway_declared of capi/shim/kernel.h.
type touch struct{ address, bytes, writes uint64 }

// Touched implements kernel.Run.
func (r *run) Touched() (list []kernel.Touch, all bool) {
	for _, t := range r.list[:min(r.touched, r.most)] {
		list = append(list, kernel.Touch{Addr: uintptr(t.address), N: t.bytes, Write: t.writes != 0})
	}
	return list, r.touched <= r.most
}

// End implements kernel.Run.
func (r *run) End() *kernel.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = false
	return r.fault(r.late)
}
