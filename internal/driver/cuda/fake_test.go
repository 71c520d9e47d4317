package cuda

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver/cuda/libcuda"
)

// fake is libcuda of ordinary memory, for what explores orders and injects failures; other tests run on the imitation,
// which is in C. Each stream is a goroutine, and what is on it happens later. What the real one refuses, such as words
// that are not aligned and pages that are registered twice, it refuses too. It is an old one, which has no virtual and
// no managed memory.
type fake struct {
	libcuda.API // nil; what an old one does not have is not called

	gpus  int
	total uint64

	mu       sync.Mutex
	threads  map[int]int            // guarded by mu; by thread the GPU whose context is current, and 1; 0 is none
	gpu      []fakeGPU              // guarded by mu
	memory   map[uintptr]fakeMemory // guarded by mu; live
	spent    []fakeMemory           // guarded by mu; freed: nothing comes to lie there
	pages    map[uintptr]bool       // guarded by mu; registered
	ranges   map[uintptr]fakeRange  // guarded by mu; registered
	streams  map[uintptr]*fakeStream
	events   map[uintptr]*fakeEvent
	last     uintptr        // guarded by mu; handle
	blocks   map[string]int // guarded by mu; the most that a kernel was launched with
	noClock  bool           // it is a libcuda without cuEventElapsedTime
	noKernel string         // a kernel that is missing
	careful  bool           // what kernels reach for is looked at; set before anything runs
	records  atomic.Int64   // of events
	explored func()         // called before a command is put on its stream, where it stays; nil: a goroutine does it

	fakeBatch
	fakeModules
	fakeGraphs
}

type fakeMemory struct {
	bytes []byte
	n     uint64
	gpu   int
	host  bool
}

type fakeRange struct {
	n   uint64
	gpu int
}

// fakeGPU is one of the GPUs.
type fakeGPU struct {
	live   uint64         // bytes of memory in use
	users  int            // how often its context is retained
	broken libcuda.Result // what every call returns from now on, until there is a new context
	ahead  float64        // by how much its clock runs faster than the host's
}

func newFake(gpus int) *fake {
	return &fake{
		gpus: gpus, total: 8 << 30, threads: map[int]int{}, gpu: make([]fakeGPU, gpus),
		memory: map[uintptr]fakeMemory{}, pages: map[uintptr]bool{}, ranges: map[uintptr]fakeRange{},
		streams: map[uintptr]*fakeStream{}, events: map[uintptr]*fakeEvent{},
	}
}

// fakeInUse is how much memory is in use before anything is allocated.
const fakeInUse = 100 << 20

// close releases the addresses, and returns an error that lists what was not freed.
func (f *fake) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.spent {
		unix.Munmap(m.bytes)
	}
	f.spent = nil
	users := 0
	for i := range f.gpu {
		users += f.gpu[i].users
	}
	if n := len(f.modules) + len(f.graphs); n > 0 {
		return fmt.Errorf("left behind: %d modules, %d graphs", len(f.modules), len(f.graphs))
	}
	if n := len(f.memory) + len(f.ranges) + len(f.streams) + len(f.events) + users; n > 0 {
		return fmt.Errorf("left behind: %d allocations, %d registrations, %d streams, %d events, %d contexts",
			len(f.memory), len(f.ranges), len(f.streams), len(f.events), users)
	}
	return nil
}

func (f *fake) DriverVersion() (int, libcuda.Result)       { return 13000, libcuda.Success }
func (f *fake) DeviceCount() (int, libcuda.Result)         { return f.gpus, libcuda.Success }
func (f *fake) DeviceName(int) (string, libcuda.Result)    { return "fake", libcuda.Success }
func (f *fake) CtxEnablePeerAccess(uintptr) libcuda.Result { return libcuda.Success }
func (f *fake) Describe(r libcuda.Result) (name, text string) {
	return fmt.Sprintf("FAKE_%d", r), "made up"
}

// breakGPU lets every call on a GPU fail from now on.
func (f *fake) breakGPU(gpu int, r libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gpu[gpu].broken = r
}

func (f *fake) MemAddressReserve(uint64, uint64, uintptr) (uintptr, libcuda.Result) {
	return 0, libcuda.NotSupported
}
func (f *fake) MemCreate(uint64, libcuda.Place) (uint64, libcuda.Result) {
	return 0, libcuda.NotSupported
}
func (f *fake) MemAllocManaged(uint64) (uintptr, libcuda.Result) { return 0, libcuda.NotSupported }
func (f *fake) ConcurrentManaged(int) (bool, libcuda.Result)     { return true, libcuda.Success }

func (f *fake) CtxSetCurrent(context uintptr) libcuda.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.threads[unix.Gettid()] = int(context)
	return libcuda.Success
}

// here is the GPU whose context is current, and what calls there return. Without one the driver has a bug. mu is held.
func (f *fake) here() (int, libcuda.Result) {
	gpu := f.threads[unix.Gettid()] - 1
	if gpu < 0 || f.gpu[gpu].users == 0 {
		panic("BUG: no context is current")
	}
	return gpu, f.gpu[gpu].broken
}

