package cuda

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/memcopy"
)

// fakeStream is a stream: commands that a goroutine carries out. It is there while there are any.
type fakeStream struct {
	of       *fake // immutable
	gpu      int   // immutable
	mu       sync.Mutex
	changed  *sync.Cond                // on mu
	commands hostqueue.Ring[fakeOrder] // guarded by mu
	working  bool                      // guarded by mu
}

// fakeOrder is one command.
type fakeOrder struct {
	kind     byte // 'c'opy, '2'-D, fill '1', fill '4', 'e'vent, 'w'ait, 'k'ernel
	dst, src uintptr
	n        uint64
	value    uint32
	copy     libcuda.Copy2D
	event    *fakeEvent
	number   uint64
	kernel   func()
}

// fakeEvent is an event; each time it is recorded has a number.
type fakeEvent struct {
	gpu      int  // immutable
	timed    bool // immutable
	mu       sync.Mutex
	changed  *sync.Cond // on mu
	recorded uint64     // guarded by mu
	happened uint64     // guarded by mu
	at       time.Time  // guarded by mu; when it last did
}

func (e *fakeEvent) wait(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.happened < number {
		e.changed.Wait()
	}
}

func (s *fakeStream) put(o fakeOrder) {
	if explored := s.of.explored; explored != nil {
		explored()
		s.commands.Push(&o)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands.Push(&o)
	if !s.working {
		s.working = true
		go s.work()
	}
}

func (s *fakeStream) work() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.commands.Len() > 0 {
		var o fakeOrder
		s.commands.Pop(&o)
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
		if o.n == 8 && (o.dst|o.src)%8 == 0 {
			wideAt(o.dst).Store(wideAt(o.src).Load()) // nobody sees half a word
			return
		}
		memcopy.Copy(o.dst, o.src, uintptr(o.n))
	case '2':
		for i := range o.copy.Height {
			memcopy.Copy(o.copy.Dst+uintptr(i*o.copy.DstPitch), o.copy.Src+uintptr(i*o.copy.SrcPitch),
				uintptr(o.copy.Width))
		}
	case '1':
		memcopy.Fill8(o.dst, byte(o.value), uintptr(o.n))
	case '4':
		memcopy.Fill32(o.dst, o.value, uintptr(o.n))
	case 'e':
		o.event.mu.Lock()
		o.event.happened, o.event.at = o.number, time.Now()
		o.event.changed.Broadcast()
		o.event.mu.Unlock()
	case 'w':
		o.event.wait(o.number)
	case 'k':
		o.kernel()
	}
}

// stream finds a stream; a handle that is not one is a bug of the driver.
func (f *fake) stream(h uintptr) (*fakeStream, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.streams[h]
	if !ok {
		panic(fmt.Sprintf("BUG: %d is no stream", h))
	}
	return s, f.gpu[s.gpu].broken
}

func (f *fake) event(h uintptr) (*fakeEvent, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.events[h]
	if !ok {
		panic(fmt.Sprintf("BUG: %d is no event", h))
	}
	return e, f.gpu[e.gpu].broken
}

func (f *fake) StreamCreate(int) (uintptr, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gpu, r := f.here()
	if r != libcuda.Success {
		return 0, r
	}
	f.last++
	s := &fakeStream{of: f, gpu: gpu}
	s.changed = sync.NewCond(&s.mu)
	f.streams[f.last] = s
	return f.last, libcuda.Success
}

func (f *fake) StreamDestroy(h uintptr) libcuda.Result {
	s, _ := f.stream(h)
	s.wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, h)
	return libcuda.Success
}

func (f *fake) StreamQuery(h uintptr) libcuda.Result {
	s, r := f.stream(h)
	if r != libcuda.Success {
		return r
	}
	s.mu.Lock()
	working := s.working || s.commands.Len() > 0
	s.mu.Unlock()
	if working {
		return libcuda.NotReady
	}
	_, r = f.stream(h) // what it did may have broken the GPU meanwhile
	return r
}

func (f *fake) EventCreate(kind libcuda.EventKind) (uintptr, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gpu, r := f.here()
	if r != libcuda.Success {
		return 0, r
	}
	f.last++
	e := &fakeEvent{gpu: gpu, timed: kind == libcuda.TimedEvent}
	e.changed = sync.NewCond(&e.mu)
	f.events[f.last] = e
	return f.last, libcuda.Success
}

func (f *fake) EventDestroy(h uintptr) libcuda.Result {
	f.event(h)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.events, h)
	return libcuda.Success
}

