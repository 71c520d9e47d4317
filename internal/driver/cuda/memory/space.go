// Package memory manages the memory that programs get from a driver for GPUs: of devices, pinned, registered, managed,
// mapped at reserved addresses, and shared with other processes. It resolves addresses.
package memory

import (
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/ranges"
)

// Space is all memory that a program has from a driver: of devices, pinned, registered, managed, and mapped.
type Space struct {
	lib   libcuda.API // immutable
	gpus  []*gpu.GPU  // by physical device; immutable
	limit uint64      // most bytes of a device; 0: no limit; immutable
	flush func()      // passes pending work to the streams; immutable

	own   ranges.Set[*block]        // device memory, pinned memory and device addresses of registered memory
	hosts ranges.Set[*registration] // registered memory
	past  ranges.Set[struct{}]      // addresses that were in own before
	epoch atomic.Uint64             // see driver.Driver

	shares atomic.Bool // memory was shared: this process may have imported it, so that it has a second address
	moved  atomic.Bool // there was memory whose address differs for CUDA; never reset

	virtual virtual

	// Gone is held for reading from the lookup of memory until CUDA has the work on it, and for writing while memory is
	// removed. Freeing itself waits for the work.
	Gone sync.RWMutex

	mu      sync.Mutex // held while own and hosts change
	lastID  uint64     // guarded by mu
	devices []*Device  // guarded by mu; by number; nil: not open
}

// Init makes d the memory of those GPUs. limit, if not 0, is the most bytes of a device. d calls flush before it
// removes memory: flush must pass pending work to the streams.
func (d *Space) Init(lib libcuda.API, gpus []*gpu.GPU, limit uint64, flush func()) {
	d.lib, d.gpus, d.limit, d.flush = lib, gpus, limit, flush
	d.mu.Lock()
	defer d.mu.Unlock()
	d.devices = make([]*Device, len(gpus))
}

// Epoch implements driver.Driver.
func (d *Space) Epoch() *atomic.Uint64 { return &d.epoch }

// Moved reports whether there ever was memory whose address differs for CUDA.
func (d *Space) Moved() bool { return d.moved.Load() }

// home returns the GPU whose context is used for pinned memory: one with a context, or the first.
func (d *Space) home() (*gpu.GPU, error) {
	for _, c := range d.gpus {
		if c.Context() != 0 && c.Healthy() == nil {
			return c, nil
		}
	}
	return d.gpus[0], d.gpus[0].Start()
}

// Locate implements driver.Driver.
func (d *Space) Locate(addr uintptr) driver.Location {
	if s := d.own.Find(addr); s != nil {
		room := s.Of.room(addr - s.Start)
		switch {
		case room == 0:
			return driver.Location{Place: driver.Nowhere}
		case s.Of.kind == pinnedBlock:
			return driver.Location{Place: driver.Host, Room: room}
		case s.Of.kind == managedBlock:
			return driver.Location{Place: driver.Managed, Device: s.Of.device, Room: room}
		}
		return driver.Location{Place: driver.OnDevice, Device: s.Of.device, Room: room}
	}
	if s := d.hosts.Find(addr); s != nil {
		return driver.Location{Place: driver.Host, Room: s.Size - uint64(addr-s.Start)}
	}
	if d.virtual.reserved.Find(addr) != nil || d.past.Find(addr) != nil && !readable(addr) {
		return driver.Location{Place: driver.Nowhere}
	}
	return driver.Location{Place: driver.Pageable}
}

// Describe implements driver.Driver.
func (d *Space) Describe(addr uintptr) driver.Allocation {
	al := driver.Allocation{Location: d.Locate(addr), PageSize: gpu.HostPage}
	if al.Place == driver.Nowhere {
		return al
	}
	if s := d.own.Find(addr); s != nil {
		al.Start, al.Size, al.ID = s.Start, s.Of.size, s.Of.id
		if s.Of.huge {
			al.PageSize = gpu.HugePage
		}
	} else if s := d.hosts.Find(addr); s != nil {
		al.Start, al.Size, al.ID = s.Start, s.Size, s.Of.id
	}
	return al
}

// Sole is Caps.Sole.
func (d *Space) Sole(addr uintptr) bool {
	own := d.own.Find(addr)
	return own != nil && own.Of.sole() && !d.shares.Load()
}

