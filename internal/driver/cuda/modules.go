package cuda

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/kernel"
)

// Binaries of programs are modules of CUDA. A module is unloaded when the program has unloaded it, no queued launch
// holds it, and the GPU has finished all work that was on its streams at that time. While it is loaded, variables of a
// module are device memory like any other.

// module implements driver.Module.
type module struct {
	c      *engine // immutable
	handle uintptr // immutable; CUDA's
	life   uint64  // immutable; of the GPU

	functions atomic.Pointer[map[uintptr]*function] // by code; replaced, never changed

	mu      sync.Mutex
	globals map[string]uintptr // guarded by mu; variables that were asked for and are device memory now

	use   sync.Mutex // taken last, as a launch that is over calls Release
	holds int        // guarded by use; queued launches
	ended bool       // guarded by use; Unload was called
}

// function is a function of a module. All but shared is immutable.
type function struct {
	code    uintptr
	name    string
	threads uint32         // threads of a block, unless a launch has its own number
	params  []kernel.Param // if known
	known   bool
	bytes   uint64        // of all parameters
	shared  atomic.Uint32 // most bytes of dynamic shared memory it may use
}

// freeShared is the dynamic shared memory that every kernel may use.
const freeShared = 48 << 10

// Runs implements driver.Launcher.
func (d *Driver) Runs(f kernel.Format) bool {
	return f == kernel.PTX || f == kernel.Cubin || f == kernel.Fatbin
}

// LoadModule implements driver.Launcher. CUDA compiles PTX, which takes a while, and caches the result.
func (d *Driver) LoadModule(device int, name string, image []byte) (driver.Module, error) {
	if device < 0 || device >= len(d.gpus) {
		return nil, fmt.Errorf("%w: no device %d", driver.ErrUnsupported, device)
	}
	c := d.gpus[device]
	release, err := d.Hold(device)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := c.Healthy(); err != nil {
		return nil, err
	}
	c.Enter()
	handle, log, r := d.lib.ModuleLoad(image)
	c.Leave()
	if r != libcuda.Success {
		return nil, c.notLoaded(name, image, log, r)
	}
	m := &module{c: c, handle: handle, life: c.Life(), globals: map[string]uintptr{}}
	m.functions.Store(&map[uintptr]*function{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.modules == nil {
		c.modules = map[*module]struct{}{}
	}
	c.modules[m] = struct{}{}
	return m, nil
}

// notLoaded returns the error of a binary that cannot be loaded, with advice.
func (c *engine) notLoaded(name string, image []byte, log string, r libcuda.Result) error {
	err := c.Note("cuModuleLoadData", r)
	advice := ""
	switch r {
	case libcuda.NoBinary:
		major, minor, _ := c.d.lib.Capability(c.Ordinal)
		advice = fmt.Sprintf("it has no code for this GPU: compile it with -arch=sm_%d%d, or to PTX", major, minor)
	case libcuda.NewerPTX:
		version, _ := c.d.lib.DriverVersion()
		advice = fmt.Sprintf("the PTX is of a newer CUDA than that of the NVIDIA driver, %d.%d: compile it with that, "+
			"or to a cubin", version/1000, version%1000/10)
	case libcuda.NoCompiler:
		advice = "the NVIDIA driver has no compiler for PTX: compile it to a cubin"
	case libcuda.InvalidImage, libcuda.InvalidPTX, libcuda.InvalidSource:
		advice = "this is not what nvcc -ptx, -cubin or -fatbin writes"
	default:
		return fmt.Errorf("%s: %w", name, err)
	}
	if log != "" {
		advice += "; the compiler says: " + log
	}
	return fmt.Errorf("%w: %s, %v: %v: %s", kernel.ErrImage, name, kernel.FormatOf(image), err, advice)
}

// Code implements driver.Module. It returns CUDA's function.
func (m *module) Code(symbol string) (uintptr, error) {
	c := m.c
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.loaded(); err != nil {
		return 0, err
	}
	c.Enter()
	defer c.Leave()
	lib := c.d.lib
	code, r := lib.ModuleFunction(m.handle, symbol)
	if r == libcuda.NotFound {
		return 0, fmt.Errorf("the binary has no kernel %q; extern \"C\" keeps the name of a function in C++", symbol)
	}
	if err := c.Note("cuModuleGetFunction", r); err != nil {
		return 0, err
	}
	all := *m.functions.Load()
	if all[code] != nil {
		return code, nil
	}
	f := &function{code: code, name: symbol}
	f.shared.Store(freeShared)
	n, r := lib.FuncMaxThreads(code)
	if r != libcuda.Success || n <= 0 {
		n = 1
	}
	f.threads = uint32(n)
	if f.params, r = lib.FuncParams(code); r == libcuda.Success {
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

// Params implements driver.Module.
func (m *module) Params(code uintptr) ([]kernel.Param, bool) {
	if f := (*m.functions.Load())[code]; f != nil {
		return f.params, f.known
	}
	return nil, false
}

// Variable implements driver.Module.
func (m *module) Variable(symbol string) (uint64, bool) {
	_, n, err := m.find(symbol)
	return n, err == nil
}

// find returns CUDA's address and the size of a variable.
func (m *module) find(symbol string) (uintptr, uint64, error) {
	c := m.c
	c.Enter()
	defer c.Leave()
	addr, n, r := c.d.lib.ModuleGlobal(m.handle, symbol)
	if r == libcuda.NotFound {
		return 0, 0, fmt.Errorf("the binary has no variable %q", symbol)
	}
	return addr, n, c.Note("cuModuleGetGlobal", r)
}

// Global implements driver.Module. From now on the variable is device memory.
func (m *module) Global(symbol string, _ uint64) (uintptr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.loaded(); err != nil {
		return 0, err
	}
	if addr := m.globals[symbol]; addr != 0 {
		return addr, nil
	}
	addr, n, err := m.find(symbol)
	if err != nil || n == 0 {
		return addr, err
	}
	if m.c.d.InsertGlobal(addr, n, m.c.Number) { // else it is another name of the same variable
		m.globals[symbol] = addr
	}
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
		d.RemoveGlobals(maps.Values(m.globals))
		m.globals = nil
	}
	if over {
		m.remove()
	}
}

// remove unloads the module from the GPU when all work now on the streams, which may include its kernels, is over.
func (m *module) remove() {
	c := m.c
	c.runners.Add(1)
	hostqueue.Go(func() {
		defer c.runners.Done()
		c.mu.Lock()
		_, there := c.modules[m]
		there = there && c.Life() == m.life
		delete(c.modules, m)
		c.mu.Unlock()
		if !there {
			return
		}
		c.Enter()
		defer c.Leave()
		r := c.d.lib.CtxSynchronize()
		if r == libcuda.Success {
			c.dropExecutables(func(x *executable) bool { return slices.Contains(x.modules, m) })
			r = c.d.lib.ModuleUnload(m.handle)
		}
		c.Note("cuModuleUnload", r) //nolint:errcheck // Note records a loss
	})
}

// unloadAll unloads the modules of a device that is being closed.
func (c *engine) unloadAll() {
	c.mu.Lock()
	all := maps.Clone(c.modules)
	c.mu.Unlock()
	for m := range all {
		m.Unload()
	}
	c.runners.Wait()
}
