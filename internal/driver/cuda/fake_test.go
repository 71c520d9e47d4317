package cuda

import (
	"encoding/binary"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sys/unix"

	"ropeway/internal/memcopy"
)

// fake is libcuda of ordinary memory: each stream is a goroutine, and what is on it happens later. What the real one refuses,
// such as words that are not aligned and pages that are registered twice, it refuses too.
type fake struct {
	gpus  int
	total uint64

	mu      sync.Mutex
	memory  map[uintptr]fakeMemory // guarded by mu; live
	spent   []fakeMemory           // guarded by mu; freed: nothing comes to lie there
	pages   map[uintptr]bool       // guarded by mu; registered
	ranges  map[uintptr]uint64     // guarded by mu; registered
	streams map[uintptr]*fakeStream
	events  map[uintptr]*fakeEvent
	last    uintptr // guarded by mu; handle
	live    uint64  // guarded by mu; bytes of device memory
	users   int     // guarded by mu; contexts that are retained
	broken  result  // guarded by mu; what every call answers from now on
}

type fakeMemory struct {
	bytes []byte
	n     uint64
	host  bool
}

func newFake(gpus int) *fake {
	return &fake{
		gpus: gpus, total: 8 << 30, memory: map[uintptr]fakeMemory{}, pages: map[uintptr]bool{}, ranges: map[uintptr]uint64{},
		streams: map[uintptr]*fakeStream{}, events: map[uintptr]*fakeEvent{},
	}
}

// fakeInUse is how much memory is in use before anything is allocated.
const fakeInUse = 100 << 20

// close gives the addresses back, and tells what was left behind.
func (f *fake) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.spent {
		unix.Munmap(m.bytes)
	}
	f.spent = nil
	if n := len(f.memory) + len(f.ranges) + len(f.streams) + len(f.events) + f.users; n > 0 {
		return fmt.Errorf("left behind: %d allocations, %d registrations, %d streams, %d events, %d contexts",
			len(f.memory), len(f.ranges), len(f.streams), len(f.events), f.users)
	}
	return nil
}

func (f *fake) version() (int, result)                { return 13000, success }
func (f *fake) devices() (int, result)                { return f.gpus, success }
func (f *fake) deviceName(int) (string, result)       { return "fake", success }
func (f *fake) setContext(uintptr) result             { return success }
func (f *fake) enablePeer(uintptr) result             { return success }
func (f *fake) describe(r result) (name, text string) { return fmt.Sprintf("FAKE_%d", r), "made up" }

func (f *fake) settle() result { f.drain(); return success }

func (f *fake) retain(device int) (uintptr, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users++
	return uintptr(device + 1), success
}

func (f *fake) release(int) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users--
	return success
}

func (f *fake) memInfo() (free, total uint64, r result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total - f.live - fakeInUse, f.total, success
}

func (f *fake) take(n uint64, host bool) (uintptr, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !host && n > f.total-f.live-fakeInUse || n > 16<<30 {
		return 0, outOfMemory
	}
	b, err := unix.Mmap(-1, 0, int(n+2*4096-1)&^4095, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return 0, outOfMemory
	}
	unix.Mprotect(b[len(b)-4096:], unix.PROT_NONE) // allocations do not touch
	if !host {
		f.live += n
	}
	addr := startOf(b)
	f.memory[addr] = fakeMemory{b, n, host}
	return addr, success
}

func (f *fake) drop(addr uintptr, host bool) result {
	f.drain()
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.memory[addr]
	if !ok || m.host != host {
		return 1
	}
	delete(f.memory, addr)
	if !host {
		f.live -= m.n
	}
	unix.Madvise(m.bytes, unix.MADV_DONTNEED)
	unix.Mprotect(m.bytes, unix.PROT_NONE)
	f.spent = append(f.spent, m)
	return success
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

func (f *fake) alloc(n uint64) (uintptr, result)     { return f.take(n, false) }
func (f *fake) free(addr uintptr) result             { return f.drop(addr, false) }
func (f *fake) allocHost(n uint64) (uintptr, result) { return f.take(n, true) }
func (f *fake) freeHost(addr uintptr) result         { return f.drop(addr, true) }

func (f *fake) register(addr uintptr, n uint64) (uintptr, result) {
	if n > 16<<30 {
		return 0, outOfMemory
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := addr &^ 4095; p < addr+uintptr(n); p += 4096 {
		if f.pages[p] {
			return 0, alreadyRegistered
		}
	}
	for p := addr &^ 4095; p < addr+uintptr(n); p += 4096 {
		f.pages[p] = true
	}
	f.ranges[addr] = n
	return addr, success
}

func (f *fake) unregister(addr uintptr) result {
	f.drain()
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.ranges[addr]
	if !ok {
		return 713
	}
	delete(f.ranges, addr)
	for p := addr &^ 4095; p < addr+uintptr(n); p += 4096 {
		delete(f.pages, p)
	}
	return success
}

// fakeStream is a stream: commands that a goroutine carries out. It is there while there are any.
type fakeStream struct {
	mu       sync.Mutex
	changed  *sync.Cond      // on mu
	commands ring[fakeOrder] // guarded by mu
	working  bool            // guarded by mu
}

// fakeOrder is one command.
type fakeOrder struct {
	kind     byte // 'c'opy, '2'-D, fill '1', fill '4', 'e'vent, 'w'ait, 'g'ather
	dst, src uintptr
	n        uint64
	value    uint32
	copy     copy2D
	event    *fakeEvent
	number   uint64
}

// fakeEvent is an event; each time it is recorded has a number.
type fakeEvent struct {
	mu       sync.Mutex
	changed  *sync.Cond // on mu
	recorded uint64     // guarded by mu
	happened uint64     // guarded by mu
}

func (e *fakeEvent) wait(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.happened < number {
		e.changed.Wait()
	}
}

func (s *fakeStream) put(o fakeOrder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands.push(&o)
	if !s.working {
		s.working = true
		go s.work()
	}
}

func (s *fakeStream) work() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.commands.n > 0 {
		o := s.commands.pop()
		s.mu.Unlock()
		o.do()
		s.mu.Lock()
	}
	s.working = false
	s.changed.Broadcast()
}

func (s *fakeStream) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.working {
		s.changed.Wait()
	}
}

