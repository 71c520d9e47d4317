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

// Why a run failed, as capi/shim/kernel.h numbers it: a signal, or one of these.
const (
	stopped = 256
	barrier = 257
)

// run implements kernel.Run: ropeway_run of capi/shim/kernel.h.
type run struct {
	// What C reads.
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
	_        uint32
	inside   uintptr
	// What follows is not C's.
	of    *support
	calls uint64
	mu    sync.Mutex
	turn  uint64 // guarded by mu; launches that were begun
	live  bool   // guarded by mu; the launch has not ended
	late  bool   // guarded by mu; stopped because its time was up
}

// Begin implements kernel.Run. Grid and Threads may be 0: then it is no SIMT launch.
func (r *run) Begin(o kernel.SharedObject, c *kernel.Call) (turn uint64) {
	r.of, r.calls = o.(*object).support, c.Calls()
	r.entry, r.args, r.size = c.Code, c.Args, c.Size
	r.blocks, r.per, r.first, r.grid, r.threads = c.Blocks, c.Per, c.First, c.Grid, c.Threads
	if r.grid[0] == 0 {
		r.grid, r.threads = [3]uint32{c.Blocks, 1, 1}, [3]uint32{1, 1, 1}
	}
	r.together, r.failed, r.block, r.address, r.code, r.arrived, r.round = 0, 0, 0, 0, 0, 0, 0
	r.next.Store(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn++
	r.live, r.late = true, false
	return r.turn
}

// Work implements kernel.Run.
func (r *run) Work() {
	dl.CallInt(r.of.run, uintptr(unsafe.Pointer(r)))
	runtime.KeepAlive(r)
}

// Together implements kernel.Run.
func (r *run) Together() {
	n := min(r.calls, kernel.MostTogether)
	if n == r.calls {
		r.together = 1
	}
	var wg sync.WaitGroup
	for range n - 1 {
		wg.Go(func() {
			runtime.LockOSThread() // it ends with the goroutine
			r.Work()
			runtime.UnlockOSThread()
		})
	}
	r.Work()
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
	dl.CallInt(r.of.stop, uintptr(unsafe.Pointer(r)))
}

// End implements kernel.Run.
func (r *run) End() *kernel.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = false
	switch r.failed {
	case 0:
		return nil
	case stopped:
		return &kernel.Fault{Late: r.late}
	case barrier:
		return &kernel.Fault{Barrier: true, Block: r.block}
	}
	return &kernel.Fault{Signal: syscall.Signal(r.failed), Block: r.block, Address: r.address, Code: r.code}
}
