package soft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/kernel"
	"ropeway/internal/ranges"
)

// Kernels are functions of shared objects or of the program. They dereference device addresses, so loading the first
// binary opens the windows of all devices and maps the memory in reservations for the program, too. Guarded memory is
// open only where it is allocated and only while a kernel runs.
//
// A launch of several blocks is a job with one chunk for each worker that may take part; a worker calls the kernel for
// one block after another until none is left. Waiting threads do not help, because a kernel may never end. A launch of
// one block needs no job.

var _ driver.Launcher = (*Driver)(nil)

// kernels holds the driver's state of kernels.
type kernels struct {
	shown    atomic.Bool // device memory has to be open
	allShown atomic.Bool // all device memory is open
	cores    cores

	afterDrop time.Duration // immutable; see afterDrop

	mu      sync.Mutex
	modules map[*module]struct{} // guarded by mu; the loaded ones

	running   int           // guarded by mu; launches for which guarded memory is open
	disturbed bool          // guarded by mu; several of them ran at the same time
	over      chan struct{} // guarded by mu; closed when running becomes 0; nil: nobody waits
}

// module implements driver.Module.
type module struct {
	d      *Driver
	cpu    kernel.CPU
	device int
	object kernel.SharedObject

	// guarded by kernels.mu; its variables that were asked for; nil: it was unloaded
	mapped map[string]*ranges.Span[*mappedRange]
}

// Runs implements driver.Launcher.
func (d *Driver) Runs(f kernel.Format) bool { return f == kernel.Native || f == kernel.InProcess }

// LoadModule implements driver.Launcher.
func (d *Driver) LoadModule(device int, name string, image []byte) (driver.Module, error) {
	cpu, err := kernel.OnCPU(image)
	if err != nil {
		return nil, err
	}
	if err := d.show(); err != nil {
		return nil, err
	}
	o, err := cpu.Load(name, image)
	if err != nil {
		return nil, err
	}
	m := &module{d: d, cpu: cpu, device: device, object: o, mapped: map[string]*ranges.Span[*mappedRange]{}}
	k := &d.kernels
	k.mu.Lock()
	if k.modules == nil {
		k.modules = map[*module]struct{}{}
	}
	k.modules[m] = struct{}{}
	k.mu.Unlock()
	d.mu.Lock()
	open := device >= 0 && device < len(d.opened) && d.opened[device] != nil
	d.mu.Unlock()
	if !open {
		m.Unload()
		return nil, fmt.Errorf("%w: device %d", driver.ErrClosed, device)
	}
	return m, nil
}

// show opens device memory, once. Later mappings and devices look at shown.
func (d *Driver) show() error {
	k := &d.kernels
	if k.allShown.Load() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k.shown.Store(true)
	var errs []error
	for i := range d.windows {
		if a := d.windows[i].Load(); a != nil && !d.guard {
			errs = append(errs, a.Show())
		}
	}
	d.virtual.mu.Lock()
	defer d.virtual.mu.Unlock()
	for m := range d.virtual.memories {
		for _, at := range m.at {
			errs = append(errs, at.show())
		}
	}
	err := errors.Join(errs...)
	k.allShown.Store(err == nil)
	return err
}

func (m *module) Code(symbol string) (uintptr, error) { return m.object.Symbol(symbol) }

// Global implements driver.Module. The variable is memory of the object; from now on it also counts as memory of the
// device.
func (m *module) Global(symbol string, size uint64) (uintptr, error) {
	addr, err := m.object.Symbol(symbol)
	if err != nil {
		return 0, err
	}
	k := &m.d.kernels
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.mapped == nil {
		return 0, fmt.Errorf("%w: the binary was unloaded", driver.ErrClosed)
	}
	if m.mapped[symbol] != nil || size == 0 {
		return addr, nil
	}
	v := &m.d.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mapped.Overlap(addr, size) != nil { // another name of the same variable
		return addr, nil
	}
	all := newArea(addr, (size+extent-1)/extent*extent, 0)
	for i := range all.ready {
		all.ready[i].Store(^uint32(0))
	}
	s := &ranges.Span[*mappedRange]{Start: addr, Size: size, Of: &mappedRange{
		area: &all, place: driver.OnDevice, device: int32(m.device), page: pageSize, id: v.newID(),
	}}
	v.mapped.Insert(s)
	m.mapped[symbol] = s
	return addr, nil
}

// Params and Variable implement driver.Module. A shared object does not describe its kernels.
func (m *module) Params(uintptr) ([]kernel.Param, bool) { return nil, false }
func (m *module) Variable(string) (uint64, bool)        { return 0, false }

func (m *module) Hold()    { m.object.Hold() }
func (m *module) Release() { m.object.Release() }

// Unload implements driver.Module.
func (m *module) Unload() {
	k := &m.d.kernels
	k.mu.Lock()
	defer k.mu.Unlock()
	m.unload()
}

// unload is Unload. kernels.mu is held.
func (m *module) unload() {
	if m.mapped == nil {
		return
	}
	delete(m.d.kernels.modules, m)
	v := &m.d.virtual
	v.mu.Lock()
	m.d.epoch.Add(1) // see device.Free
	for _, s := range m.mapped {
		v.mapped.Remove(s)
	}
	m.d.epoch.Add(1)
	v.mu.Unlock()
	m.mapped = nil
	m.object.Close()
}

// unloadAll unloads the modules of a device.
func (k *kernels) unloadAll(device int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for m := range k.modules {
		if m.device == device {
			m.unload()
		}
	}
}

