package cuda

import (
	"encoding/binary"
	"regexp"

	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/kernel"
)

// fakeModule is a binary of a program: its entries, each with the size of its parameters, and its variable.
type fakeModule struct {
	gpu     int
	entries map[string]int
	scale   uintptr // device memory; 0: there is no such variable
}

// fakeFunction is an entry of a module.
type fakeFunction struct {
	name   string
	params int
	of     uintptr
}

// fakeModules is what the fake knows of binaries. All is guarded by fake.mu.
type fakeModules struct {
	modules   map[uintptr]*fakeModule
	functions map[uintptr]*fakeFunction
	unloaded  int
	shapes    []libcuda.Shape // as kernels of programs were launched
	keepShape bool            // set before anything runs
	known     bool            // it is a libcuda that knows parameters; set before anything runs
}

var (
	fakeEntry  = regexp.MustCompile(`(?s)\.entry (\w+)\(([^)]*)\)`)
	fakeParam  = regexp.MustCompile(`\.param`)
	fakeThread = 256
)

func (f *fake) Capability(int) (major, minor int, r libcuda.Result) { return 9, 0, libcuda.Success }

// ModuleLoad takes our own kernels, PTX with an entry, and what begins like a cubin or a fatbin.
func (f *fake) ModuleLoad(image []byte) (uintptr, string, libcuda.Result) {
	entries := fakeEntry.FindAllSubmatch(image, -1)
	if len(entries) == 0 {
		return 0, "line 1: it has no entry", libcuda.InvalidPTX
	}
	if string(entries[0][1]) == fakeNames[0] {
		return 1, "", libcuda.Success
	}
	m := &fakeModule{entries: map[string]int{}}
	for _, e := range entries {
		m.entries[string(e[1])] = 8 * len(fakeParam.FindAll(e[2], -1))
	}
	scale, r := f.MemAlloc(4)
	if r != libcuda.Success {
		return 0, "", r
	}
	binary.LittleEndian.PutUint32(bytesAt(scale, 4), 3)
	m.scale = scale
	f.mu.Lock()
	defer f.mu.Unlock()
	m.gpu, _ = f.here()
	f.last++
	if f.modules == nil {
		f.modules, f.functions = map[uintptr]*fakeModule{}, map[uintptr]*fakeFunction{}
	}
	f.modules[f.last] = m
	return f.last, "", libcuda.Success
}

func (f *fake) ModuleUnload(module uintptr) libcuda.Result {
	f.mu.Lock()
	m := f.modules[module]
	if m == nil {
		f.mu.Unlock()
		if module != 1 {
			panic("BUG: a module is unloaded that is not there")
		}
		return libcuda.Success
	}
	delete(f.modules, module)
	f.unloaded++
	f.mu.Unlock()
	return f.MemFree(m.scale)
}

// userKernel is a kernel of a program's module.
func (f *fake) userKernel(module uintptr, name string) (uintptr, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.modules[module]
	n, ok := m.entries[name]
	if !ok {
		return 0, libcuda.NotFound
	}
	for h, k := range f.functions {
		if k.of == module && k.name == name {
			return h, libcuda.Success
		}
	}
	f.last++
	f.functions[f.last+1000] = &fakeFunction{name, n, module}
	return f.last + 1000, libcuda.Success
}

func (f *fake) ModuleGlobal(module uintptr, name string) (uintptr, uint64, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.modules[module]; m != nil && name == "scale" {
		return m.scale, 4, libcuda.Success
	}
	return 0, 0, libcuda.NotFound
}

func (f *fake) FuncMaxThreads(uintptr) (int, libcuda.Result) { return fakeThread, libcuda.Success }
func (f *fake) FuncAllowShared(_ uintptr, n uint32) libcuda.Result {
	return map[bool]libcuda.Result{true: libcuda.Success, false: 1}[n <= 200<<10]
}

func (f *fake) FuncParams(k uintptr) ([]kernel.Param, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known || f.functions[k] == nil {
		return nil, libcuda.NotSupported
	}
	var list []kernel.Param
	for at := 0; at < f.functions[k].params; at += 8 {
		list = append(list, kernel.Param{Offset: uint32(at), Size: 8})
	}
	return list, libcuda.Success
}

// LaunchShaped puts a kernel of a program on a stream, and takes its parameters along, as CUDA does.
func (f *fake) LaunchShaped(k uintptr, s *libcuda.Shape, stream uintptr) libcuda.Result {
	st, _ := f.stream(stream)
	f.mu.Lock()
	fn := f.functions[k]
	if fn == nil || f.modules[fn.of] == nil {
		f.mu.Unlock()
		panic("BUG: a kernel is launched that is not there")
	}
	m := f.modules[fn.of]
	if f.keepShape {
		f.shapes = append(f.shapes, *s)
	}
	f.mu.Unlock()
	if m.gpu != st.gpu {
		return libcuda.InvalidHandle
	}
	threads := s.Threads[0] * s.Threads[1] * s.Threads[2]
	if s.Bytes > 0 && int(s.Bytes) < fn.params || s.Bytes > 4096 || s.Shared > 200<<10 ||
		threads == 0 || threads > 1024 ||
		s.Blocks[0]*s.Blocks[1]*s.Blocks[2] == 0 {
		return 1
	}
	var args [64]byte
	copy(args[:], bytesAt(s.Args, uint64(min(fn.params, len(args)))))
	count, scale, gpu := s.Blocks[0]*s.Blocks[1]*s.Blocks[2]*threads, m.scale, st.gpu
	arg0 := uintptr(binary.LittleEndian.Uint64(args[:]))
	run := func() { f.runUser(fn.name, args, gpu, scale, uintptr(count)) }
	return f.putAnyhow(stream, fakeOrder{kind: 'k', dst: arg0, kernel: run})
}

// runUser does what the kernel of that name does, if exploration or an injected failure needs it; see drivertest.PTX.
func (f *fake) runUser(name string, args [64]byte, device int, scale, count uintptr) {
	arg := func(i int) uintptr { return uintptr(binary.LittleEndian.Uint64(args[8*i:])) }
	there := func(n uint64, at ...uintptr) bool {
		for _, a := range at {
			if !f.reachable(device, a, n) {
				f.breakGPU(device, libcuda.IllegalAddress)
				return false
			}
		}
		return true
	}
	switch name {
	case "sum":
		n := arg(3)
		if there(uint64(4*n), arg(0), arg(1), arg(2)) {
			for i := range n {
				gpu.WordAt(arg(2) + 4*i).Store(gpu.WordAt(arg(0)+4*i).Load() + gpu.WordAt(arg(1)+4*i).Load())
			}
		}
	case "times":
		n := arg(1)
		if there(uint64(4*n), arg(0)) {
			for i := range n {
				w := gpu.WordAt(arg(0) + 4*i)
				w.Store(w.Load() * gpu.WordAt(scale).Load())
			}
		}
	case "place":
		if there(uint64(4*count), arg(0)) {
			for i := range count {
				gpu.WordAt(arg(0) + 4*i).Store(uint32(i))
			}
		}
	}
}
