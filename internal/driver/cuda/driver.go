// Package cuda runs AscendCL on NVIDIA GPUs. It calls libcuda through package libcuda; package gpu has the context of a
// GPU with its streams and events, package memory the memory that programs have. What is here gives work to streams.
//
// Device memory is cuMemAlloc's, pinned memory cuMemHostAlloc's, and all of it has one address for everybody. A queue
// is a CUDA stream with a list in front of it: see queue. What CUDA cannot do on a stream by itself, host functions and
// copies between host memory, is done on the host when everything before it is over: see Driver.carry.
//
// Lock order: memory.Device.mu → module.mu → Space.mu → exports.mu, then flag.order → Queue.Mu → flag.mu → Space.Gone →
// clock.mu → engine.mu → GPU.mu → inner.mu. pollers.mu comes after Queue.Mu, and memory.Device.use after Space.mu, and
// nothing after either; executable.use and module.use are taken last. No lock is held while code outside is called, but
// for launches that are returned (driver.LaunchOwner).
package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/cuda/memory"
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
	memory.Space

	lib     libcuda.API
	gpus    []*engine // by physical device; immutable
	warn    func(string)
	percent int // Options.Multiprocessors
	cores   int // that Go uses

	waiting      atomic.Int32 // goroutines that wait for a queue or a flag
	polling      atomic.Int32 // runners that poll
	pendingAfter int          // see there; immutable
	pollers      pollers
	mostPollers  int    // at a time: a quarter of the cores; immutable
	mostTables   uint64 // see there; immutable

	// best is kernels.Best; immutable.
	best func(d kernels.Direction, s kernels.Share, beside, kernel, batched bool) kernels.Way
}

var (
	_ driver.Driver = (*Driver)(nil)
	_ driver.Placer = (*Driver)(nil)
)

// oldest is the first version of CUDA that has all that is called: 11.0.
const oldest = 11000

// New starts libcuda. Where there is no GPU the error wraps driver.ErrUnsupported and says in one line why.
func New(o Options) (*Driver, error) {
	lib, err := libcuda.Load()
	if err != nil {
		return nil, err
	}
	return start(lib, o)
}

func start(lib libcuda.API, o Options) (*Driver, error) {
	if v, r := lib.DriverVersion(); r == libcuda.Success && v < oldest {
		return nil, libcuda.Absent(fmt.Sprintf("the NVIDIA driver is for CUDA %d.%d, and 11.0 is needed", v/1000,
			v%1000/10))
	}
	n, r := lib.DeviceCount()
	if err := libcuda.Failed(lib, "cuDeviceGetCount", r); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, libcuda.Absent("there is no NVIDIA GPU")
	}
	gpus := n
	if o.Devices > 0 {
		n = min(n, o.Devices)
		if o.Share {
			n = o.Devices
		}
	}
	d := &Driver{lib: lib, warn: o.Warn, percent: min(max(o.Multiprocessors, 0), 100), cores: runtime.GOMAXPROCS(0)}
	d.pendingAfter, d.mostPollers, d.mostTables, d.best = pendingAfter, d.cores/4, mostTables, kernels.Best
	if d.warn == nil {
		d.warn = func(string) {}
	}
	var bare []*gpu.GPU
	for i := range n {
		c := &engine{d: d}
		c.Init(lib, i, i%gpus, (n-i%gpus+gpus-1)/gpus, d.warn)
		d.gpus, bare = append(d.gpus, c), append(bare, &c.GPU)
	}
	d.Space.Init(lib, bare, o.Memory, d.pollers.flush)
	return d, nil
}

// About says in one line which GPUs there are, or why there are none. It does not use them.
func About() (string, error) {
	d, err := New(Options{})
	if err != nil {
		return "", err
	}
	version, _ := d.lib.DriverVersion()
	var names []string
	for i := range d.gpus {
		name, r := d.lib.DeviceName(d.gpus[i].Ordinal)
		if r != libcuda.Success {
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

// NewFlag implements driver.Driver.
func (d *Driver) NewFlag() driver.Flag { return &flag{d: d} }

// Open implements driver.Driver. The context of a GPU stays until the driver is closed: pinned memory belongs to one. A
// GPU that was lost stays lost: CUDA has no new context for it in this process.
func (d *Driver) Open(i int) (driver.Device, error) {
	if i < 0 || i >= len(d.gpus) {
		return nil, fmt.Errorf("%w: no device %d, there are %d", driver.ErrUnsupported, i, len(d.gpus))
	}
	c := d.gpus[i]
	if err := c.Healthy(); err != nil {
		return nil, fmt.Errorf("%w; another process can use it", err)
	}
	v, err := d.Space.OpenDevice(i)
	if err != nil {
		return nil, err
	}
	return &device{Device: v, d: d, gpu: c}, nil
}

// GPU implements driver.Placer.
func (d *Driver) GPU(device int) int { return d.gpus[device].Ordinal }

// Close implements driver.Driver.
func (d *Driver) Close() error {
	for _, c := range d.gpus {
		c.unloadAll()
	}
	err := d.Space.Close()
	for _, c := range d.gpus {
		if e := c.stop(); !errors.Is(e, driver.ErrLost) {
			err = errors.Join(err, e)
		}
	}
	return err
}
