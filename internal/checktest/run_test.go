package checktest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

// job is the task of a step, as the core numbers it. A batch may be several tasks.
type job struct {
	stream      int32
	first, last uint32
}

// machine is what a program runs on.
type machine struct {
	guard  driver.Guard // nil: no memory is closed
	driver driver.Driver
	check  core.CheckHooks
	touch  toucher // nil: nobody wants to know
}

// toucher is called when a thread of the program, in a step, is about to touch host memory; what it returns is called
// afterwards.
type toucher func(t *core.Thread, step int, addr core.Addr, n int, write bool) (after func())

// run is a program that runs.
type run struct {
	p       *program
	rt      *core.Runtime
	guard   driver.Guard
	toucher toucher
	want    map[seen][]byte // nil: nobody looks at data
	hosts   []*hostThread
	reports []*reportThread
	addrs   []core.Addr
	views   []core.Addr   // where host memory is open whatever is in flight: Go cannot go on after a fault
	gone    []atomic.Bool // buffers that were freed
	maps    [][]byte      // registered and pageable memory
	streams []core.Handle
	ids     []int32
	tasks   []uint32 // tasks of a stream so far
	events  []core.Handle
	words   []core.Addr // of values
	jobs    map[int]job
	done    []chan struct{} // of callbacks, by step

	mu     sync.Mutex
	errors []string // guarded by mu
}

// Numbers of threads; those of the system are smaller.
const (
	hostThreads   = 1 << 30
	reportThreads = 1 << 31
)

// hostThread is one thread of the program. They take turns: a channel hands over.
type hostThread struct {
	*core.Thread
	work chan func(*hostThread)
	dev  int    // current device
	now  caller // step it is in
}

// caller names the step that a thread is in, as the function it calls and as its only frame.
type caller int

func (c *caller) Calling() (function uint32, arguments []uint64, in bool) {
	return uint32(*c), nil, true
}

func (c *caller) Stack([]uintptr) int { return 0 }

func (c *caller) Frames(named [][2]uint32) int {
	named[0] = [2]uint32{1, uint32(*c)}
	return 1
}

// reportThread serves the callbacks of the streams of one device.
type reportThread struct {
	id      uint64
	streams int
	ended   chan struct{}
}

func newSoft(guard bool) (driver.Driver, error) {
	return soft.New(soft.Options{Devices: 2, Memory: 64 << 20, Guard: guard})
}

// execute runs a program to its end and says what went wrong: errors of calls and, if want is not nil, wrong bytes.
func execute(p *program, m machine, want map[seen][]byte) *run {
	prod, err := product.Find(p.product, "")
	if err != nil {
		panic(err)
	}
	r := &run{p: p, want: want, toucher: m.touch, guard: m.guard, jobs: map[int]job{},
		done:  make([]chan struct{}, len(p.steps)),
		addrs: make([]core.Addr, len(p.buffers)), maps: make([][]byte, len(p.buffers)), views: make([]core.Addr,
			len(p.buffers)), gone: make([]atomic.Bool, len(p.buffers)), streams: make([]core.Handle, len(p.streams)),
		ids: make([]int32, len(p.streams)), tasks: make([]uint32, len(p.streams)), events: make([]core.Handle,
			len(p.events)), words: make([]core.Addr, len(p.events)),
		reports: make([]*reportThread, p.devices)}
	for i := range r.done {
		r.done[i] = make(chan struct{})
	}
	r.rt = core.New(core.Options{Driver: m.driver, Product: prod, Probe: core.Probe{Check: m.check}})
	for i := range p.threads {
		h := &hostThread{Thread: r.rt.NewThread(hostThreads + uint32(i)), work: make(chan func(*hostThread)), dev: -1}
		h.SetCaller(&h.now)
		r.hosts = append(r.hosts, h)
		go func() {
			for f := range h.work {
				f(h)
			}
		}()
	}
	for dev := range r.reports {
		r.reports[dev] = &reportThread{id: uint64(reportThreads + dev)}
	}
	r.on(0, r.start)
	for i := range p.steps {
		r.on(p.steps[i].thread, func(h *hostThread) { r.step(h, i) })
	}
	for _, h := range r.hosts {
		r.on(int(h.ID()-hostThreads), func(h *hostThread) { h.Close() })
		close(h.work)
	}
	if err := r.rt.Close(); err != nil {
		r.fail("close: %v", err)
	}
	for _, m := range r.maps {
		if m != nil {
			unix.Munmap(m) //nolint:errcheck // made by the step that allocates
		}
	}
	return r
}

