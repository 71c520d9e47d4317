// Package cuda runs AscendCL on NVIDIA GPUs. It loads libcuda by name; neither cgo nor a CUDA toolkit is needed.
//
// Device memory is cuMemAlloc's, pinned memory cuMemHostAlloc's, and all of it has one address for everybody. A queue
// is a CUDA stream with a list in front of it: see queue. What CUDA cannot do on a stream by itself, host functions and
// copies between host memory, is done on the host when everything before it is over: see Driver.carry.
//
// Lock order: Driver.mu → exports.mu, then flag.order → Queue.Mu → flag.mu → Driver.gone → clock.mu → gpu.mu →
// inner.mu. pollers.mu comes after Queue.Mu and device.use after Driver.mu, and nothing after either. device.mu comes
// before module.mu, and that before Driver.mu; module.use is taken last. No lock is held while code outside is called,
// but for launches that are returned (driver.LaunchOwner).
package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/ranges"
)

// Options says how GPUs are used.
type Options struct {
	Devices int               // how many of the GPUs are used, at most; 0: all there are
	Share   bool              // there are as many devices as Devices says; where GPUs are fewer, some are the same GPU
	Memory  uint64            // bytes that a device has at most; 0: all that its GPU has, or its part of that
	Warn    func(text string) // receives warnings for the user, one line each; may be nil

	// Multiprocessors is how many percent of a GPU's multiprocessors the copies may take that kernels do, such as
	// batches of small segments. 0 is modest for copies between host and device, a few blocks that keep the link busy,
	// and all for those on the device.
	Multiprocessors int
}

// Driver implements driver.Driver.
type Driver struct {
	lib     api
	gpus    []*gpu // by physical device; immutable
	warn    func(string)
	percent int    // Options.Multiprocessors
	memory  uint64 // Options.Memory
	cores   int    // that Go uses

	own   ranges.Set[*block]        // device memory, pinned memory and device addresses of registered memory
	hosts ranges.Set[*registration] // registered memory
	past  ranges.Set[struct{}]      // what was in own once
	epoch atomic.Uint64             // see driver.Driver

	shares atomic.Bool // memory was shared: this process may have imported it, too, and found it another address

	moved atomic.Bool // there was memory whose address is not CUDA's; never reset

	virtual virtual

	waiting      atomic.Int32 // goroutines that wait for a queue or a flag
	polling      atomic.Int32 // runners that poll
	pendingAfter int          // see there; immutable
	pollers      pollers
	mostPollers  int    // at a time: a quarter of the cores; immutable
	mostTables   uint64 // see there; immutable

	// best is kernels.Best; immutable.
	best func(d kernels.Direction, s kernels.Share, beside, kernel, batched bool) kernels.Way

	// gone is held for reading from when memory is found to be there until work on it has been given to CUDA, and for
	// writing while memory goes. Freeing waits for the work by itself.
	gone sync.RWMutex

	mu     sync.Mutex // held while own and hosts change
	lastID uint64     // guarded by mu
	opened []bool     // guarded by mu
}

var (
	_ driver.Driver = (*Driver)(nil)
	_ driver.Placer = (*Driver)(nil)
)

// absent is why there are no GPUs to use, in one line. It is a driver.ErrUnsupported.
type absent string

func (a absent) Error() string { return string(a) }
func (a absent) Unwrap() error { return driver.ErrUnsupported }

// oldest is the first version of CUDA that has all that is called: 11.0.
const oldest = 11000

// New starts libcuda. Where there is no GPU the error wraps driver.ErrUnsupported and says in one line why.
func New(o Options) (*Driver, error) {
	lib, err := load()
	if err != nil {
		return nil, err
	}
	return start(lib, o)
}

func start(lib api, o Options) (*Driver, error) {
	if v, r := lib.version(); r == success && v < oldest {
		return nil, absent(fmt.Sprintf("the NVIDIA driver is for CUDA %d.%d, and 11.0 is needed", v/1000, v%1000/10))
	}
	n, r := lib.devices()
	if err := failed(lib, "cuDeviceGetCount", r); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, absent("there is no NVIDIA GPU")
	}
	gpus := n
	if o.Devices > 0 {
		n = min(n, o.Devices)
		if o.Share {
			n = o.Devices
		}
	}
	d := &Driver{lib: lib, warn: o.Warn, percent: min(max(o.Multiprocessors, 0), 100), memory: o.Memory,
		cores: runtime.GOMAXPROCS(0), opened: make([]bool, n)}
	d.pendingAfter, d.mostPollers, d.mostTables, d.best = pendingAfter, d.cores/4, mostTables, kernels.Best
	if d.warn == nil {
		d.warn = func(string) {}
	}
	for i := range n {
		d.gpus = append(d.gpus, &gpu{d: d, number: i, ordinal: i % gpus, sharers: (n - i%gpus + gpus - 1) / gpus})
	}
	return d, nil
}

