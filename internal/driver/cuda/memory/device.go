package memory

import (
	"fmt"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/ranges"
)

// Device is the memory of an open device.
type Device struct {
	d   *Space   // immutable
	gpu *gpu.GPU // immutable

	mu     sync.RWMutex // held for reading while memory is allocated or freed
	closed bool         // guarded by mu

	use sync.Mutex
	mem struct { // guarded by use
		start   uint64 // free memory when the device was opened, or its share of that: all that programs can have
		limited bool   // refuse more than start, even if the GPU has it
		live    uint64 // bytes allocated or being allocated
		peak    uint64 // largest value of live
	}
}

// Alloc allocates memory of the GPU. CUDA always uses large pages; page is only recorded.
func (v *Device) Alloc(n uint64, page driver.Page) (uintptr, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return 0, fmt.Errorf("%w: device %d", driver.ErrClosed, v.gpu.Number)
	}
	if err := v.claim(n); err != nil {
		return 0, err
	}
	v.gpu.Enter()
	addr, r := v.d.lib.MemAlloc(max(n, 1))
	v.gpu.Leave()
	if err := v.gpu.Note("cuMemAlloc", r); err != nil {
		v.refund(n)
		return 0, err
	}
	huge := page == driver.PageHugeOnly || page == driver.Page1G || page == driver.PageHugeFirst && n > 1<<20
	v.d.insert(addr, 0, &block{kind: deviceBlock, size: n, huge: huge, device: int32(v.gpu.Number)})
	v.allocated()
	return addr, nil
}

// claim counts n bytes before they are allocated. It fails if that exceeds the device's limit.
func (v *Device) claim(n uint64) error {
	v.use.Lock()
	defer v.use.Unlock()
	if left := v.mem.start - min(v.mem.start, v.mem.live); v.mem.limited && n > left {
		return fmt.Errorf("%w: %d bytes, and device %d has %d left of its %d on GPU %d",
			driver.ErrNoMemory, n, v.gpu.Number, left, v.mem.start, v.gpu.Ordinal)
	}
	v.mem.live += n
	return nil
}

// refund undoes claim for memory that was not allocated or was freed.
func (v *Device) refund(n uint64) {
	v.use.Lock()
	defer v.use.Unlock()
	v.mem.live -= n
}

// allocated updates the peak after claimed memory was allocated.
func (v *Device) allocated() {
	v.use.Lock()
	defer v.use.Unlock()
	v.mem.peak = max(v.mem.peak, v.mem.live)
}

// live returns the bytes counted by claim.
func (v *Device) live() uint64 {
	v.use.Lock()
	defer v.use.Unlock()
	return v.mem.live
}

func (v *Device) Free(addr uintptr) error {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return fmt.Errorf("%w: device %d was closed", driver.ErrNotAllocated, v.gpu.Number)
	}
	s, err := v.d.remove(addr, deviceBlock, int32(v.gpu.Number))
	if err != nil {
		return err
	}
	err = v.d.release(s)
	v.refund(s.Of.size)
	return err
}

// othersTake is the most memory that may be missing from the part that the program has not allocated, because CUDA
// rounds up to pages; if more is missing, other programs have it.
const othersTake = 256 << 20

// Memory does not count memory that was in use when the device was opened.
func (v *Device) Memory() (free, total uint64) {
	v.gpu.Enter()
	actual, _, r := v.d.lib.MemInfo()
	v.gpu.Leave()
	v.use.Lock()
	defer v.use.Unlock()
	total = v.mem.start
	free = total - min(total, v.mem.live)
	if v.gpu.Note("cuMemGetInfo", r) == nil && actual+othersTake < free {
		free = actual
		v.mem.peak = max(v.mem.peak, total-free)
	}
	return free, total
}

func (v *Device) Peak() uint64 {
	v.use.Lock()
	defer v.use.Unlock()
	return v.mem.peak
}

// Close frees the remaining memory, once; the context stays, because pinned memory may belong to it. Close calls before
// after it has stopped allocations, before it frees anything.
func (v *Device) Close(before func()) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	before()
	d := v.d
	d.mu.Lock()
	var left []*ranges.Span[*block]
	for s := range d.own.All() {
		if s.Of.kind == deviceBlock && s.Of.in == nil && s.Of.device == int32(v.gpu.Number) {
			left = append(left, s)
		}
	}
	d.Gone.Lock()
	for _, s := range left {
		d.own.Remove(s)
		d.forget(s)
	}
	mapped := d.lose(v.gpu.Number)
	d.Gone.Unlock()
	lost := v.gpu.Healthy() != nil
	d.devices[v.gpu.Number] = nil
	d.mu.Unlock()
	d.epoch.Add(1)
	err := mapped()
	if lost {
		for _, s := range left {
			keptForImporters(s)
		}
		return nil // the memory is freed with the context
	}
	if err != nil && v.gpu.Healthy() == nil {
		return err
	}
	for _, s := range left {
		if err := d.release(s); err != nil && v.gpu.Healthy() == nil {
			return err
		}
	}
	return nil
}

// OpenDevice opens the device with that number, which is not open: it makes the context of its GPU.
func (d *Space) OpenDevice(i int) (*Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.devices[i] != nil {
		return nil, fmt.Errorf("BUG: device %d opened twice", i)
	}
	c := d.gpus[i]
	if err := c.Start(); err != nil {
		return nil, err
	}
	c.StartClock()
	for _, other := range d.gpus {
		if other.Ordinal != c.Ordinal && other.Context() != 0 {
			c.EnablePeer(other)
			other.EnablePeer(c)
		}
	}
	c.Enter()
	free, _, r := d.lib.MemInfo()
	c.Leave()
	if err := c.Note("cuMemGetInfo", r); err != nil {
		return nil, err
	}
	v := &Device{d: d, gpu: c}
	v.mem.start, v.mem.limited = d.portion(c, free)
	d.devices[i] = v
	return v, nil
}

// portion returns the memory of a device whose GPU has free bytes, and whether that is a limit: devices on one GPU get
// equal shares of the memory that is free or already theirs. d.mu is held.
func (d *Space) portion(c *gpu.GPU, free uint64) (total uint64, limited bool) {
	total = free
	if c.Sharers > 1 {
		for i, v := range d.devices {
			if v != nil && d.gpus[i].Ordinal == c.Ordinal {
				total += v.live()
			}
		}
		total /= uint64(c.Sharers)
	}
	if d.limit > 0 {
		total = min(total, d.limit)
	}
	return total, c.Sharers > 1 || d.limit > 0
}

// Hold keeps the device with that number open until release is called. It fails if the device is not open.
func (d *Space) Hold(i int) (release func(), err error) {
	v, err := d.hold(i)
	if err != nil {
		return nil, err
	}
	return v.mu.RUnlock, nil
}

// hold is Hold for a caller that needs the device, and releases its mu.
func (d *Space) hold(i int) (*Device, error) {
	d.mu.Lock()
	v := d.devices[i]
	d.mu.Unlock()
	if v != nil {
		v.mu.RLock()
		if !v.closed {
			return v, nil
		}
		v.mu.RUnlock()
	}
	return nil, fmt.Errorf("%w: device %d", driver.ErrClosed, i)
}
