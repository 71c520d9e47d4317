// Package soft is the software device: AscendCL memory, queues and copies on any Linux machine, by the CPU.
//
// Device memory is a memfd mapped twice (see internal/arena): programs see addresses that fault when the host touches
// them, the engine works through a second mapping. Pinned host memory is made the same way, but open.
//
// Memory can also be mapped to reserved addresses (virtual), shared with other processes (share) and managed.
//
// Three kinds of goroutine carry copies out: the submitter (copies up to 64 KiB and batches up to 1 MiB, on a queue at
// rest), the workers of the pool, and goroutines that wait for a queue. Large operations are cut into chunks, which the
// goroutine that runs the queue and idle workers claim from a counter: see queue, job and pool. There is no goroutine
// for a stream.
//
// A fault while the engine copies is a recoverable panic (debug.SetPanicOnFault) and becomes driver.ErrFault of the
// task.
//
// Sharing memory moves its bytes, so it waits for what queues are running (quiesce.go). Releasing addresses does not:
// they stay reserved until what was running is over (deferred.go).
//
// Lock order: device.mu → Driver.mu, kernels.mu, quiescer.mu; kernels.mu → virtual.mu; Arena.movers → quiescer.gate →
// virtual.mu → Arena.mu; quiescer.mu → Queue.Mu → Flag.mu → pool.mu. Nothing is called with pool.mu held.
// Events.Failed, Op.Done and Op.Fn are called with no lock of the driver held.
package soft

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
)

// Options configures the software machine.
type Options struct {
	Devices  int    // number of devices; 0: 8
	Memory   uint64 // most bytes of each device; 0: 64 GiB
	Open     bool   // the host may touch device memory (RC form, where both are the same memory)
	OwnPages bool   // every pinned allocation has pages of its own
	Guard    bool   // made for the checker: see guard.go; implies OwnPages

	// Shade receives which addresses of pinned memory the program must not use, or may use again: see fence.go. It is
	// called with no lock held. nil: it is not reported.
	Shade func(lo, hi uintptr, forbidden bool)

	Warn func(text string) // receives messages for the user, one line each; may be nil
}

const (
	defaultDevices = 8
	mostDevices    = 1 << 10
	defaultMemory  = 64 << 30
	leastMemory    = 64 << 20
	readWrite      = unix.PROT_READ | unix.PROT_WRITE
	registeredID   = 1 << 63 // allocation ids of registrations have this bit, others never
)

// Driver implements driver.Driver.
type Driver struct {
	pool     *pool
	budget   *arena.Budget
	files    *arena.Files // memory outside the arenas
	warn     func(string)
	prot     int // protection of the device windows
	ownPages bool
	guard    bool
	shade    func(lo, hi uintptr, forbidden bool)
	seed     maphash.Seed // of Sum

	base   uintptr // start of the device windows
	shift  uint    // log2 of the distance between two of them
	memory uint64  // most bytes of memory of a device
	window uint64  // most bytes of addresses of an arena: memory, or more with Guard

	windows []atomic.Pointer[arena.Arena] // by physical device; set once, when it is first opened
	host    atomic.Pointer[arena.Arena]   // pinned host memory; set once
	hosts   hostRanges
	virtual virtual
	epoch   atomic.Uint64 // see driver.Driver
	quiesce quiescer
	kernels kernels
	shaded  atomic.Uintptr // end of the addresses reported to shade
	// memory of an arena was shared: this process may have imported it, so that it has a second address
	shares atomic.Bool

	found func() // immutable; for tests, else nil: called by Load between finding a word and reading it

	mu     sync.Mutex // held while arenas are created and closed
	opened []*device  // guarded by mu; nil where none is open
	warned bool       // guarded by mu
	pinned uintptr    // guarded by mu; start of the addresses reserved for pinned memory with Guard; else 0
}

var _ driver.Driver = (*Driver)(nil)

// Caps implements driver.Driver.
func (d *Driver) Caps() driver.Caps {
	return driver.Caps{Base: d, Map: d, Share: d, Managed: d, Words: d, View: d, Launch: d, Guard: d, Sole: d.Sole,
		Fence: d.Fence}
}