// on runs f on a thread of the program and waits for it.
func (r *run) on(thread int, f func(*hostThread)) {
	over := make(chan struct{})
	r.hosts[thread].work <- func(h *hostThread) {
		defer close(over)
		f(h)
	}
	<-over
}

func (r *run) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// use makes a device current.
func (h *hostThread) use(dev int) {
	if h.dev == dev {
		return
	}
	if err := h.SetDevice(int32(dev)); err != nil {
		panic(err)
	}
	h.dev = dev
}

// start lets the devices reach each other.
func (r *run) start(h *hostThread) {
	for dev := range r.p.devices {
		h.use(dev)
		for other := range r.p.devices {
			if other != dev && r.rt.Product.PeerEnable {
				if err := memory.DeviceEnablePeerAccess(h.Thread, int32(other), 0); err != nil {
					panic(err)
				}
			}
		}
	}
}

func (r *run) at(buf, off int) core.Addr { return r.addrs[buf] + core.Addr(off) }

// step makes the call of a step.
func (r *run) step(h *hostThread, i int) {
	s := &r.p.steps[i]
	h.now = caller(i)
	if queued := r.p.queued(s); queued || s.op == syncStream || s.op == queryStream || s.op == fillAsync ||
		s.op == wordsAsync {
		h.use(r.p.streams[s.stream].dev)
	} else {
		h.use(s.dev)
	}
	if err := r.call(h, i, s); err != nil {
		r.fail("step %d, %s: %v", i, r.p.line(i), err)
		h.Done(err)
		return
	}
	if !r.p.queued(s) || s.op == wait { // a wait that finds nothing to wait for is no task
		return
	}
	var last uint32
	if err := h.GetThreadLastTaskId(&last); err != nil {
		panic(err)
	}
	j := job{r.ids[s.stream], last, last}
	if s.op == batchAsync {
		j.first = r.tasks[s.stream] + 1
	}
	r.jobs[i] = j
	r.tasks[s.stream] = last
}

