// Package cuda runs AscendCL on NVIDIA GPUs. It calls libcuda through package libcuda; package gpu has the context of a
// GPU with its streams and events, package memory the memory of programs. This package passes work to streams.
//
// Device memory is cuMemAlloc's, pinned memory cuMemHostAlloc's, and all of it has one address for everybody. A queue
// is a CUDA stream with three things around it:
//
//   - the list of hostqueue: work that CUDA cannot do by itself, and all that comes after it. A goroutine, the runner,
//     does it when everything before it is over; see queue.
//   - pending copies: single copies in a row gather in the list and are given to the stream together; see pending.go.
//   - the fence: a number that the GPU writes to pinned memory after the work on the stream, when a thread waits for a
//     longer copy; see gpu.Fence.
//
// A kernel is put on the stream by the call that submits it. One that a stream is given again and again has a CUDA
// graph there (executable.go), and kernels of a model's program, with the small copies beside them, are one graph
// (sections.go). Binaries are modules, which are unloaded when nothing holds them and the streams have done what was on
// them.
//
// Lock order: memory.Device.mu → module.mu → Space.mu → exports.mu, then flag.order → Queue.Mu → flag.mu → Space.Gone →
// clock.mu → engine.mu → GPU.mu → inner.mu. pollers.mu comes after Queue.Mu, and memory.Device.use after Space.mu, and
// nothing after either; executable.use and module.use are taken last. No lock is held during calls of other packages'
// functions, except when launches are returned (driver.LaunchOwner).
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

// Options configures the use of GPUs.
type Options struct {
	Devices int               // most GPUs to use; 0: all
	Share   bool              // there are exactly Devices devices; with fewer GPUs, several are the same GPU
	Memory  uint64            // most bytes of a device; 0: all memory of its GPU, or its share of that
	Warn    func(text string) // receives warnings for the user, one line each; may be nil

	// Multiprocessors is the percentage of a GPU's multiprocessors that copies by kernels may use, such as batches of
	// small segments. 0 means a few blocks for copies between host and device, enough to keep the link busy, and all
	// for copies on the device.
	Multiprocessors int
}

// Driver implements driver.Driver.
type Driver struct {
	memory.Space

	lib     libcuda.API
	gpus    []*engine // by physical device; immutable
	warn    func(string)
	percent int // Options.Multiprocessors
	cores   int // number that Go uses

	waiting      atomic.Int32 // goroutines that wait for a queue or a flag
	polling      atomic.Int32 // runners that poll
	pendingAfter int          // immutable; see the constant
	pollers      pollers
	mostPollers  int    // most at a time: a quarter of the cores; immutable
	mostTables   uint64 // immutable; see the constant

	// best is kernels.Best; immutable.
	best func(d kernels.Direction, s kernels.Share, beside, kernel, batched bool) kernels.Way
}

var _ driver.Driver = (*Driver)(nil)

// oldest is the first version of CUDA that has all functions the driver needs: 11.0.
const oldest = 11000

// New starts libcuda. If there is no GPU, the error wraps driver.ErrUnsupported and gives the reason in one line.
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

// About returns a line that lists the GPUs, or the reason why there are none. It does not use them.
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

// Open implements driver.Driver. The context of a GPU stays until the driver is closed, because pinned memory belongs
// to it. A lost GPU stays lost: CUDA creates no new context for it in this process.
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

// Caps implements driver.Driver.
func (d *Driver) Caps() driver.Caps {
	return driver.Caps{Base: d, Map: d, Share: d, Managed: d, Words: d, Launch: d, KernelSteps: true, Sole: d.Sole,
		GPU: d.GPU}
}

// GPU is Caps.GPU.
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
