package memory_test

import (
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

const (
	poolPage = 2 << 20
	poolMax  = 16 * poolPage
)

// TestPoolPrograms runs random programs with a memory pool. Each allocation is filled by its stream and read before it
// goes; if memory were handed out before its last user was done with it, the bytes would be wrong. And which stream
// gets memory again is compared with what the attributes allow.
func TestPoolPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dog := time.AfterFunc(patience, func() { panic("a program hangs") })
		defer dog.Stop()
		w := newPoolWorld(t)
		defer func() {
			w.open()
			w.rt.Close() //nolint:errcheck // the good end is below
		}()
		t.Repeat(map[string]func(*rapid.T){
			"malloc":  w.malloc,
			"free":    w.free,
			"free 2":  w.free,
			"touch":   w.touch,
			"host":    w.freeByHost,
			"sync":    w.sync,
			"device":  w.syncDevice,
			"event":   w.event,
			"hold":    w.hold,
			"trim":    w.trim,
			"attr":    w.attribute,
			"":        w.check,
			"open":    func(*rapid.T) { w.open() },
			"destroy": w.restart,
		})
		w.end(t)
	})
}

// poolStream is a stream, the tasks on it, and what the next one is ordered after.
type poolStream struct {
	index int
	h     core.Handle
	tasks uint64
	clock clock
	gate  chan struct{} // nil: it is not held
	held  uint64        // the task that holds it
}

// pooled is memory of the pool: live, or freed.
type pooled struct {
	addr core.Addr
	size uint64
	fill byte
	on   *poolStream // that used it last; nil: freed by the host
	task uint64      // of that stream
}

type poolWorld struct {
	rt      *core.Runtime
	th      *core.Thread
	pool    core.Handle
	streams []*poolStream
	indexes int
	live    []*pooled
	freed   map[core.Addr]*pooled // by address, until it is handed out again
	host    clock
	attrs   [4]bool // 1 to 3
	keep    uint64  // threshold
	fills   byte
	slots   core.Addr // pinned; where programs look at memory
	looks   []byte    // what they must have seen
}

const mostLooks = 4096

func newPoolWorld(t *rapid.T) *poolWorld {
	p, err := product.Find("A2", "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w := &poolWorld{rt: core.New(core.Options{Driver: d, Product: p}), freed: map[core.Addr]*pooled{}}
	w.th = w.rt.NewThread(1)
	must(t, w.th.SetDevice(0))
	must(t, memory.MallocHost(w.th, &w.slots, mostLooks))
	w.newPool(t)
	for range 3 {
		w.addStream(t)
	}
	return w
}

func (w *poolWorld) newPool(t *rapid.T) {
	must(t, memory.MemPoolCreate(w.th, &w.pool,
		&abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}, MaxSize: poolMax}))
	w.attrs, w.keep = [4]bool{}, 0
	clear(w.freed)
}

func (w *poolWorld) addStream(t *rapid.T) {
	s := &poolStream{index: w.indexes}
	w.indexes++
	must(t, w.th.CreateStream(&s.h))
	w.streams = append(w.streams, s)
}

func (w *poolWorld) stream(t *rapid.T) *poolStream { return pick(t, w.streams, "stream") }

// submitted notes a task on s.
func (w *poolWorld) submitted(s *poolStream) {
	s.tasks++
	s.clock = join(s.clock, w.host).with(s.index, s.tasks)
}

func (w *poolWorld) open() {
	for _, s := range w.streams {
		if s.gate != nil {
			close(s.gate)
			s.gate = nil
		}
	}
}

func (w *poolWorld) hold(t *rapid.T) {
	s := w.stream(t)
	if s.gate != nil {
		t.Skip("held")
	}
	gate := make(chan struct{})
	s.gate = gate
	must(t, w.th.LaunchHostFunc(s.h, func(core.Addr) { <-gate }, 0))
	w.submitted(s)
	s.held = s.tasks
}

func (w *poolWorld) used() (n uint64) {
	for _, m := range w.live {
		n += m.size
	}
	return n
}

// malloc takes memory, looks whether it may be that, and fills it.
func (w *poolWorld) malloc(t *rapid.T) {
	s := w.stream(t)
	asked := uint64(rapid.IntRange(1, 3*poolPage).Draw(t, "size"))
	size := (asked + poolPage - 1) &^ (poolPage - 1)
	var a core.Addr
	if err := memory.MemPoolMallocAsync(w.th, &a, asked, w.pool, s.h); err != nil {
		expect(t, err, abi.ErrRTInternalError, "MemPoolMallocAsync")
		if w.used()+size <= poolMax && len(w.freed) == 0 {
			t.Fatalf("%d bytes refused, %d of %d are used and nothing was freed", size, w.used(), poolMax)
		}
		return
	}
	for _, m := range w.live {
		if a < m.addr+core.Addr(m.size) && m.addr < a+core.Addr(size) {
			t.Fatalf("%d bytes at %#x, but %d bytes at %#x are in use", size, a, m.size, m.addr)
		}
	}
	for at, m := range w.freed { // what was returned to the device and came again may overlap several
		if a < at+core.Addr(m.size) && at < a+core.Addr(size) {
			w.mayHave(t, s, m)
			delete(w.freed, at)
		}
	}
	var base core.Addr
	var n uint64
	must(t, memory.MemGetAddressRange(w.th, a, &base, &n))
	if base != a || n < size {
		t.Fatalf("%d bytes at %#x, asked for %d at %#x", n, base, size, a)
	}
	w.fills++
	m := &pooled{addr: a, size: n, fill: w.fills}
	w.live = append(w.live, m)
	w.fillIt(t, m, s)
}