// About says in one line which GPUs there are, or why there are none. It does not use them.
func About() (string, error) {
	d, err := New(Options{})
	if err != nil {
		return "", err
	}
	version, _ := d.lib.version()
	var names []string
	for i := range d.gpus {
		name, r := d.lib.deviceName(d.gpus[i].ordinal)
		if r != success {
			name = "unnamed"
		}
		names = append(names, name)
	}
	return fmt.Sprintf("%s (CUDA %d.%d)", strings.Join(names, ", "), version/1000, version%1000/10), nil
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return "cuda" }

// Devices implements driver.Driver.
func (d *Driver) Devices() int { return len(d.gpus) }

// Epoch implements driver.Driver.
func (d *Driver) Epoch() *atomic.Uint64 { return &d.epoch }

// NewFlag implements driver.Driver.
func (d *Driver) NewFlag() driver.Flag { return &flag{d: d} }

// Open implements driver.Driver. The context of a GPU stays until the driver is closed: pinned memory belongs to one. A
// GPU that was lost stays lost: CUDA has no new context for it in this process.
func (d *Driver) Open(i int) (driver.Device, error) {
	if i < 0 || i >= len(d.gpus) {
		return nil, fmt.Errorf("%w: no device %d, there are %d", driver.ErrUnsupported, i, len(d.gpus))
	}
	c := d.gpus[i]
	if err := c.healthy(); err != nil {
		return nil, fmt.Errorf("%w; another process can use it", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened[i] {
		return nil, fmt.Errorf("BUG: device %d opened twice", i)
	}
	if err := c.start(); err != nil {
		return nil, err
	}
	c.startClock()
	for _, other := range d.gpus {
		if other.ordinal != c.ordinal && other.context.Load() != 0 {
			c.enablePeer(other)
			other.enablePeer(c)
		}
	}
	c.enter()
	free, _, r := d.lib.memInfo()
	c.leave()
	if err := c.note("cuMemGetInfo", r); err != nil {
		return nil, err
	}
	d.opened[i] = true
	v := &device{d: d, gpu: c}
	v.mem.start, v.mem.limited = d.portion(c, free)
	c.device.Store(v)
	return v, nil
}

// portion is how much memory a device has whose GPU has so much free, and whether it may not have more: devices that
// are one GPU have equal parts of what is free there or theirs already. d.mu is held.
func (d *Driver) portion(c *gpu, free uint64) (total uint64, limited bool) {
	total = free
	if c.sharers > 1 {
		for _, o := range d.gpus {
			if v := o.device.Load(); v != nil && o.ordinal == c.ordinal {
				total += v.live()
			}
		}
		total /= uint64(c.sharers)
	}
	if d.memory > 0 {
		total = min(total, d.memory)
	}
	return total, c.sharers > 1 || d.memory > 0
}

// GPU implements driver.Placer.
func (d *Driver) GPU(device int) int { return d.gpus[device].ordinal }

// home is a GPU whose context pinned memory is made in: one that is in use anyway, or the first.
func (d *Driver) home() (*gpu, error) {
	for _, c := range d.gpus {
		if c.context.Load() != 0 && c.healthy() == nil {
			return c, nil
		}
	}
	return d.gpus[0], d.gpus[0].start()
}

// Locate implements driver.Driver.
func (d *Driver) Locate(addr uintptr) driver.Location {
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

// Page sizes as Describe returns them: what was asked for, since CUDA chooses its own.
const (
	hugePage = 2 << 20
	hostPage = 4096
)

// Describe implements driver.Driver.
func (d *Driver) Describe(addr uintptr) driver.Allocation {
	al := driver.Allocation{Location: d.Locate(addr), PageSize: hostPage}
	if al.Place == driver.Nowhere {
		return al
	}
	if s := d.own.Find(addr); s != nil {
		al.Start, al.Size, al.ID = s.Start, s.Of.size, s.Of.id
		if s.Of.huge {
			al.PageSize = hugePage
		}
	} else if s := d.hosts.Find(addr); s != nil {
		al.Start, al.Size, al.ID = s.Start, s.Size, s.Of.id
	}
	return al
}

// Close implements driver.Driver.
func (d *Driver) Close() error {
	for _, c := range d.gpus {
		c.unloadAll()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone.Lock()
	defer d.gone.Unlock()
	d.epoch.Add(1)
	errs := []error{d.closeVirtual()}
	for s := range d.hosts.All() {
		errs = append(errs, d.unpin(s.Of))
	}
	for s := range d.own.All() {
		if s.Of.kind == aliasBlock {
			errs = append(errs, arena.Unreserve(s.Start, aliasBytes(s.Size)))
		} else {
			errs = append(errs, d.release(s))
		}
	}
	d.own.Clear()
	d.hosts.Clear()
	d.past.Clear()
	for _, c := range d.gpus {
		errs = append(errs, c.stop())
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, driver.ErrLost) })...)
}
