package modeltest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	corememory "ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

const devices = 3

// place says what kind of memory a buffer is.
type place string

const (
	onDevice   place = "device"
	pinned     place = "pinned"
	registered place = "registered"
	pageable   place = "pageable"
)

// buffer is memory of the program and what the model says is in it.
type buffer struct {
	id   int
	kind place
	dev  int // of device memory
	addr core.Addr
	mem  []byte // nil for device memory
	want []byte
	busy []access
}

func (b *buffer) String() string {
	if b.kind == onDevice {
		return fmt.Sprintf("#%d(device%d,%d)", b.id, b.dev, len(b.want))
	}
	return fmt.Sprintf("#%d(%s,%d)", b.id, b.kind, len(b.want))
}

func (b *buffer) at(off int) core.Addr { return b.addr + core.Addr(off) }

// settings is a context and a thread that is in it.
type settings struct {
	*core.Thread
	dev  int
	name string
	mix  core.Handle // the kernel; 0 until it is first launched
}

// stream is a stream and what the next task on it is ordered after.
type stream struct {
	index  int // component of clocks
	ctx    *settings
	h      core.Handle
	tasks  uint64
	clock  clock
	failed *failed       // first failure that was not reported yet
	gate   chan struct{} // closed when the stream may go on; nil: it is not held
	synced bool          // synchronised, and nothing submitted since
}

func (s *stream) String() string { return fmt.Sprintf("s%d(%s)", s.index, s.ctx.name) }

// failed is how a task failed.
type failed struct {
	code abi.Code
	task uint64
}

// world is a runtime and the model of it.
type world struct {
	rt      *core.Runtime
	drv     *faulty.Driver
	prod    *product.Product
	ctxs    []*settings
	streams []*stream
	gone    []core.Handle // of streams
	events  []*event
	graphs  []*graph
	runs    []access // executions of models that the host does not know to be over
	buffers []*buffer
	freed   []*buffer
	descs   []*buffer
	cells   []cell
	host    clock // what the host knows
	ids     int
	indexes int
	peers   [devices][devices]bool
	trace   []string // what the program did
	staged  bool     // there was a copy for which the runtime itself takes pinned memory
}

// newWorld opens a product with a context on each device, and one more on the first.
func newWorld(t *rapid.T, name string) *world {
	p, err := product.Find(name, "")
	if err != nil {
		t.Fatal(err)
	}
	d := coretest.Open(t, soft.Options{Devices: devices, Memory: 64 << 20})
	w := &world{drv: faulty.Wrap(d), prod: p}
	w.rt = core.New(core.Options{Driver: w.drv, Product: p})
	th := w.rt.NewThread(1)
	defer th.Close()
	for dev := range devices {
		must(t, th.SetDevice(int32(dev)))
		w.join(t, th, dev, fmt.Sprintf("device%d", dev))
	}
	var c core.Handle
	must(t, th.CreateContext(&c, 0))
	w.join(t, th, 0, "device0'")
	return w
}

// join adds the current context of th and its default stream.
func (w *world) join(t *rapid.T, th *core.Thread, dev int, name string) {
	var c core.Handle
	must(t, th.GetCurrentContext(&c))
	ctx := &settings{Thread: w.rt.ThreadIn(c), dev: dev, name: name}
	w.ctxs = append(w.ctxs, ctx)
	w.addStream(ctx, 0)
}

func (w *world) addStream(ctx *settings, h core.Handle) *stream {
	s := &stream{index: w.indexes, ctx: ctx, h: h, synced: true}
	w.indexes++
	w.streams = append(w.streams, s)
	return s
}

// logf notes a step of the program.
func (w *world) logf(t *rapid.T, format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
	t.Log(w.trace[len(w.trace)-1])
}

// close ends everything, whatever state it is in.
func (w *world) close() error {
	w.openGates()
	return w.rt.Close()
}