// mayHave checks that s may have memory that was freed.
func (w *poolWorld) mayHave(t *rapid.T, s *poolStream, m *pooled) {
	reached := m.on != nil && (m.on.gate == nil || m.on.held > m.task) // perhaps
	switch {
	case m.on == nil, m.on == s, w.host.at(m.on.index) >= m.task:
		// by the host, on the stream itself, or known to be over
	case w.attrs[1] && s.clock.at(m.on.index) >= m.task: // after an event
	case w.attrs[2] && reached:
	case w.attrs[3]: // the stream waits
	case reached: // returned to the device, for it was reached, and taken from there
	default:
		t.Fatalf("stream %d gets %d bytes at %#x, freed on stream %d at task %d, after which it is not (attributes %v)",
			s.index, m.size, m.addr, m.on.index, m.task, w.attrs)
	}
}

// fillIt writes the memory's byte to all of it, on s.
func (w *poolWorld) fillIt(t *rapid.T, m *pooled, s *poolStream) {
	must(t, transfer.MemsetAsync(w.th, m.addr, m.size, int32(m.fill), m.size, s.h))
	w.submitted(s)
	m.on, m.task = s, s.tasks
}

// after makes s wait for the last use of m.
func (w *poolWorld) after(t *rapid.T, s *poolStream, m *pooled) {
	if m.on == s || join(s.clock, w.host).at(m.on.index) >= m.task {
		return
	}
	w.order(t, m.on, s)
}

// order puts an event between two streams.
func (w *poolWorld) order(t *rapid.T, from, to *poolStream) {
	var e core.Handle
	if rapid.Bool().Draw(t, "ex") {
		must(t, w.th.CreateEventExWithFlag(&e, abi.EventSync))
	} else {
		must(t, w.th.CreateEvent(&e))
	}
	must(t, w.th.RecordEvent(e, from.h))
	w.submitted(from)
	must(t, w.th.StreamWaitEvent(to.h, e))
	to.clock = join(to.clock, from.clock)
	w.submitted(to)
	must(t, w.th.DestroyEvent(e))
}

// look copies both ends of m to the host, on s.
func (w *poolWorld) look(t *rapid.T, m *pooled, s *poolStream) {
	for _, off := range []core.Addr{0, core.Addr(m.size - 1)} {
		if len(w.looks) == mostLooks {
			return
		}
		must(t, transfer.MemcpyAsync(w.th, w.slots+core.Addr(len(w.looks)), 1, m.addr+off, 1, abi.MemcpyDeviceToHost,
			s.h))
		w.looks = append(w.looks, m.fill)
	}
	w.submitted(s)
	m.on, m.task = s, s.tasks
}

func (w *poolWorld) take(t *rapid.T) *pooled {
	m := pick(t, w.live, "memory")
	for i, o := range w.live {
		if o == m {
			w.live = append(w.live[:i], w.live[i+1:]...)
			break
		}
	}
	return m
}

// touch uses memory on another stream.
func (w *poolWorld) touch(t *rapid.T) {
	m, s := pick(t, w.live, "memory"), w.stream(t)
	w.after(t, s, m)
	w.look(t, m, s)
	w.fills++
	m.fill = w.fills
	w.fillIt(t, m, s)
}

func (w *poolWorld) free(t *rapid.T) {
	m, s := w.take(t), w.stream(t)
	w.after(t, s, m)
	w.look(t, m, s)
	must(t, memory.MemPoolFreeAsync(w.th, m.addr, s.h))
	w.submitted(s)
	m.on, m.task = s, s.tasks
	w.freed[m.addr] = m
	expect(t, memory.MemPoolFreeAsync(w.th, m.addr, s.h), abi.ErrRTParamInvalid, "a second free")
}

func (w *poolWorld) freeByHost(t *rapid.T) {
	m := w.take(t)
	w.look(t, m, m.on)
	w.wait(t, m.on)
	must(t, memory.Free(w.th, m.addr))
	m.on = nil
	w.freed[m.addr] = m
}

func (w *poolWorld) wait(t *rapid.T, s *poolStream) {
	w.open()
	must(t, w.th.SynchronizeStream(s.h))
	w.host = join(w.host, s.clock)
}

func (w *poolWorld) sync(t *rapid.T) { w.wait(t, w.stream(t)) }