func (o *fakeOrder) do() {
	switch o.kind {
	case 'c':
		memcopy.Copy(o.dst, o.src, uintptr(o.n))
	case '2':
		for i := range o.copy.height {
			memcopy.Copy(o.copy.dst+uintptr(i*o.copy.dstPitch), o.copy.src+uintptr(i*o.copy.srcPitch), uintptr(o.copy.width))
		}
	case '1':
		memcopy.Fill8(o.dst, byte(o.value), uintptr(o.n))
	case '4':
		memcopy.Fill32(o.dst, o.value, uintptr(o.n))
	case 'e':
		o.event.mu.Lock()
		o.event.happened = o.number
		o.event.changed.Broadcast()
		o.event.mu.Unlock()
	case 'w':
		o.event.wait(o.number)
	case 'g':
		for _, e := range entriesAt(o.src, int(o.n)) {
			dst, src, n := e.Unpack()
			memcopy.Copy(dst, src, uintptr(n))
		}
	}
}

// stream finds a stream; a handle that is not one is a bug of the driver.
func (f *fake) stream(h uintptr) (*fakeStream, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.streams[h]
	if !ok {
		panic(fmt.Sprintf("BUG: %d is no stream", h))
	}
	return s, f.broken
}

func (f *fake) event(h uintptr) (*fakeEvent, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.events[h]
	if !ok {
		panic(fmt.Sprintf("BUG: %d is no event", h))
	}
	return e, f.broken
}

func (f *fake) newStream(int) (uintptr, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	s := new(fakeStream)
	s.changed = sync.NewCond(&s.mu)
	f.streams[f.last] = s
	return f.last, success
}

func (f *fake) destroyStream(h uintptr) result {
	s, _ := f.stream(h)
	s.wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, h)
	return success
}

func (f *fake) queryStream(h uintptr) result {
	s, r := f.stream(h)
	if r != success {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working {
		return notReady
	}
	return success
}

func (f *fake) newEvent() (uintptr, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	e := new(fakeEvent)
	e.changed = sync.NewCond(&e.mu)
	f.events[f.last] = e
	return f.last, success
}

func (f *fake) destroyEvent(h uintptr) result {
	f.event(h)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.events, h)
	return success
}

func (f *fake) record(event, stream uintptr) result {
	e, _ := f.event(event)
	s, r := f.stream(stream)
	if r != success {
		return r
	}
	e.mu.Lock()
	e.recorded++
	n := e.recorded
	e.mu.Unlock()
	s.put(fakeOrder{kind: 'e', event: e, number: n})
	return success
}

func (f *fake) waitEvent(stream, event uintptr) result {
	e, _ := f.event(event)
	s, r := f.stream(stream)
	if r != success {
		return r
	}
	e.mu.Lock()
	n := e.recorded
	e.mu.Unlock()
	s.put(fakeOrder{kind: 'w', event: e, number: n})
	return success
}

func (f *fake) queryEvent(h uintptr) result {
	e, r := f.event(h)
	if r != success {
		return r
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.happened < e.recorded {
		return notReady
	}
	return success
}

func (f *fake) syncEvent(h uintptr) result {
	e, r := f.event(h)
	if r != success {
		return r
	}
	e.mu.Lock()
	n := e.recorded
	e.mu.Unlock()
	e.wait(n)
	return success
}

func (f *fake) multiprocessors(int) (int, result)        { return 4, success }
func (f *fake) loadKernels(string) (uintptr, result)     { return 1, success }
func (f *fake) unloadKernels(uintptr) result             { return success }
func (f *fake) kernel(uintptr, string) (uintptr, result) { return 1, success }

func (f *fake) launch(_ uintptr, _, _ int, params []byte, stream uintptr) result {
	table, count := binary.LittleEndian.Uint64(params), binary.LittleEndian.Uint32(params[8:])
	return f.put(stream, fakeOrder{kind: 'g', src: uintptr(table), n: uint64(count)})
}

func (f *fake) put(stream uintptr, o fakeOrder) result {
	s, r := f.stream(stream)
	if r == success {
		s.put(o)
	}
	return r
}

func (f *fake) copyAsync(dst, src uintptr, n uint64, stream uintptr) result {
	if overlap(dst, src, n) {
		panic("BUG: a copy that overlaps was given to CUDA")
	}
	return f.put(stream, fakeOrder{kind: 'c', dst: dst, src: src, n: n})
}

func (f *fake) copy2DAsync(c *copy2D, stream uintptr) result {
	if c.width > c.dstPitch || c.width > c.srcPitch {
		return 1
	}
	return f.put(stream, fakeOrder{kind: '2', copy: *c})
}

func (f *fake) fill8(dst uintptr, value byte, n uint64, stream uintptr) result {
	return f.put(stream, fakeOrder{kind: '1', dst: dst, value: uint32(value), n: n})
}

func (f *fake) fill32(dst uintptr, value uint32, n uint64, stream uintptr) result {
	if dst%4 != 0 {
		return 1
	}
	return f.put(stream, fakeOrder{kind: '4', dst: dst, value: value, n: n})
}