// New returns a software machine. It reserves addresses; memory is allocated as it is used.
func New(o Options) (*Driver, error) {
	if o.Devices == 0 {
		o.Devices = defaultDevices
	}
	if o.Devices < 0 || o.Devices > mostDevices {
		return nil, fmt.Errorf("%w: %d devices; there can be 1 to %d", driver.ErrUnsupported, o.Devices, mostDevices)
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	d := &Driver{
		pool:     newPool(),
		budget:   arena.NewBudget(),
		warn:     o.Warn,
		prot:     unix.PROT_NONE,
		ownPages: o.OwnPages,
		guard:    o.Guard,
		shade:    o.Shade,
		seed:     maphash.MakeSeed(),
		windows:  make([]atomic.Pointer[arena.Arena], o.Devices),
		opened:   make([]*device, o.Devices),
	}
	d.kernels.afterDrop = afterDrop
	d.files = arena.NewFiles(d.budget)
	if o.Open {
		d.prot = readWrite
	}
	want := max(o.Memory, leastMemory)
	d.memory = arena.Fit(want, d.budget.Limit(), d.budget.Available())
	d.window = d.memory
	if d.guard {
		d.window = max(d.memory, guardWindow)
	}
	asked := o.Memory != defaultMemory // less than the default is not worth a warning
	for {
		err := d.reserve(o.Devices)
		if err == nil {
			break
		}
		if d.window /= 2; d.window >= d.memory {
			continue
		}
		if d.memory/2 < leastMemory {
			return nil, fmt.Errorf("%w: no address space for %d devices; raise ulimit -v or have fewer: %v",
				driver.ErrNoMemory, o.Devices, err)
		}
		d.memory = d.memory / 2 &^ (2<<20 - 1)
		d.window = d.memory
		asked = true
	}
	if d.memory < want && asked {
		d.warned = true
		d.warn(fmt.Sprintf("each device has %d MiB of memory, not %d MiB: "+
			"the machine or its limits (ulimit -v?) allow no more", d.memory>>20, want>>20))
	}
	if d.guard { // Span is called before any memory is pinned
		if _, err := d.hostArena(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// reserve reserves the windows of all devices, if there is room for the other mappings as well: the engine's views,
// pinned memory (twice), and some for the program.
func (d *Driver) reserve(devices int) error {
	const others = 256 << 20
	d.shift = uint(bits.Len64(d.window - 1))
	base, err := arena.Reserve(uint64(devices) << d.shift)
	if err != nil {
		return err
	}
	beside := uint64(devices+2)*d.window + others
	room, err := arena.Reserve(beside)
	if err != nil {
		return errors.Join(err, arena.Unreserve(base, uint64(devices)<<d.shift))
	}
	d.base = base
	return arena.Unreserve(room, beside)
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return "soft" }

// Devices implements driver.Driver.
func (d *Driver) Devices() int { return len(d.windows) }

// newArena returns an arena of window bytes, halved until it fits: where a ulimit or a sanitizer leaves little address
// space, a small device is better than none. d.mu is held.
func (d *Driver) newArena(name string, prot int, at uintptr, window uint64, fenced bool) (*arena.Arena, error) {
	for size := window; ; size = size / 2 &^ (2<<20 - 1) {
		a, err := arena.New(arena.Options{
			Name: name, Capacity: size, WindowProt: prot, WindowAt: at, Budget: d.budget,
			OwnPages: d.ownPages && at == 0, Fresh: d.guard, Fenced: fenced, Limit: d.memory,
		})
		switch {
		case err == nil && size < d.memory && !d.warned:
			d.warned = true
			d.warn(fmt.Sprintf("%s has %d MiB, not %d MiB: no more address space could be mapped (ulimit -v?)", name,
				size>>20, d.memory>>20))
			return a, nil
		case err == nil:
			return a, nil
		case size/2 < leastMemory:
			return nil, fmt.Errorf("%w: %v", driver.ErrNoMemory, err)
		}
	}
}

// Open implements driver.Driver. The memory of a device is mapped once and kept; a device that was closed comes
// back empty.
func (d *Driver) Open(i int) (driver.Device, error) {
	if i < 0 || i >= len(d.windows) {
		return nil, fmt.Errorf("%w: no device %d, there are %d", driver.ErrUnsupported, i, len(d.windows))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened[i] != nil {
		return nil, fmt.Errorf("BUG: device %d opened twice", i)
	}
	a := d.windows[i].Load()
	if a == nil {
		var err error
		if a, err = d.newArena(fmt.Sprintf("ropeway-device%d", i), d.prot, d.base+uintptr(i)<<d.shift, d.window,
			false); err != nil {
			return nil, err
		}
		d.windows[i].Store(a)
		if d.kernels.shown.Load() && !d.guard {
			if err := a.Show(); err != nil {
				return nil, err
			}
		}
	}
	d.opened[i] = &device{d: d, number: i, arena: a}
	return d.opened[i], nil
}

// Epoch implements driver.Driver.
func (d *Driver) Epoch() *atomic.Uint64 { return &d.epoch }

// NewFlag implements driver.Driver.
func (d *Driver) NewFlag() driver.Flag { return new(flag) }

// isWindow reports whether addr is in the windows of device memory.
func (d *Driver) isWindow(addr uintptr) bool {
	return (addr-d.base)>>d.shift < uintptr(len(d.windows))
}

// arenaOf returns the arena that contains addr, or nil.
func (d *Driver) arenaOf(addr uintptr) *arena.Arena {
	if i := (addr - d.base) >> d.shift; i < uintptr(len(d.windows)) {
		return d.windows[i].Load()
	}
	if a := d.host.Load(); a != nil && a.Contains(addr) {
		return a
	}
	return nil
}

// Locate implements driver.Driver.
func (d *Driver) Locate(addr uintptr) driver.Location {
	if i := (addr - d.base) >> d.shift; i < uintptr(len(d.windows)) {
		if a := d.windows[i].Load(); a != nil {
			if room := a.Room(addr); room > 0 {
				return driver.Location{Place: driver.OnDevice, Device: int32(i), Room: room}
			}
		}
		return driver.Location{Place: driver.Nowhere}
	}
	if a := d.host.Load(); a != nil && a.Contains(addr) {
		if room := a.Room(addr); room > 0 {
			return driver.Location{Place: driver.Host, Room: room}
		}
		return driver.Location{Place: driver.Nowhere}
	}
	if s := d.virtual.mapped.Find(addr); s != nil {
		return driver.Location{Place: s.Of.place, Device: s.Of.device, Room: roomIn(s, addr)}
	}
	if d.virtual.reserved.Find(addr) != nil {
		return driver.Location{Place: driver.Nowhere}
	}
	if r, ok := d.hosts.find(addr); ok {
		if uint64(addr-r.start) < r.size {
			return driver.Location{Place: driver.Host, Room: r.room(addr)}
		}
		return driver.Location{Place: driver.OnDevice, Device: r.device, Room: r.room(addr)}
	}
	return driver.Location{Place: driver.Pageable}
}

// Describe implements driver.Driver.
func (d *Driver) Describe(addr uintptr) driver.Allocation {
	al := driver.Allocation{Location: d.Locate(addr), PageSize: 4096}
	if a := d.arenaOf(addr); a != nil {
		if r, ok := a.Find(addr); ok {
			al.Start, al.Size, al.PageSize, al.ID = r.Start, r.Size, r.PageSize, r.ID
		}
	} else if s := d.virtual.mapped.Find(addr); s != nil {
		al.Start, al.Size, al.PageSize, al.ID = s.Start, s.Size, s.Of.page, s.Of.id
	} else if r, ok := d.hosts.find(addr); ok && al.Place != driver.Nowhere {
		al.Start, al.Size, al.ID = r.start, r.size, r.id
		if al.Place == driver.OnDevice {
			al.Start = r.alias
		}
	}
	return al
}

// Close implements driver.Driver.
func (d *Driver) Close() error {
	d.pool.close()
	d.quiesce.forget()
	errs := []error{d.virtual.close()}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.windows {
		if a := d.windows[i].Swap(nil); a != nil {
			errs = append(errs, a.Close())
		}
	}
	if a := d.host.Swap(nil); a != nil {
		d.lighten(a)
		errs = append(errs, a.Close())
	}
	if d.pinned != 0 {
		errs = append(errs, arena.Unreserve(d.pinned, d.pinnedWindow()))
		d.pinned = 0
	}
	if d.base != 0 {
		errs = append(errs, arena.Unreserve(d.base, uint64(len(d.windows))<<d.shift))
		d.base = 0
	}
	for s := range d.hosts.byHost.All() {
		errs = append(errs, s.Of.endShadow())
	}
	for s := range d.hosts.byAlias.All() {
		errs = append(errs, arena.Unreserve(s.Start, aliasBytes(s.Size)))
	}
	d.hosts.byAlias.Clear()
	d.hosts.byHost.Clear()
	d.files.Close()
	return errors.Join(errs...)
}