func must(t *rapid.T, err *core.Error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect checks a code; 0 is success.
func expect(t *rapid.T, err *core.Error, code abi.Code, what string) {
	t.Helper()
	switch {
	case err == nil && code != 0:
		t.Fatalf("%s: no error, want %d", what, code)
	case err != nil && (err.Code != code || !errors.Is(err, err.Code)):
		t.Fatalf("%s: %v, want %d", what, err, code)
	}
}

// openGates lets all streams go on. It comes before everything that waits.
func (w *world) openGates() {
	for _, s := range w.streams {
		if s.gate != nil {
			close(s.gate)
			s.gate = nil
		}
	}
}

// learn adds to what the host knows, and forgets accesses that are over.
func (w *world) learn(c clock) {
	w.host = join(w.host, c)
	over := func(a access) bool { return w.host.at(a.stream.index) >= a.task }
	for _, b := range w.buffers {
		b.busy = slices.DeleteFunc(b.busy, over)
	}
	for _, e := range w.events {
		e.state.busy = slices.DeleteFunc(e.state.busy, over)
	}
}

// report is the failure a synchronisation of s must report, once.
func (s *stream) report() abi.Code {
	if s.failed == nil {
		return 0
	}
	code := s.failed.code
	s.failed = nil
	return code
}

// sync synchronises s.
func (w *world) sync(t *rapid.T, s *stream) {
	w.openGates()
	w.logf(t, "sync %v", s)
	expect(t, s.ctx.SynchronizeStream(s.h), s.report(), "SynchronizeStream")
	s.synced = true
	w.learn(s.clock)
}

// syncContext synchronises all streams of a context; of several failures any may be reported.
func (w *world) syncContext(t *rapid.T, ctx *settings) {
	w.openGates()
	w.logf(t, "sync %s", ctx.name)
	codes := []abi.Code{}
	for _, s := range w.streams {
		if s.ctx == ctx {
			if c := s.report(); c != 0 {
				codes = append(codes, c)
			}
		}
	}
	err := ctx.SynchronizeDevice()
	switch {
	case err == nil && len(codes) > 0:
		t.Fatalf("SynchronizeDevice: no error, want one of %v", codes)
	case err != nil && !slices.Contains(codes, err.Code):
		t.Fatalf("SynchronizeDevice: %v, want one of %v", err, codes)
	}
	for _, s := range w.streams {
		if s.ctx == ctx {
			s.synced = true
			w.learn(s.clock)
		}
	}
}

// orderHost makes the host wait for whatever uses these bytes.
func (w *world) orderHost(t *rapid.T, uses ...use) {
	for {
		s := conflict(uses, w.host)
		if s == nil {
			return
		}
		switch rapid.IntRange(0, 2).Draw(t, "host waits by") {
		case 0:
			w.sync(t, s)
		case 1:
			w.syncContext(t, s.ctx)
		case 2:
			e := w.newEvent(t, s.ctx, exEvent)
			w.record(t, e, s)
			w.syncEvent(t, e)
			w.destroyEvent(t, e)
		}
	}
}

// order makes what is submitted to s next wait for whatever uses these bytes.
func (w *world) order(t *rapid.T, s *stream, uses ...use) {
	for {
		o := conflict(uses, join(s.clock, w.host))
		if o == nil {
			return
		}
		if rapid.Bool().Draw(t, "host orders") {
			w.sync(t, o)
			continue
		}
		e := w.newEvent(t, o.ctx, rapid.SampledFrom([]eventKind{exEvent, timedEvent}).Draw(t, "event"))
		w.record(t, e, o)
		w.await(t, e, s)
		w.destroyEvent(t, e)
	}
}

// submitted notes a task that was put on s.
func (w *world) submitted(s *stream, uses ...use) {
	s.tasks++
	s.clock = join(s.clock, w.host).with(s.index, s.tasks)
	s.synced = false
	for _, u := range uses {
		u.b.busy = append(u.b.busy, access{u.lo, u.hi, u.write, s, s.tasks})
	}
}

// taskFailed notes that the latest task of s fails when it runs.
func (s *stream) taskFailed(code abi.Code) {
	if s.failed == nil {
		s.failed = &failed{code, s.tasks}
	}
}

// pick is a random element, skipping the action if there is none.
func pick[T any](t *rapid.T, list []T, label string) T {
	if len(list) == 0 {
		t.Skip("no " + label)
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, label)]
}

// some are the buffers of the given kinds.
func (w *world) some(kinds ...place) []*buffer {
	var list []*buffer
	for _, b := range w.buffers {
		if slices.Contains(kinds, b.kind) {
			list = append(list, b)
		}
	}
	return list
}

// part is a random range of b with at most most bytes, often as many as there are.
func part(t *rapid.T, b *buffer, most int, label string) (off, n int) {
	n = min(most, len(b.want))
	if !rapid.Bool().Draw(t, label+" all") {
		n = rapid.IntRange(0, n).Draw(t, label+" bytes")
	}
	return rapid.IntRange(0, len(b.want)-n).Draw(t, label+" offset"), n
}

// reach lets the device of ctx use b, if that is foreign.
func (w *world) reach(t *rapid.T, ctx *settings, list ...*buffer) {
	for _, b := range list {
		if b.kind == onDevice && b.dev != ctx.dev && w.prod.PeerEnable && !w.peers[ctx.dev][b.dev] {
			w.logf(t, "peer %d -> %d", ctx.dev, b.dev)
			must(t, corememory.DeviceEnablePeerAccess(ctx.Thread, int32(b.dev), 0))
			w.peers[ctx.dev][b.dev] = true
		}
	}
}

// check synchronises everything and compares everything.
func (w *world) check(t *rapid.T) {
	w.openGates()
	for _, s := range w.streams {
		w.sync(t, s)
	}
	for _, s := range w.streams {
		w.queryStream(t, s)
	}
	for _, e := range w.events {
		w.queryEvent(t, e)
		if e.kind != exEvent {
			var st abi.EventWaitStatus
			must(t, e.ctx.QueryEventWaitStatus(e.h, &st))
			if st != abi.EventWaitStatusComplete {
				t.Fatalf("%v: waits are not over, but all streams are", e)
			}
		}
	}
	for _, b := range w.buffers {
		got := b.mem
		if b.kind == onDevice {
			got = make([]byte, len(b.want))
			must(t, transfer.Memcpy(w.ctxs[b.dev].Thread, addrOf(got), uint64(len(got)), b.addr, uint64(len(got)),
				abi.MemcpyDeviceToHost))
		}
		compare(t, b, 0, got)
	}
}

// compare compares part of a buffer with the model.
func compare(t *rapid.T, b *buffer, off int, got []byte) {
	t.Helper()
	want := b.want[off : off+len(got)]
	if bytes.Equal(got, want) {
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%v: byte %d is %#x, want %#x", b, off+i, got[i], want[i])
		}
	}
}