func (f *fake) EventRecord(event, stream uintptr) libcuda.Result {
	e, _ := f.event(event)
	s, r := f.stream(stream)
	if r != libcuda.Success {
		return r
	}
	if s.gpu != e.gpu {
		panic("BUG: an event is recorded on a stream of another context")
	}
	e.mu.Lock()
	e.recorded++
	n := e.recorded
	e.mu.Unlock()
	f.records.Add(1)
	s.put(fakeOrder{kind: 'e', event: e, number: n})
	return libcuda.Success
}

func (f *fake) StreamWriteValue(stream, addr uintptr, value uint32) libcuda.Result {
	if f.mute.Load() {
		f.refusals.Add(1)
		return libcuda.NotSupported
	}
	return f.putAnyhow(stream, fakeOrder{kind: 'k', kernel: func() {
		if _, broken := f.stream(stream); broken == libcuda.Success {
			gpu.WordAt(addr).Store(value)
		}
	}})
}

func (f *fake) StreamWaitEvent(stream, event uintptr) libcuda.Result {
	e, _ := f.event(event)
	s, r := f.stream(stream)
	if r != libcuda.Success {
		return r
	}
	e.mu.Lock()
	n := e.recorded
	e.mu.Unlock()
	s.put(fakeOrder{kind: 'w', event: e, number: n})
	return libcuda.Success
}

func (f *fake) EventQuery(h uintptr) libcuda.Result {
	e, r := f.event(h)
	if r != libcuda.Success {
		return r
	}
	e.mu.Lock()
	happened := e.happened >= e.recorded
	e.mu.Unlock()
	if !happened {
		return libcuda.NotReady
	}
	_, r = f.event(h) // as in queryStream
	return r
}

func (f *fake) EventSynchronize(h uintptr) libcuda.Result {
	e, r := f.event(h)
	if r != libcuda.Success {
		return r
	}
	e.mu.Lock()
	n := e.recorded
	e.mu.Unlock()
	e.wait(n)
	_, r = f.event(h) // as in queryStream
	return r
}

func (f *fake) EventElapsedTime(from, to uintptr) (float32, libcuda.Result) {
	if f.noClock {
		return 0, libcuda.NotSupported
	}
	var at [2]time.Time
	var gpu int
	for i, h := range [...]uintptr{from, to} {
		e, r := f.event(h)
		if r != libcuda.Success {
			return 0, r
		}
		e.mu.Lock()
		gpu, at[i] = e.gpu, e.at
		pending := e.happened < e.recorded
		e.mu.Unlock()
		if !e.timed || at[i].IsZero() {
			return 0, 400
		}
		if pending {
			return 0, libcuda.NotReady
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return float32(at[1].Sub(at[0]).Seconds() * 1e3 * (1 + f.gpu[gpu].ahead)), libcuda.Success
}

func (f *fake) put(stream uintptr, o fakeOrder) libcuda.Result {
	s, r := f.stream(stream)
	f.mu.Lock()
	if here, _ := f.here(); here != s.gpu {
		panic("BUG: the context is not that of the stream")
	}
	f.mu.Unlock()
	if r == libcuda.Success {
		s.put(o)
	}
	return r
}

func (f *fake) MemcpyAsync(dst, src uintptr, n uint64, stream uintptr) libcuda.Result {
	if overlap(dst, src, n) {
		panic("BUG: a copy that overlaps was given to CUDA")
	}
	return f.putAnyhow(stream, fakeOrder{kind: 'c', dst: dst, src: src, n: n})
}

// putAnyhow is put whichever context is current, but not without one.
func (f *fake) putAnyhow(stream uintptr, o fakeOrder) libcuda.Result {
	f.mu.Lock()
	current := f.threads[unix.Gettid()]
	gone := current > 0 && f.gpu[current-1].users == 0
	f.mu.Unlock()
	if current == 0 {
		return libcuda.InvalidContext
	}
	if gone {
		return libcuda.ContextDestroyed
	}
	s, r := f.stream(stream)
	if r == libcuda.Success {
		s.put(o)
	}
	return r
}

func (f *fake) Memcpy2DAsync(c *libcuda.Copy2D, stream uintptr) libcuda.Result {
	if c.Width > c.DstPitch || c.Width > c.SrcPitch {
		return 1
	}
	return f.put(stream, fakeOrder{kind: '2', copy: *c})
}

func (f *fake) MemsetD8Async(dst uintptr, value byte, n uint64, stream uintptr) libcuda.Result {
	return f.put(stream, fakeOrder{kind: '1', dst: dst, value: uint32(value), n: n})
}

func (f *fake) MemsetD32Async(dst uintptr, value uint32, n uint64, stream uintptr) libcuda.Result {
	if dst%4 != 0 {
		return 1
	}
	return f.put(stream, fakeOrder{kind: '4', dst: dst, value: value, n: n})
}

// made is how many streams there are.
func (f *fake) made() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.streams)
}
