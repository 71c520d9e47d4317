package cuda

import (
	"fmt"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/ranges"
)

// device is one open GPU.
type device struct {
	d   *Driver // immutable
	gpu *gpu    // immutable

	mu     sync.RWMutex // held for reading while memory is allocated or freed
	closed bool         // guarded by mu

	use sync.Mutex
	mem struct { // guarded by use
		start   uint64 // what was free when the device was opened, or its part of it: all that programs can have
		limited bool   // more is refused, even if the GPU has it
		live    uint64 // bytes allocated, or being allocated
		peak    uint64 // and the most at one time
	}
}

var _ driver.Device = (*device)(nil)

// Alloc takes memory of the GPU. Its pages are CUDA's business, and large in any case; what was wanted is only
// remembered.
func (v *device) Alloc(n uint64, page driver.Page) (uintptr, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return 0, fmt.Errorf("%w: device %d", driver.ErrClosed, v.gpu.number)
	}
	if err := v.claim(n); err != nil {
		return 0, err
	}
	v.gpu.enter()
	addr, r := v.d.lib.alloc(max(n, 1))
	v.gpu.leave()
	if err := v.gpu.note("cuMemAlloc", r); err != nil {
		v.refund(n)
		return 0, err
	}
	huge := page == driver.PageHugeOnly || page == driver.Page1G || page == driver.PageHugeFirst && n > 1<<20
	v.d.insert(addr, 0, &block{kind: deviceBlock, size: n, huge: huge, device: int32(v.gpu.number)})
	v.allocated()
	return addr, nil
}

// claim counts n bytes as the device's, before they are allocated. It fails if the device may not have so many.
func (v *device) claim(n uint64) error {
	v.use.Lock()
	defer v.use.Unlock()
	if left := v.mem.start - min(v.mem.start, v.mem.live); v.mem.limited && n > left {
		return fmt.Errorf("%w: %d bytes, and device %d has %d left of its %d on GPU %d",
			driver.ErrNoMemory, n, v.gpu.number, left, v.mem.start, v.gpu.ordinal)
	}
	v.mem.live += n
	return nil
}

// refund takes back a claim, of memory that was not allocated or was freed.
func (v *device) refund(n uint64) {
	v.use.Lock()
	defer v.use.Unlock()
	v.mem.live -= n
}

// allocated notes that memory that was claimed is there.
func (v *device) allocated() {
	v.use.Lock()
	defer v.use.Unlock()
	v.mem.peak = max(v.mem.peak, v.mem.live)
}

// live is how many bytes are the device's.
func (v *device) live() uint64 {
	v.use.Lock()
	defer v.use.Unlock()
	return v.mem.live
}

func (v *device) Free(addr uintptr) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return fmt.Errorf("%w: device %d was closed", driver.ErrNotAllocated, v.gpu.number)
	}
	s, err := v.d.remove(addr, deviceBlock, int32(v.gpu.number))
	if err != nil {
		return err
	}
	err = v.d.release(s)
	v.refund(s.Of.size)
	return err
}

// othersTake is by how much less may be free than what the program has not allocated, for the pages that CUDA rounds up
// to; if more is missing, other programs have it.
const othersTake = 256 << 20

// Memory leaves out what was in use when the device was opened.
func (v *device) Memory() (free, total uint64) {
	v.gpu.enter()
	actual, _, r := v.d.lib.memInfo()
	v.gpu.leave()
	v.use.Lock()
	defer v.use.Unlock()
	total = v.mem.start
	free = total - min(total, v.mem.live)
	if v.gpu.note("cuMemGetInfo", r) == nil && actual+othersTake < free {
		free = actual
		v.mem.peak = max(v.mem.peak, total-free)
	}
	return free, total
}

func (v *device) Peak() uint64 {
	v.use.Lock()
	defer v.use.Unlock()
	return v.mem.peak
}

func (v *device) NewQueue(o driver.QueueOptions) driver.Queue {
	return newQueue(v, o)
}

func (v *device) Healthy() error { return v.gpu.healthy() }

// Close frees what is left; the context stays, because pinned memory may belong to it.
func (v *device) Close() error {
	v.gpu.runners.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	v.gpu.unloadAll()
	d := v.d
	d.mu.Lock()
	var left []*ranges.Span[*block]
	for s := range d.own.All() {
		if s.Of.kind == deviceBlock && s.Of.in == nil && s.Of.device == int32(v.gpu.number) {
			left = append(left, s)
		}
	}
	d.gone.Lock()
	for _, s := range left {
		d.own.Remove(s)
		d.forget(s)
	}
	mapped := d.lose(v.gpu.number)
	d.gone.Unlock()
	lost := v.gpu.healthy() != nil
	d.opened[v.gpu.number] = false
	v.gpu.device.Store(nil)
	d.mu.Unlock()
	d.epoch.Add(1)
	err := mapped()
	if lost {
		for _, s := range left {
			keptForImporters(s)
		}
		return nil // it goes with the context
	}
	if err != nil && v.gpu.healthy() == nil {
		return err
	}
	for _, s := range left {
		if err := d.release(s); err != nil && v.gpu.healthy() == nil {
			return err
		}
	}
	return nil
}
