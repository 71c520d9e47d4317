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

// Kernels are functions of shared objects, in this process or in one of their own (process.go). They are given device
// addresses and follow them, so the windows of all devices are opened when the first binary is loaded, and what is
// mapped into reservations is mapped there for the program, too. Guarded memory is open only while a kernel runs, and
// only what is allocated.
//
// A launch of several blocks is a job with as many chunks as workers may take part: each calls the kernel for one block
// after the other until none is left. Threads that wait do not help: a kernel may not end. A launch of one block needs
// no job.

var _ driver.Launcher = (*Driver)(nil)

// kernels is what the driver knows of kernels.
type kernels struct {
	shown    atomic.Bool // device memory is to be open
	allShown atomic.Bool // it is
	cores    cores

	mu      sync.Mutex
	modules map[*module]struct{} // guarded by mu; that are loaded
	process kernel.Process       // guarded by mu; nil: there is none, or not yet

	running   int           // guarded by mu; launches for which guarded memory is open
	disturbed bool          // guarded by mu; there was more than one of them at a time
	over      chan struct{} // guarded by mu; closed when there is none any more; nil: nothing waits for that
}

// close ends the process of the kernels. None runs, and no binary is loaded.
func (k *kernels) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.process != nil {
		k.process.Close()
		k.process = nil
	}
}

// module implements driver.Module.
type module struct {
	d      *Driver
	cpu    kernel.CPU
	device int
	object kernel.SharedObject

	outside kernel.Process // cpu, if that runs kernels elsewhere; else nil

	// guarded by kernels.mu; its variables that were asked for; nil: it was unloaded
	mapped map[string]*ranges.Span[*mappedRange]
}

// Runs implements driver.Launcher.
func (d *Driver) Runs(f kernel.Format) bool { return f == kernel.Native || f == kernel.InProcess }

// LoadModule implements driver.Launcher.
func (d *Driver) LoadModule(device int, name string, image []byte) (driver.Module, error) {
	cpu, err := d.cpuFor(image)
	if err != nil {
		return nil, err
	}
	outside, _ := cpu.(kernel.Process)
	if outside == nil {
		if err := d.show(); err != nil {
			return nil, err
		}
	}
	o, err := cpu.Load(name, image)
	if err != nil {
		return nil, err
	}
	m := &module{d: d, cpu: cpu, outside: outside, device: device, object: o,
		mapped: map[string]*ranges.Span[*mappedRange]{}}
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

// show opens device memory, once. What is mapped or opened from here on sees shown.
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

// Global implements driver.Module. The variable is memory of the object; from now on it counts as memory of the device.
func (m *module) Global(symbol string, size uint64) (uintptr, error) {
	addr, err := m.variable(symbol)
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

// unloadAll takes the modules of a device away.
func (k *kernels) unloadAll(device int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for m := range k.modules {
		if m.device == device {
			m.unload()
		}
	}
}

// launch is what launches run in, one after the other; a queue has one. One goroutine owns it, others work in it.
type launch struct {
	cpu      kernel.CPU // immutable; whose run it is
	run      kernel.Run // immutable
	call     kernel.Call
	turn     atomic.Uint64 // what run knows the launch by
	together bool
	args     []byte     // a copy of them, where addresses had to be changed
	watched  *coreWatch // what its cores do is reported there; nil: to nobody
}

// work makes calls until none is left.
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

// stop ends the launch, if one runs.
func (l *launch) stop() { l.run.Stop(l.turn.Load(), false) }

// alone makes the calls in the goroutine that owns l.
func (l *launch) alone(q *queue) (err error) {
	if q != nil && q.Dropped() { // before its turn could be known to cancel
		return driver.ErrAborted
	}
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	l.work()
	return nil
}

// launchOf is what a launch on q runs in. The caller runs q, or q is nil.
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
	if err := d.reachArgs(l, m.outside != nil); errors.Is(err, driver.ErrFault) {
		return &driver.KernelError{Failure: driver.KernelException, Launch: o, Err: err}
	} else if err != nil {
		return err
	}
	if m.outside != nil {
		if err := m.outside.Show(d.views()); err != nil {
			return fmt.Errorf("kernels in a process of their own: %w", err)
		}
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
	if m.outside == nil {
		d.watchCores(l, q, op.Tag)
	}
	var err error
	if hands <= 1 || l.together || m.outside != nil {
		err = l.alone(q)
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

// failure is the error of a kernel that has failed.
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
	case f.Signal == 0 && !f.Barrier && !f.Lost && f.Result == 0:
		return driver.ErrAborted
	}
	return &driver.KernelError{Failure: kind, Launch: l, Err: f}
}

// reachArgs makes sure that a kernel reaches what its arguments name. Registered memory has a device address of its
// own, at which there is nothing on this CPU: it becomes the program's address, in a copy of the arguments.
func (d *Driver) reachArgs(l *launch, outside bool) error {
	r := &l.call
	if r.Size == 0 {
		return nil
	}
	at, err := d.resolve(r.Args, r.Size, true)
	if err != nil {
		return err
	}
	if d.hosts.byAlias.Empty() || outside { // elsewhere the program's addresses lead to nothing either
		return nil
	}
	return d.unalias(l, at)
}

// keptArgs is how many bytes of a copy of arguments are kept for the next one.
const keptArgs = 1 << 20

// unalias replaces device addresses of registered memory in the arguments, which are at an address that the program
// gave. Arguments without such an address stay where they are.
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