func (w *poolWorld) syncDevice(t *rapid.T) {
	w.open()
	must(t, w.th.SynchronizeDevice())
	for _, s := range w.streams {
		w.host = join(w.host, s.clock)
	}
	if idle := w.number(t, abi.MemPoolAttrReservedMemCurrent) - w.used(); idle > w.keep {
		t.Fatalf("%d bytes are kept unused, the threshold is %d", idle, w.keep)
	}
}

func (w *poolWorld) event(t *rapid.T) {
	from, to := w.stream(t), w.stream(t)
	if from != to {
		w.order(t, from, to)
	}
}

func (w *poolWorld) trim(t *rapid.T) {
	keep := uint64(rapid.IntRange(0, poolMax).Draw(t, "keep"))
	err := memory.MemPoolTrimTo(w.th, w.pool, keep)
	if err != nil && keep >= w.used() {
		t.Fatalf("%v, but %d are used", err, w.used())
	}
}

func (w *poolWorld) attribute(t *rapid.T) {
	attr := rapid.IntRange(1, 4).Draw(t, "attribute")
	if attr == 4 {
		w.keep = uint64(rapid.SampledFrom([]int{0, poolPage, poolMax}).Draw(t, "threshold"))
		must(t, memory.MemPoolSetAttr(w.th, w.pool, abi.MemPoolAttrReleaseThreshold,
			core.Addr(unsafe.Pointer(&w.keep))))
		return
	}
	on := uint32(rapid.IntRange(0, 1).Draw(t, "on"))
	must(t, memory.MemPoolSetAttr(w.th, w.pool, abi.MemPoolAttr(attr), core.Addr(unsafe.Pointer(&on))))
	w.attrs[attr] = on == 1
}

// restart ends a stream, or the pool with all that is in it.
func (w *poolWorld) restart(t *rapid.T) {
	if rapid.Bool().Draw(t, "stream") {
		w.open()
		s := w.streams[0]
		for _, m := range w.live {
			if m.on == s {
				w.wait(t, s)
				w.after(t, w.streams[1], m)
				w.look(t, m, w.streams[1])
			}
		}
		must(t, w.th.DestroyStream(s.h))
		w.host = join(w.host, s.clock)
		w.streams = w.streams[1:]
		w.addStream(t)
		return
	}
	for len(w.live) > 0 {
		w.free(t)
	}
	must(t, memory.MemPoolDestroy(w.th, w.pool))
	freed := w.freed
	w.freed = map[core.Addr]*pooled{}
	w.newPool(t)
	for a, m := range freed { // streams are still to use it
		w.freed[a] = m
	}
}

func (w *poolWorld) number(t *rapid.T, attr abi.MemPoolAttr) (n uint64) {
	must(t, memory.MemPoolGetAttr(w.th, w.pool, attr, core.Addr(unsafe.Pointer(&n))))
	return n
}

// check compares what the pool says of itself.
func (w *poolWorld) check(t *rapid.T) {
	used, reserved := w.number(t, abi.MemPoolAttrUsedMemCurrent), w.number(t, abi.MemPoolAttrReservedMemCurrent)
	if used != w.used() || reserved < used || reserved > poolMax {
		t.Fatalf("the pool says that %d of %d bytes are used, the program has %d", used, reserved, w.used())
	}
	if h := w.number(t, abi.MemPoolAttrUsedMemHigh); h < used {
		t.Fatalf("the high-water mark is %d, and %d are used", h, used)
	}
}

// end frees everything and looks at what was seen.
func (w *poolWorld) end(t *rapid.T) {
	for len(w.live) > 0 {
		w.free(t)
	}
	w.syncDevice(t)
	for i, b := range coretest.Bytes(w.slots, uint64(len(w.looks))) {
		if b != w.looks[i] {
			t.Fatalf("look %d saw %#x, want %#x: memory was used by two", i, b, w.looks[i])
		}
	}
	must(t, memory.MemPoolDestroy(w.th, w.pool))
	var free, total uint64
	must(t, memory.GetMemInfo(w.th, abi.MemAttrHBMMem, &free, &total))
	if free != total {
		t.Fatalf("%d of %d bytes are free, but everything was freed", free, total)
	}
	if err := w.rt.Close(); err != nil {
		t.Fatal(err)
	}
}

// Which work is ordered is a matter of vector clocks. The host submits everything, so whatever the host knows to be
// done is before whatever it submits later; what it did itself is too. Component i of a clock is how many tasks of
// stream i are known to be over.

// clock is a vector clock; missing components are 0.
type clock []uint64

func (c clock) at(i int) uint64 {
	if i < len(c) {
		return c[i]
	}
	return 0
}

// join is the knowledge of both.
func join(a, b clock) clock {
	if len(a) < len(b) {
		a, b = b, a
	}
	sum := append(clock(nil), a...)
	for i, n := range b {
		sum[i] = max(sum[i], n)
	}
	return sum
}

// with is c with component i raised to n.
func (c clock) with(i int, n uint64) clock {
	one := make(clock, i+1)
	one[i] = n
	return join(c, one)
}
