package gpu

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/memcopy"
	"ropeway/internal/testenv"
)

// still is a libcuda for one GPU on which everything is over at once.
type still struct {
	libcuda.API // what is not below is not called

	mu    sync.Mutex
	last  uintptr               // guarded by mu; handle
	times map[uintptr]time.Time // guarded by mu; of events
	hosts map[uintptr]uint64    // guarded by mu; pinned memory that was not freed
}

// newGPU is a GPU with a context. It is stopped when the test ends, and the test fails if it then has anything left.
func newGPU(t *testing.T) *GPU {
	t.Helper()
	s := &still{times: map[uintptr]time.Time{}, hosts: map[uintptr]uint64{}}
	c := new(GPU)
	c.Init(s, 0, 0, 1, func(text string) { t.Error(text) })
	testenv.OK(t, c.Start())
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if len(s.times) > 0 || len(s.hosts) > 0 {
			t.Errorf("left behind: %d events, %d allocations", len(s.times), len(s.hosts))
		}
	})
	return c
}

func (s *still) next() uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

func (s *still) PrimaryCtxRetain(int) (uintptr, libcuda.Result) { return s.next(), libcuda.Success }
func (s *still) PrimaryCtxRelease(int) libcuda.Result           { return libcuda.Success }
func (s *still) CtxSetCurrent(uintptr) libcuda.Result           { return libcuda.Success }
func (s *still) Multiprocessors(int) (int, libcuda.Result)      { return 1, libcuda.Success }
func (s *still) StreamCreate(int) (uintptr, libcuda.Result)     { return s.next(), libcuda.Success }
func (s *still) StreamDestroy(uintptr) libcuda.Result           { return libcuda.Success }
func (s *still) EventQuery(uintptr) libcuda.Result              { return libcuda.Success }
func (s *still) MemHostUnregister(addr uintptr) libcuda.Result  { return s.drop(addr) }
func (s *still) Describe(r libcuda.Result) (name, text string)  { return "STILL", "an error" }
func (s *still) EventCreate(libcuda.EventKind) (uintptr, libcuda.Result) {
	e := s.next()
	return e, s.EventRecord(e, 0)
}

func (s *still) EventDestroy(event uintptr) libcuda.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.times, event)
	return libcuda.Success
}

func (s *still) EventRecord(event, _ uintptr) libcuda.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times[event] = time.Now()
	return libcuda.Success
}

func (s *still) EventElapsedTime(from, to uintptr) (float32, libcuda.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float32(s.times[to].Sub(s.times[from]).Seconds() * 1e3), libcuda.Success
}

func (s *still) MemHostRegister(addr uintptr, n uint64) (uintptr, libcuda.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[addr] = n
	memcopy.ProbeWrite(addr, uintptr(n)) // as CUDA would
	return addr, libcuda.Success
}

// drop forgets pinned memory.
func (s *still) drop(addr uintptr) libcuda.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hosts[addr] == 0 {
		return libcuda.NotFound
	}
	delete(s.hosts, addr)
	return libcuda.Success
}

func (s *still) MemHostAlloc(n uint64) (uintptr, libcuda.Result) {
	addr, err := arena.Reserve(n)
	if err != nil || arena.ProtectPages(addr, n, unix.PROT_READ|unix.PROT_WRITE) != nil {
		return 0, libcuda.OutOfMemory
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[addr] = n
	return addr, libcuda.Success
}

func (s *still) MemFreeHost(addr uintptr) libcuda.Result {
	s.mu.Lock()
	n := s.hosts[addr]
	s.mu.Unlock()
	if arena.Unreserve(addr, arena.Reserved(n)) != nil {
		return libcuda.NotFound
	}
	return s.drop(addr)
}