// call is the call of a step.
func (r *run) call(h *hostThread, i int, s *step) *core.Error {
	p, stream := r.p, r.streams[s.stream]
	var v move
	if len(s.moves) > 0 {
		v = s.moves[0]
	}
	switch s.op {
	case newStream:
		return r.newStream(h, s.stream)
	case destroyStream:
		return r.destroyStream(h, s.stream)
	case newEvent:
		return r.newEvent(h, s.event)
	case destroyEvent:
		return r.destroyEvent(h, s.event)
	case alloc:
		return r.alloc(h, s.buf)
	case free:
		return r.free(h, i, s.buf)
	case copyAsync:
		return transfer.MemcpyAsync(h.Thread, r.at(v.dst, v.to), uint64(v.n), r.at(v.src, v.from), uint64(v.n),
			r.kind(v), stream)
	case copyNow:
		return transfer.Memcpy(h.Thread, r.at(v.dst, v.to), uint64(v.n), r.at(v.src, v.from), uint64(v.n), r.kind(v))
	case fillAsync:
		return transfer.MemsetAsync(h.Thread, r.at(s.buf, s.off), uint64(s.n), int32(s.value), uint64(s.n), stream)
	case fillNow:
		return transfer.Memset(h.Thread, r.at(s.buf, s.off), uint64(s.n), int32(s.value), uint64(s.n))
	case wordsAsync:
		return transfer.MemsetD32Async(h.Thread, r.at(s.buf, s.off), uint64(s.n), s.value, uint64(s.n/4), stream)
	case wordsNow:
		return transfer.MemsetD32(h.Thread, r.at(s.buf, s.off), uint64(s.n), s.value, uint64(s.n/4))
	case copy2DAsync:
		return transfer.Memcpy2dAsync(h.Thread, r.at(v.dst, v.to), uint64(v.dpitch), r.at(v.src, v.from),
			uint64(v.spitch), uint64(v.n), uint64(v.rows), r.kind(v), stream)
	case copy2DNow:
		return transfer.Memcpy2d(h.Thread, r.at(v.dst, v.to), uint64(v.dpitch), r.at(v.src, v.from), uint64(v.spitch),
			uint64(v.n), uint64(v.rows), r.kind(v))
	case batchAsync, batchNow:
		return r.batch(h, s, stream)
	case setDescriptor:
		return transfer.SetMemcpyDesc(h.Thread, r.at(s.buf, s.off), abi.MemcpyInnerDeviceToDevice, r.at(v.src, v.from),
			r.at(v.dst, v.to), uint64(v.n), 0)
	case copyDescriptor:
		return transfer.MemcpyAsyncWithDesc(h.Thread, r.at(s.buf, s.off), abi.MemcpyInnerDeviceToDevice, stream)
	case setCell:
		word := binary.LittleEndian.AppendUint64(nil, uint64(r.addrs[s.target]))
		err := transfer.Memcpy(h.Thread, r.at(s.buf, s.off), 8, addrOf(word), 8, abi.MemcpyHostToDevice)
		runtime.KeepAlive(word)
		return err
	case copyOffset:
		return transfer.MemcpyAsyncWithOffset(h.Thread, r.at(s.buf, s.off), uint64(v.to+v.n), uint64(v.to),
			r.at(s.buf, s.off2), uint64(v.n), uint64(v.from), abi.MemcpyInnerDeviceToDevice, stream)
	case record:
		return r.record(h, s.event, stream)
	case wait:
		return r.wait(h, s.event, stream)
	case reset:
		return h.ResetEvent(r.events[s.event], stream)
	case syncStream:
		return h.SynchronizeStream(stream)
	case syncDevice:
		return h.SynchronizeDevice()
	case syncEvent:
		return h.SynchronizeEvent(r.events[s.event])
	case queryStream:
		st := abi.StreamStatusNotReady
		for st != abi.StreamStatusComplete {
			if err := h.StreamQuery(stream, &st); err != nil {
				return err
			}
			runtime.Gosched()
		}
	case queryEvent:
		st := abi.EventRecordedStatusNotReady
		for st != abi.EventRecordedStatusComplete {
			if err := h.QueryEventStatus(r.events[s.event], &st); err != nil {
				return err
			}
			runtime.Gosched()
		}
	case launch:
		if p.streams[s.stream].service == hostFunctions {
			return h.LaunchHostFunc(stream, r.function(i), 0)
		}
		return h.LaunchCallback(r.function(i), 0, abi.CallbackBlock, stream)
	case post:
		return h.LaunchCallback(r.function(i), 0, abi.CallbackNoBlock, stream)
	case await:
		<-r.done[s.target]
	case touchHost:
		r.touch(h.Thread, i)
	}
	return nil
}

// function is the function of a launch or a post. A callback runs in the thread that reports, a host function in one of
// the system's.
func (r *run) function(i int) func(core.Addr) {
	plan := r.p.streams[r.p.steps[i].stream]
	return func(core.Addr) {
		id := uint32(unix.Gettid())
		if plan.service == callbacks {
			id = uint32(r.reports[plan.dev].id)
		}
		t, now := r.rt.NewThread(id), caller(i)
		t.SetCaller(&now)
		r.touch(t, i)
		close(r.done[i])
	}
}

// touch makes the accesses of the program itself, and compares what it reads.
func (r *run) touch(t *core.Thread, i int) {
	for k, a := range r.p.steps[i].touches {
		r.access(t, i, a.buf, a.off, a.n, a.write, func(at []byte) {
			if a.write {
				a.fill(at)
			} else if r.want != nil {
				r.compare(i, at, r.want[seen{i, k}])
			}
		})
	}
}

// access lets f use host memory where it is always open, after it was judged. Memory that is gone is judged only.
func (r *run) access(t *core.Thread, step, buf, off, n int, write bool, f func(at []byte)) {
	if r.toucher != nil {
		defer r.toucher(t, step, r.at(buf, off), n, write)()
	}
	if !r.gone[buf].Load() {
		f(view(r.views[buf]+core.Addr(off), n))
	}
}

func (r *run) compare(i int, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	for k := range got {
		if got[k] != want[k] {
			r.fail("step %d, %s: byte %d is %#x, want %#x", i, r.p.line(i), k, got[k], want[k])
			return
		}
	}
}
