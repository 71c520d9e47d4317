package cuda

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/kernel"
	"ropeway/internal/ranges"
)

// Binaries of programs are modules of CUDA. A module is unloaded when the program has unloaded it, nothing that is
// queued holds it, and the GPU has done all that was on its streams by then. Variables of a module are device memory
// like any other while it is loaded.

var (
	_ driver.Launcher  = (*Driver)(nil)
	_ driver.Describer = (*module)(nil)
)

// module implements driver.Module.
type module struct {
	c      *gpu    // immutable
	handle uintptr // immutable; CUDA's
	life   uint64  // immutable; of the GPU

	functions atomic.Pointer[map[uintptr]*function] // by code; replaced, never changed

	mu      sync.Mutex
	globals map[string]*ranges.Span[*block] // guarded by mu; variables that were asked for, which are in Driver.own

	use   sync.Mutex // taken last: a launch that is over calls Release
	holds int        // guarded by use; launches that are queued
	ended bool       // guarded by use; Unload was called
}

// function is a function of a module. All but shared is immutable.
type function struct {
	code    uintptr
	name    string
	threads uint32         // of a block, unless a launch says otherwise
	params  []kernel.Param // if known
	known   bool
	bytes   uint64        // of all parameters
	shared  atomic.Uint32 // bytes of dynamic shared memory that it may have
}

// freeShared is how much dynamic shared memory every kernel may have.
const freeShared = 48 << 10

// Runs implements driver.Launcher.
func (d *Driver) Runs(f kernel.Format) bool {
	return f == kernel.PTX || f == kernel.Cubin || f == kernel.Fatbin
}