// launch runs launches, one after another; a queue has one. One goroutine owns it, others help.
type launch struct {
	cpu      kernel.CPU // immutable; created run
	run      kernel.Run // immutable
	call     kernel.Call
	turn     atomic.Uint64 // identifies the launch to run
	together bool
	args     []byte     // buffer for arguments in which addresses were changed
	watched  *coreWatch // receives the work of its cores; may be nil
}

// work runs blocks until none is left.
func (l *launch) work() {
	switch {
	case l.together:
		l.run.Together(l.hand)
	case l.watched != nil:
		l.hand()
	default:
		l.run.Work(nil)
	}
}

// afterDrop is the time a kernel may continue after it was dropped: a short one completes, as on hardware.
const afterDrop = 50 * time.Millisecond

// drop stops the running launch, if there is one, after a time.
func (l *launch) drop(after time.Duration) {
	turn := l.turn.Load()
	time.AfterFunc(after, func() { l.run.Stop(turn, false) })
}

// alone runs the blocks in the goroutine that owns l.
func (l *launch) alone() (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	l.work()
	return nil
}

// launchOf returns the launch of q for cpu, a new one if q is nil. The caller runs q.
func (d *Driver) launchOf(q *queue, cpu kernel.CPU) *launch {
	if q == nil {
		return &launch{cpu: cpu, run: cpu.NewRun()}
	}
	l := q.launch.Load()
	if l == nil || l.cpu != cpu {
		l = &launch{cpu: cpu, run: cpu.NewRun()}
		q.launch.Store(l)
	}
	return l
}

// launch runs a kernel, with the workers.
func (d *Driver) launch(op *driver.Op, q *queue) error {
	o := op.Launch
	m, ok := o.Module.(*module)
	if !ok || m.d != d {
		return fmt.Errorf("BUG: %w: a kernel of another driver", driver.ErrUnsupported)
	}
	l := d.launchOf(q, m.cpu)
	l.call = kernel.Call{
		Code: o.Code, Per: o.Per, Blocks: o.Blocks, First: o.First, Grid: o.Grid, Threads: o.Threads, Args: o.Args,
		Size: o.Size, Watch: o.Touched != nil, ByAddress: o.ByAddress,
	}
	if err := d.reachArgs(l); errors.Is(err, driver.ErrFault) {
		return &driver.KernelError{Failure: driver.KernelException, Launch: o, Err: err}
	} else if err != nil {
		return err
	}
	if d.guard {
		end := d.unveil(o.Seen != nil)
		defer func() { d.veil(o, end) }()
	}
	turn := l.run.Begin(m.object, &l.call)
	l.turn.Store(turn)
	calls := l.call.Calls()
	l.together = calls > 1 && (o.Together || o.Per[0] > 0 && o.Per[1] > 0)
	if o.Limit > 0 {
		timer := time.AfterFunc(o.Limit, func() { l.run.Stop(turn, true) })
		defer timer.Stop()
	}
	hands := min(calls, uint64(d.pool.max))
	d.watchCores(l, q, op)
	if q != nil && q.Dropped() { // before its turn could be known to cancel
		l.drop(d.kernels.afterDrop)
	}
	var err error
	if hands <= 1 || l.together {
		err = l.alone()
	} else {
		j := d.newJob(op, false)
		j.kernel, j.chunks = l, int64(hands)
		err = d.share(j, d.pool.max, q)
	}
	f := l.run.End()
	if o.Touched != nil {
		o.Touched(l.run.Touched())
	}
	if f != nil && (err == nil || f.Late) {
		return d.failure(o, f)
	}
	return err
}

// failure returns the error for a kernel that failed with f.
func (d *Driver) failure(l *driver.Launch, f *kernel.Fault) error {
	kind := driver.KernelException
	switch {
	case f.Late:
		kind = driver.KernelTimeout
	case f.Err != nil || f.Ended ||
		f.Signal == syscall.SIGILL || f.Signal == syscall.SIGTRAP || f.Signal == syscall.SIGABRT:
		kind = driver.KernelTrap
	case f.Address != 0 && (d.isWindow(uintptr(f.Address)) || d.virtual.reserved.Find(uintptr(f.Address)) != nil):
		kind = driver.KernelMemory
	case f.Signal == 0 && !f.Barrier && f.Result == 0:
		return driver.ErrAborted
	}
	return &driver.KernelError{Failure: kind, Launch: l, Err: f}
}

// reachArgs makes sure that a kernel can use the addresses in its arguments. Nothing is mapped at the device addresses
// of registered memory; a copy of the arguments has host addresses instead.
func (d *Driver) reachArgs(l *launch) error {
	r := &l.call
	if r.Size == 0 {
		return nil
	}
	at, err := d.resolve(r.Args, r.Size, true)
	if err != nil {
		return err
	}
	if d.hosts.byAlias.Empty() {
		return nil
	}
	return d.unalias(l, at)
}

// keptArgs is the largest buffer for arguments that is kept for the next launch.
const keptArgs = 1 << 20

// unalias replaces device addresses of registered memory by host addresses in a copy of the arguments at the engine
// address at. Arguments without such an address are not copied.
func (d *Driver) unalias(l *launch, at uintptr) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	if cap(l.args) > keptArgs {
		l.args = nil
	}
	args, changed := bytesAt(at, l.call.Size), false
	for i := 0; i+8 <= len(args); i += 8 {
		addr := uintptr(binary.LittleEndian.Uint64(args[i:]))
		s := d.hosts.byAlias.Find(addr)
		if s == nil {
			continue
		}
		if !changed {
			args, changed = append(l.args[:0], args...), true
		}
		binary.LittleEndian.PutUint64(args[i:], uint64(s.Of.host(addr)))
	}
	if changed {
		l.args = args
		l.call.Args = addressOf(args)
	}
	return nil
}
