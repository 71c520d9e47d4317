package soft

import (
	"errors"
	"fmt"
	"sync"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
)

// device is one open software device.
type device struct {
	d      *Driver      // immutable
	number int          // immutable
	arena  *arena.Arena // immutable

	mu     sync.RWMutex // held for reading while memory is allocated
	closed bool         // guarded by mu
}

var _ driver.Device = (*device)(nil)

func (v *device) Alloc(n uint64, page driver.Page) (uintptr, error) {
	huge := arena.Prefer
	switch page {
	case driver.PageNormal:
		huge = arena.Normal
	case driver.PageHugeOnly, driver.Page1G:
		huge = arena.Require
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return 0, fmt.Errorf("%w: device %d", driver.ErrClosed, v.number)
	}
	addr, err := v.arena.Alloc(n, arena.AllocOptions{Huge: huge})
	return addr, outOfMemory(err)
}

func (v *device) Free(addr uintptr) error {
	v.d.epoch.Add(1) // before, for who gets the address next; and after, for who looked it up meanwhile
	defer v.d.epoch.Add(1)
	return notAllocated(v.arena.Free(addr))
}

func (v *device) Memory() (free, total uint64) {
	total = v.arena.Limit()
	if live := v.arena.Stats().Live; live < total {
		free = total - live
	}
	return free, total
}

func (v *device) Peak() uint64 { return v.arena.Stats().Peak }

func (v *device) NewQueue(o driver.QueueOptions) driver.Queue {
	return &queue{d: v.d, sink: o.Sink, observer: o.Observer, priority: min(max(o.Priority, 0), len(v.d.pool.ready)-1)}
}

func (v *device) Healthy() error { return nil }

// Close frees what is left; the mappings stay until the driver closes, so that a stray address can do no harm.
func (v *device) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	var left []uintptr
	v.arena.Each(func(r arena.Range) bool {
		left = append(left, r.Start)
		return true
	})
	for _, addr := range left {
		v.arena.Free(addr) //nolint:errcheck // freed by the program meanwhile
	}
	v.d.epoch.Add(1)
	v.arena.Trim()
	v.d.mu.Lock()
	v.d.opened[v.number] = false
	v.d.mu.Unlock()
	return nil
}

func outOfMemory(err error) error {
	if errors.Is(err, arena.ErrNoMemory) {
		return fmt.Errorf("%w: %v", driver.ErrNoMemory, err)
	}
	return err
}

func notAllocated(err error) error {
	if errors.Is(err, arena.ErrNotAllocated) {
		return fmt.Errorf("%w: %v", driver.ErrNotAllocated, err)
	}
	return err
}