// Translate returns CUDA's address of the program's address addr: they differ for device addresses of registered
// memory, and for memory that CUDA has mapped elsewhere. Gone is held.
func (d *Space) Translate(addr uintptr) uintptr {
	own := d.own.Find(addr)
	switch {
	case own == nil:
		return addr
	case own.Of.kind == aliasBlock:
		return own.Of.reg.start + (addr - own.Start)
	}
	return addr + own.Of.delta
}

// View is a range of memory of one kind.
type View struct {
	kernels.Window
	Kind Kind
	GPU  int32
	Sole bool // the memory has no other address
}

// Side returns an end of a copy in the view; addr is an address of CUDA or the host.
func (v *View) Side(addr uintptr) Side { return Side{addr, v.Kind, v.GPU} }

// Look returns the whole range that contains addr, if all of it is mapped, or else just n bytes. Like Resolve it fails
// unless they are inside one live allocation or registration; pageable also allows ordinary host memory.
func (d *Space) Look(addr uintptr, n uint64, pageable bool) (View, error) {
	whole := kernels.Window{Lo: addr, Size: n}
	var s Side
	var err error
	sole := false
	if own := d.own.Find(addr); own != nil {
		whole.Lo, whole.Size = own.Start, own.Of.size
		s, err = own.Of.side(own.Start, own.Start, whole.Size)
		sole = own.Of.sole()
	} else if reg := d.hosts.Find(addr); reg != nil {
		whole.Lo, whole.Size = reg.Start, reg.Size
		s, err = reg.Of.side(reg.Start, whole.Size)
	} else if pageable && d.ordinary(addr, n) {
		return View{Window: whole, Kind: ByHost}, nil
	}
	if s.Addr == 0 || err != nil || !whole.Has(addr, n) {
		whole.Lo, whole.Size = addr, n
		s, err = d.Resolve(addr, n, pageable)
	}
	whole.Delta = s.Addr - whole.Lo
	return View{whole, s.Kind, s.GPU, sole}, err
}

// InsertGlobal makes a variable of a module, n bytes at addr, memory of a device; false if it is already.
func (d *Space) InsertGlobal(addr uintptr, n uint64, device int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.own.Overlap(addr, n) != nil {
		return false
	}
	d.insertLocked(addr, 0, &block{kind: globalBlock, size: n, device: int32(device)})
	return true
}

// RemoveGlobals undoes InsertGlobal.
func (d *Space) RemoveGlobals(list iter.Seq[uintptr]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Gone.Lock()
	for addr := range list {
		s := d.own.Find(addr)
		d.own.Remove(s)
		d.forget(s)
	}
	d.Gone.Unlock()
	d.epoch.Add(1)
}

// Snapshot is the memory at one time. Two snapshots are equal if no memory was added or removed between them.
type Snapshot struct{ of ranges.Snapshot[*block] }

// Snapshot returns the current memory.
func (d *Space) Snapshot() Snapshot { return Snapshot{d.own.Snapshot()} }

// Count returns the number of ranges in Live. translated reports whether the device has others, whose addresses differ
// for CUDA.
func (s Snapshot) Count(device int) (n int, translated bool) {
	for o := range s.of.All() {
		if o.Of.device == int32(device) {
			switch o.Of.kind {
			case deviceBlock, globalBlock:
				n++
				translated = translated || o.Of.delta != 0
			case aliasBlock:
				translated = true
			}
		}
	}
	return n, translated
}

// Live returns the memory of a device, in ascending order.
func (s Snapshot) Live(device int) iter.Seq[kernels.Range] {
	return func(yield func(kernels.Range) bool) {
		for o := range s.of.All() {
			if (o.Of.kind == deviceBlock || o.Of.kind == globalBlock) && o.Of.device == int32(device) &&
				!yield(kernels.Range{Start: uint64(o.Start), End: uint64(o.Start) + o.Of.size}) {
				return
			}
		}
	}
}

// Close frees everything. No work is left that could use it. Memory of a lost GPU is not an error.
func (d *Space) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Gone.Lock()
	defer d.Gone.Unlock()
	d.epoch.Add(1)
	errs := []error{d.closeVirtual()}
	for s := range d.hosts.All() {
		errs = append(errs, d.unpin(s.Of))
	}
	for s := range d.own.All() {
		if s.Of.kind == aliasBlock {
			errs = append(errs, arena.Unreserve(s.Start, arena.Reserved(s.Size)))
		} else {
			errs = append(errs, d.release(s))
		}
	}
	d.own.Clear()
	d.hosts.Clear()
	d.past.Clear()
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, driver.ErrLost) })...)
}