// LoadModule implements driver.Launcher. PTX is compiled, which takes a while; CUDA keeps what comes out in a cache of
// its own.
func (d *Driver) LoadModule(device int, name string, image []byte) (driver.Module, error) {
	if device < 0 || device >= len(d.gpus) {
		return nil, fmt.Errorf("%w: no device %d", driver.ErrUnsupported, device)
	}
	c := d.gpus[device]
	v := c.device.Load()
	if v == nil {
		return nil, fmt.Errorf("%w: device %d", driver.ErrClosed, device)
	}
	v.mu.RLock() // so that it is not closed meanwhile
	defer v.mu.RUnlock()
	if v.closed {
		return nil, fmt.Errorf("%w: device %d", driver.ErrClosed, device)
	}
	if err := c.healthy(); err != nil {
		return nil, err
	}
	c.enter()
	handle, log, r := d.lib.loadModule(image)
	c.leave()
	if r != success {
		return nil, c.notLoaded(name, image, log, r)
	}
	m := &module{c: c, handle: handle, life: c.life.Load(), globals: map[string]*ranges.Span[*block]{}}
	m.functions.Store(&map[uintptr]*function{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.modules == nil {
		c.modules = map[*module]struct{}{}
	}
	c.modules[m] = struct{}{}
	return m, nil
}

// notLoaded says why a binary cannot be loaded, and what to do about it.
func (c *gpu) notLoaded(name string, image []byte, log string, r result) error {
	err := c.note("cuModuleLoadData", r)
	advice := ""
	switch r {
	case noBinary:
		major, minor, _ := c.d.lib.capability(c.ordinal)
		advice = fmt.Sprintf("it has no code for this GPU: compile it with -arch=sm_%d%d, or to PTX", major, minor)
	case newerPTX:
		version, _ := c.d.lib.version()
		advice = fmt.Sprintf("the PTX is of a newer CUDA than that of the NVIDIA driver, %d.%d: compile it with that, "+
			"or to a cubin", version/1000, version%1000/10)
	case noCompiler:
		advice = "the NVIDIA driver has no compiler for PTX: compile it to a cubin"
	case invalidImage, invalidPTX, invalidSource:
		advice = "this is not what nvcc -ptx, -cubin or -fatbin writes"
	default:
		return fmt.Errorf("%s: %w", name, err)
	}
	if log != "" {
		advice += "; the compiler says: " + log
	}
	return fmt.Errorf("%w: %s, %v: %v: %s", kernel.ErrImage, name, kernel.FormatOf(image), err, advice)
}

// Code implements driver.Module: it is CUDA's function.
func (m *module) Code(symbol string) (uintptr, error) {
	c := m.c
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.loaded(); err != nil {
		return 0, err
	}
	c.enter()
	defer c.leave()
	lib := c.d.lib
	code, r := lib.kernel(m.handle, symbol)
	if r == notFound {
		return 0, fmt.Errorf("the binary has no kernel %q; extern \"C\" keeps the name of a function in C++", symbol)
	}
	if err := c.note("cuModuleGetFunction", r); err != nil {
		return 0, err
	}
	all := *m.functions.Load()
	if all[code] != nil {
		return code, nil
	}
	f := &function{code: code, name: symbol}
	f.shared.Store(freeShared)
	n, r := lib.maxThreads(code)
	if r != success || n <= 0 {
		n = 1
	}
	f.threads = uint32(n)
	if f.params, r = lib.params(code); r == success {
		f.known = true
		for _, p := range f.params {
			f.bytes = max(f.bytes, uint64(p.Offset)+uint64(p.Size))
		}
	}
	all = maps.Clone(all)
	all[code] = f
	m.functions.Store(&all)
	return code, nil
}

// Params implements driver.Describer.
func (m *module) Params(code uintptr) ([]kernel.Param, bool) {
	if f := (*m.functions.Load())[code]; f != nil {
		return f.params, f.known
	}
	return nil, false
}

// Variable implements driver.Describer.
func (m *module) Variable(symbol string) (uint64, bool) {
	_, n, err := m.find(symbol)
	return n, err == nil
}

// find is where CUDA has put a variable.
func (m *module) find(symbol string) (uintptr, uint64, error) {
	c := m.c
	c.enter()
	defer c.leave()
	addr, n, r := c.d.lib.global(m.handle, symbol)
	if r == notFound {
		return 0, 0, fmt.Errorf("the binary has no variable %q", symbol)
	}
	return addr, n, c.note("cuModuleGetGlobal", r)
}

// Global implements driver.Module. From now on the variable is device memory.
func (m *module) Global(symbol string, _ uint64) (uintptr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.loaded(); err != nil {
		return 0, err
	}
	if s := m.globals[symbol]; s != nil {
		return s.Start, nil
	}
	addr, n, err := m.find(symbol)
	if err != nil || n == 0 {
		return addr, err
	}
	d := m.c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.own.Overlap(addr, n); s != nil { // another name of the same variable
		return addr, nil
	}
	d.insertLocked(addr, 0, &block{kind: globalBlock, size: n, device: int32(m.c.number)})
	m.globals[symbol] = d.own.Find(addr)
	return addr, nil
}

// loaded fails if Unload was called.
func (m *module) loaded() error {
	m.use.Lock()
	defer m.use.Unlock()
	if m.ended {
		return fmt.Errorf("%w: the binary was unloaded", driver.ErrClosed)
	}
	return nil
}

// Hold implements driver.Module.
func (m *module) Hold() {
	m.use.Lock()
	m.holds++
	m.use.Unlock()
}

// Release implements driver.Module. It does not wait.
func (m *module) Release() {
	m.use.Lock()
	m.holds--
	over := m.ended && m.holds == 0
	m.use.Unlock()
	if over {
		m.remove()
	}
}

// Unload implements driver.Module.
func (m *module) Unload() {
	d := m.c.d
	d.pollers.flush()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.use.Lock()
	again, over := m.ended, m.holds == 0
	m.ended = true
	m.use.Unlock()
	if again {
		return
	}
	if len(m.globals) > 0 {
		d.mu.Lock()
		d.gone.Lock()
		for _, s := range m.globals {
			d.own.Remove(s)
			d.forget(s)
		}
		d.gone.Unlock()
		d.mu.Unlock()
		d.epoch.Add(1)
		m.globals = nil
	}
	if over {
		m.remove()
	}
}

// remove takes the module off the GPU, once all is over that is on streams now: kernels of it may be among that.
func (m *module) remove() {
	c := m.c
	c.runners.Add(1)
	hostqueue.Go(func() {
		defer c.runners.Done()
		c.mu.Lock()
		_, there := c.modules[m]
		there = there && c.life.Load() == m.life
		delete(c.modules, m)
		c.mu.Unlock()
		if !there {
			return
		}
		c.enter()
		defer c.leave()
		r := c.d.lib.settle()
		if r == success {
			c.dropExecutables(func(x *executable) bool { return slices.Contains(x.modules, m) })
			r = c.d.lib.unloadModule(m.handle)
		}
		c.note("cuModuleUnload", r) //nolint:errcheck // what is lost is noted
	})
}

// unloadAll unloads the modules of a device that is being closed.
func (c *gpu) unloadAll() {
	c.mu.Lock()
	all := maps.Clone(c.modules)
	c.mu.Unlock()
	for m := range all {
		m.Unload()
	}
	c.runners.Wait()
}
