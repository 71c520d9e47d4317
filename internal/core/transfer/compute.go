package transfer

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Tasks that compute (reductions and random numbers) run on the host in the order of the stream (driver.OpCompute).
// Several goroutines share the pieces of a large task, which ends early if the stream drops its work.

const (
	pieceBytes = 64 << 10 // most bytes of memory in one piece
	handful    = 16       // pieces that are worth another goroutine
)

// sight is the host's access to memory for a task: in place, if the driver allows that, else as a copy.
type sight struct {
	viewer driver.HostViewer // nil: access by copies
	// the driver that has the memory, not one in front of it, which sees only the task
	drv driver.Driver
	far driver.Fabric // nil: all memory is of this server
}

func sightOf(rt *core.Runtime) sight {
	return sight{viewer: rt.Caps.View, drv: rt.Caps.Base, far: rt.Caps.Fabric}
}

// hand is the state of one goroutine, with buffers for copies of memory.
type hand struct {
	sight
	room [2][]byte
}

// see returns the n bytes at addr, at most pieceBytes. Two ranges in use at the same time have different numbers.
func (h *hand) see(number int, addr core.Addr, n uint64) ([]byte, error) {
	if h.far != nil && h.far.IsFar(addr) {
		return nil, fmt.Errorf("%w: %#x is memory of another server, which reductions and random numbers do not use",
			driver.ErrFault, addr)
	}
	if h.viewer != nil {
		return h.viewer.View(addr, n)
	}
	b := h.scratch(number)[:n]
	return b, h.drv.Run(driver.Op{Kind: driver.OpCopy, Dst: core.AddrOf(b), Src: addr, N: n})
}

// change writes bytes from see, which were changed, back to addr.
func (h *hand) change(addr core.Addr, b []byte) error {
	if h.viewer != nil {
		return nil
	}
	return h.drv.Run(driver.Op{Kind: driver.OpCopy, Dst: addr, Src: core.AddrOf(b), N: uint64(len(b))})
}

// scratch returns the buffer for a copy.
func (h *hand) scratch(number int) []byte {
	if h.room[number] == nil {
		h.room[number] = make([]byte, pieceBytes)
	}
	return h.room[number]
}

// compute calls f for each of a number of pieces, and stops when one fails or dropped returns true. With inTurn a
// single goroutine handles the pieces in order.
func compute(rt *core.Runtime, pieces uint64, inTurn bool, dropped func() bool,
	f func(h *hand, piece uint64) error) error {
	var next atomic.Uint64
	look := sightOf(rt)
	work := func() error {
		return guarded(func() error {
			h := hand{sight: look}
			for i := next.Add(1) - 1; i < pieces; i = next.Add(1) - 1 {
				if dropped() {
					return driver.ErrAborted
				}
				if err := f(&h, i); err != nil {
					next.Store(pieces)
					return err
				}
			}
			return nil
		})
	}
	others := min(uint64(runtime.GOMAXPROCS(0)), pieces/handful)
	if inTurn || others < 2 {
		return work()
	}
	errs := make([]error, others)
	var wg sync.WaitGroup
	for i := range errs[1:] {
		wg.Go(func() { errs[1+i] = work() })
	}
	errs[0] = work()
	wg.Wait()
	for _, err := range errs {
		if errors.Is(err, driver.ErrAborted) {
			return driver.ErrAborted // unwrapped, so that it is not reported
		}
	}
	return errors.Join(errs...)
}

// guarded runs f, which touches memory that may be unmapped, and returns a fault as an error.
func guarded(f func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		switch r := recover().(type) {
		case nil:
		case interface {
			runtime.Error
			Addr() uintptr
		}:
			err = fmt.Errorf("%w: memory fault at %#x", driver.ErrFault, r.Addr())
		default:
			panic(r)
		}
	}()
	return f()
}

// reachable refuses memory that device d cannot access.
func reachable(t *core.Thread, api, arg string, d *core.Device, addr core.Addr, n uint64) *core.Error {
	l, err := t.Runtime.Locate(api, arg, addr, n)
	if err != nil {
		return err
	}
	if l.Place == driver.Pageable {
		return core.Refused(api, arg, "%#x is pageable host memory, which the device cannot reach", addr)
	}
	return t.Runtime.PeerDenied(api, arg, d, addr, l)
}
