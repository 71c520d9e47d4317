package core

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"ropeway/internal/driver"
)

// Tasks that compute, reductions and random numbers, do so on the host, when it is their turn in the stream: driver.OpWork.

// sight is how the host sees memory that a task computes on: in place, where the driver shows it, else as a copy. It belongs to one goroutine.
type sight struct {
	viewer driver.Viewer // nil: there is none
	drv    driver.Driver // the one that has the memory, not those that stand in front of it: the task is what they see
}

// sightBytes is how much of it is looked at at a time.
const sightBytes = 64 << 10

func (rt *Runtime) sight() sight {
	s := sight{drv: rt.drv}
	s.viewer, _ = driver.As[driver.Viewer](rt.drv)
	for {
		w, ok := s.drv.(interface{ Unwrap() driver.Driver })
		if !ok {
			return s
		}
		s.drv = w.Unwrap()
	}
}

// see is the n bytes at addr; buf has room for them.
func (s *sight) see(addr Addr, buf []byte, n uint64) ([]byte, error) {
	if s.viewer != nil {
		return s.viewer.View(addr, n)
	}
	return buf[:n], s.drv.Run(driver.Op{Kind: driver.OpCopy, Dst: AddrOf(buf), Src: addr, N: n})
}

// change puts what see gave, and was changed, back to addr.
func (s *sight) change(addr Addr, b []byte) error {
	if s.viewer != nil {
		return nil
	}
	return s.drv.Run(driver.Op{Kind: driver.OpCopy, Dst: addr, Src: AddrOf(b), N: uint64(len(b))})
}

// guarded runs f, which touches memory that may go meanwhile: a fault is an error.
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

// reachable finds memory that device d computes on: any that the device can reach.
func (t *Thread) reachable(api, arg string, d *Device, addr Addr, n uint64) *Error {
	l, err := t.rt.locate(api, arg, addr, n)
	if err != nil {
		return err
	}
	if l.Place == driver.Pageable {
		return refused(api, arg, "%#x is pageable host memory, which the device cannot reach", addr)
	}
	return t.rt.peerDenied(api, arg, d, l)
}