func (f *fake) CtxSynchronize() libcuda.Result {
	f.mu.Lock()
	_, r := f.here()
	f.mu.Unlock()
	f.drain()
	return r
}

func (f *fake) PrimaryCtxRetain(device int) (uintptr, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gpu[device].users++
	return uintptr(device + 1), libcuda.Success
}

func (f *fake) PrimaryCtxRelease(device int) libcuda.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gpu[device].users--; f.gpu[device].users == 0 {
		f.destroy(device)
	}
	return libcuda.Success
}

// destroy ends the context of a GPU, with all that is in it. mu is held.
func (f *fake) destroy(gpu int) {
	maps.DeleteFunc(f.streams, func(_ uintptr, s *fakeStream) bool { return s.gpu == gpu })
	maps.DeleteFunc(f.modules, func(_ uintptr, m *fakeModule) bool { return m.gpu == gpu })
	maps.DeleteFunc(f.events, func(_ uintptr, e *fakeEvent) bool { return e.gpu == gpu })
	for addr, m := range f.memory {
		if m.gpu == gpu {
			f.spend(addr, m)
		}
	}
	for addr, r := range f.ranges {
		if r.gpu == gpu {
			f.unpin(addr, r)
		}
	}
}

func (f *fake) MemInfo() (free, total uint64, r libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gpu, r := f.here()
	return f.total - f.gpu[gpu].live - fakeInUse, f.total, r
}

func (f *fake) take(n uint64, host bool) (uintptr, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gpu, r := f.here()
	if r != libcuda.Success {
		return 0, r
	}
	if !host && n > f.total-f.gpu[gpu].live-fakeInUse || n > 16<<30 {
		return 0, libcuda.OutOfMemory
	}
	b, err := unix.Mmap(-1, 0, int(n+2*4096-1)&^4095, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return 0, libcuda.OutOfMemory
	}
	unix.Mprotect(b[len(b)-4096:], unix.PROT_NONE) // allocations do not touch
	if !host {
		f.gpu[gpu].live += n
	}
	addr := startOf(b)
	f.memory[addr] = fakeMemory{bytes: b, n: n, gpu: gpu, host: host}
	return addr, libcuda.Success
}

func (f *fake) drop(addr uintptr, host bool) libcuda.Result {
	f.drain()
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, r := f.here(); r != libcuda.Success {
		return r
	}
	m, ok := f.memory[addr]
	if !ok || m.host != host {
		return 1
	}
	f.spend(addr, m)
	return libcuda.Success
}

// spend takes memory away. mu is held.
func (f *fake) spend(addr uintptr, m fakeMemory) {
	delete(f.memory, addr)
	if !m.host {
		f.gpu[m.gpu].live -= m.n
	}
	unix.Madvise(m.bytes, unix.MADV_DONTNEED)
	unix.Mprotect(m.bytes, unix.PROT_NONE)
	f.spent = append(f.spent, m)
}

// drain waits for all streams, as freeing does.
func (f *fake) drain() {
	f.mu.Lock()
	streams := maps.Clone(f.streams)
	f.mu.Unlock()
	for _, s := range streams {
		s.wait()
	}
}

func (f *fake) MemAlloc(n uint64) (uintptr, libcuda.Result)     { return f.take(n, false) }
func (f *fake) MemFree(addr uintptr) libcuda.Result             { return f.drop(addr, false) }
func (f *fake) MemHostAlloc(n uint64) (uintptr, libcuda.Result) { return f.take(n, true) }
func (f *fake) MemFreeHost(addr uintptr) libcuda.Result         { return f.drop(addr, true) }

func (f *fake) MemHostRegister(addr uintptr, n uint64) (uintptr, libcuda.Result) {
	if n > 16<<30 {
		return 0, libcuda.OutOfMemory
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	gpu, r := f.here()
	if r != libcuda.Success {
		return 0, r
	}
	for p := addr &^ 4095; p < addr+uintptr(n); p += 4096 {
		if f.pages[p] {
			return 0, libcuda.AlreadyRegistered
		}
	}
	for p := addr &^ 4095; p < addr+uintptr(n); p += 4096 {
		f.pages[p] = true
	}
	f.ranges[addr] = fakeRange{n, gpu}
	return addr, libcuda.Success
}

func (f *fake) MemHostUnregister(addr uintptr) libcuda.Result {
	f.drain()
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, r := f.here(); r != libcuda.Success {
		return r
	}
	r, ok := f.ranges[addr]
	if !ok {
		return 713
	}
	f.unpin(addr, r)
	return libcuda.Success
}

// unpin ends a registration. mu is held.
func (f *fake) unpin(addr uintptr, r fakeRange) {
	delete(f.ranges, addr)
	for p := addr &^ 4095; p < addr+uintptr(r.n); p += 4096 {
		delete(f.pages, p)
	}
}
