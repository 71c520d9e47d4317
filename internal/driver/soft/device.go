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

	mu     sync.RWMutex // held for reading while memory is allocated or freed
	closed bool         // guarded by mu
}

var _ driver.Device = (*device)(nil)

func (v *device) Alloc(n uint64, page driver.Page) (uintptr, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return 0, fmt.Errorf("%w: device %d", driver.ErrClosed, v.number)
	}
	addr, err := v.arena.Alloc(n, arena.AllocOptions{Huge: policy(page)})
	return addr, outOfMemory(err)
}

func policy(page driver.Page) arena.HugePolicy {
	switch page {
	case driver.PageNormal:
		return arena.Normal
	case driver.PageHugeOnly, driver.Page1G:
		return arena.Require
	}
	return arena.Prefer
}

func (v *device) Free(addr uintptr) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return fmt.Errorf("%w: device %d was closed", driver.ErrNotAllocated, v.number)
	}
	v.d.epoch.Add(1) // before, for the next owner of the address, and after, for a lookup in between
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
	q := newQueue(v.d, v.number, o)
	v.d.quiesce.add(q)
	return q
}

func (v *device) Healthy() error { return nil }

// Close frees the remaining memory. The mappings stay until the driver closes, so that a stray address does no harm.
func (v *device) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	v.d.quiesce.removeAll(v.number)
	v.d.kernels.unloadAll(v.number)
	err := v.d.virtual.lose(int32(v.number))
	var left []uintptr
	v.arena.Each(func(r arena.Range) bool {
		left = append(left, r.Start)
		return true
	})
	for _, addr := range left {
		v.arena.Free(addr) //nolint:errcheck // the program may have freed it since
	}
	v.d.epoch.Add(1)
	v.arena.Trim()
	v.d.mu.Lock()
	v.d.opened[v.number] = nil
	v.d.mu.Unlock()
	return err
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
