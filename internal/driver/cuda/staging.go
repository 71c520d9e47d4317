package cuda

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/cuda/memory"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/memcopy"
)

// haul is a copy between memory of a GPU and host memory that GPUs cannot access. Several lanes work on it, each with a
// goroutine. A lane takes a load, copies it between host memory and one of its slots, and takes the next load while
// that one is on the link. Together they keep the link busy, which one core cannot.
type haul struct {
	gpu    *engine
	up     bool      // to the GPU
	stream bool      // the host's writes bypass its caches
	lanes  uint64    // most lanes that work on it
	survey *portions // probes the host memory before anything is written; nil: it has been probed

	mu    sync.Mutex
	rest  cursor // guarded by mu; copies that no lane has taken
	taken uint64 // guarded by mu; bytes taken
	left  uint64 // guarded by mu; bytes not taken
	err   error  // guarded by mu; the first error; no loads are taken after it
}

// The sizes were the best ones on a machine with 16 cores and an H200.
const (
	loadFirst  = 512 << 10                 // most bytes of the first and the last loads of a haul
	loadBytes  = 1 << 20                   // most bytes of any other
	loadPieces = 4 << 10                   // most segments of a load
	slotBytes  = loadBytes + 16*loadPieces // each segment has the offset from a multiple of 16 of its other end
	slotCount  = 4                         // slots of a lane
	stageBytes = slotCount * slotBytes

	laneBytes = 2 << 20 // fewer bytes are not worth waking a helper for another lane
	streamUp  = 1 << 20 // least bytes of a haul whose writes on the host bypass its caches
	// the same for a haul from the GPU: less may still be in the cache when the program reads it
	streamDown = 64 << 20
)

// slot is pinned memory for one load.
type slot struct {
	event uintptr          // recorded after the work that uses the slot
	busy  bool             // the slot is in use
	last  bool             // its load is the last of the haul, and has no event
	load  []driver.Segment // segments in host memory
	wire  []driver.Segment // the same bytes between the slot and the GPU
}

// runCopy carries out a copy to or from a GPU; false if op is not one. It touches every page of ordinary memory before
// anything is written: for a copy from the GPU while the first loads are on the link; for a copy to the GPU before
// that, unless it is a single load, which reads all of the memory anyway.
func (d *Driver) runCopy(op *driver.Op) (done bool, err error) {
	if op.Kind != driver.OpCopy || op.N == 0 {
		return false, nil
	}
	m := mover{d: d, pageable: true}
	defer m.end(&err)
	to, from, err := m.ends(op.Dst, op.Src, op.N, op.N)
	if err != nil || to.Kind != memory.OnGPU && from.Kind != memory.OnGPU {
		return false, err
	}
	if to.Kind != memory.ByHost && from.Kind != memory.ByHost {
		return true, m.move(to, from, op.N)
	}
	l, err := m.between(to, from)
	if err != nil {
		return false, err
	}
	all := cursor{rows: rows{dst: to.Addr, src: from.Addr, n: op.N, height: 1}}
	h := newHaul(l.gpu, to.Kind == memory.OnGPU, all, op.N)
	if !h.up {
		h.survey = newPortions(op.N, writing.prober(to.Addr))
	} else if op.N > loadFirst || l.stage == 0 { // a smaller copy is one load
		h.survey = newPortions(op.N, reading.prober(from.Addr))
	}
	return true, h.do(l)
}

// newHaul returns a haul of the n bytes of rest.
func newHaul(c *engine, up bool, rest cursor, n uint64) *haul {
	return &haul{
		gpu: c, up: up, rest: rest, left: n,
		stream: up && n >= streamUp || !up && n >= streamDown,
		lanes:  min(uint64(maxHelpers()), n/laneBytes+1),
	}
}

// do carries out the haul, with l and as many other lanes as pay.
func (h *haul) do(l *lane) error {
	d := h.gpu.d
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	withHelpers(int(h.lanes)-1, func() { h.work(l) }, func() {
		if l, err := h.gpu.takeLane(); err == nil { // without this lane the others do all the work
			h.work(l)
			h.gpu.giveLane(l)
		}
	})
	return h.err // lockcheck: all helpers are done
}

// work takes loads until none is left.
func (h *haul) work(l *lane) {
	// Probe first: the driver's own memory must not be mapped where memory of the program is missing.
	if (h.up || l.stage == 0) && !h.check() {
		return
	}
	if err := l.needStage(); err != nil {
		h.fail(err)
		return
	}
	i := 0
	next := func() *slot {
		i++
		return &l.slots[i%slotCount]
	}
	s := next()
	for ; ; s = next() {
		h.collect(l, s)
		if !h.load(s) {
			break
		}
		s.lay(l.stage+uintptr(i%slotCount)*slotBytes, h.up)
		if h.up {
			if err := h.copyAll(s); err != nil {
				h.fail(err)
				continue
			}
		}
		h.fail(l.send(s, h.up))
	}
	for range slotCount {
		if h.up {
			s.busy = false // finish waits for all of them
		}
		h.collect(l, s)
		s = next()
	}
	h.fail(l.gpu.Check("copy", l.finish()))
}

// load takes the load of a slot, and returns false if none is left or the haul has failed. The first loads are small,
// so that both the link and the host start soon; so are the last ones, so that the lanes end together.
func (h *haul) load(s *slot) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return false
	}
	n := min(loadBytes, max(loadFirst, min(h.taken, h.left/(2*h.lanes))))
	s.load = h.rest.next(n, loadPieces, s.load[:0])
	for i := range s.load {
		h.taken += s.load[i].N
		h.left -= s.load[i].N
	}
	s.last = h.left == 0
	return len(s.load) > 0
}

func (h *haul) fail(err error) {
	if err == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
}

// check probes the host memory, together with the other lanes, unless that was done. It returns false if the haul has
// failed.
func (h *haul) check() bool {
	if h.survey != nil {
		h.fail(h.survey.join())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err == nil
}

// collect waits for a slot, and copies a load from the GPU to host memory.
func (h *haul) collect(l *lane, s *slot) {
	if !s.busy {
		return
	}
	s.busy = false
	good := h.up || h.check()
	var r libcuda.Result
	if s.last {
		r = l.finish()
	} else {
		r = l.gpu.await(s.event, spinRunner)
	}
	err := l.gpu.Check("copy", r)
	if good && err == nil && !h.up {
		err = h.copyAll(s)
	}
	h.fail(err)
}

// copyAll copies a load to or from its slot. The program may have unmapped its memory by now.
func (h *haul) copyAll(s *slot) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	copy := memcopy.Copy
	if h.stream {
		copy = memcopy.CopyStream
	}
	for i := range s.load {
		if n := uintptr(s.load[i].N); h.up {
			copy(s.wire[i].Src, s.load[i].Src, n)
		} else {
			copy(s.load[i].Dst, s.wire[i].Dst, n)
		}
	}
	return nil
}

// lay sets the position of each segment of the load in the slot, whose address is at.
func (s *slot) lay(at uintptr, up bool) {
	s.wire = s.wire[:0]
	for _, p := range s.load {
		far := p.Src // the end on the GPU
		if up {
			far = p.Dst
		}
		at = (at+15)&^15 + far&15
		if up {
			s.wire = append(s.wire, driver.Segment{Dst: far, Src: at, N: p.N})
		} else {
			s.wire = append(s.wire, driver.Segment{Dst: at, Src: far, N: p.N})
		}
		at += uintptr(p.N)
	}
}

// needStage allocates memory for the slots of the lane, unless they have it.
func (l *lane) needStage() error {
	if l.stage != 0 {
		return nil
	}
	l.gpu.Enter()
	addr, r := l.gpu.AllocInner(stageBytes)
	l.gpu.Leave()
	if r == libcuda.Success {
		l.stage = addr
	}
	return l.gpu.Check("cuMemHostAlloc", r)
}

// send passes the copies between a slot and the GPU to the stream, and records the event of the slot after them.
func (l *lane) send(s *slot, up bool) error {
	c := l.gpu
	c.Enter()
	defer c.Leave()
	c.d.Gone.RLock()
	defer c.d.Gone.RUnlock()
	b := c.newBatch(l.stream)
	defer b.release()
	for _, p := range s.wire {
		b.bytes += p.N
	}
	staged := memory.View{Window: kernels.Window{Lo: l.stage, Size: stageBytes}, Kind: memory.Pinned}
	if up {
		b.from.known = staged
	} else {
		b.to.known = staged
	}
	if !b.judge(s.wire, 0) {
		return fmt.Errorf("%w: memory of device %d has gone", driver.ErrFault, c.Number)
	}
	l.used = true
	l.load += b.bytes
	if !b.put(l.stream) {
		return errors.Join(libcuda.ErrRefused, c.Check("copy", c.d.lib.StreamQuery(l.stream)))
	}
	if s.last {
		s.busy = true
		return nil
	}
	r := c.d.lib.EventRecord(s.event, l.stream)
	s.busy = r == libcuda.Success
	return c.Check("cuEventRecord", r)
}

// read copies len(b) bytes from the GPU and waits for them. No other work is on the lane.
func (l *lane) read(b []byte, src uintptr) error {
	if err := l.needStage(); err != nil {
		return err
	}
	if err := l.copy(l.stage, src, uint64(len(b))); err != nil {
		return err
	}
	if err := l.gpu.Check("copy", l.finish()); err != nil {
		return err
	}
	copy(b, bytesAt(l.stage, uint64(len(b))))
	return nil
}

// cursor iterates over copies from the first byte to the last: rows of a 2-D copy, then the segments of a list.
type cursor struct {
	rows rows
	list []driver.Segment
	done uint64 // bytes of the next row that are done
}

// rows are height copies of n bytes at distances of the pitches.
type rows struct {
	dst, src           uintptr
	n, height          uint64
	dstPitch, srcPitch uint64
}

// next appends the next pieces to into, at most the given bytes and pieces.
func (c *cursor) next(bytes uint64, pieces int, into []driver.Segment) []driver.Segment {
	for bytes > 0 && len(into) < pieces {
		r := &c.rows
		if r.height == 0 {
			if len(c.list) == 0 {
				break
			}
			*r = rows{dst: c.list[0].Dst, src: c.list[0].Src, n: c.list[0].N, height: 1}
			c.list = c.list[1:]
		}
		if n := min(bytes, r.n-c.done); n > 0 {
			into = append(into, driver.Segment{Dst: r.dst + uintptr(c.done), Src: r.src + uintptr(c.done), N: n})
			bytes -= n
			c.done += n
		}
		if c.done == r.n {
			c.done = 0
			r.dst, r.src, r.height = r.dst+uintptr(r.dstPitch), r.src+uintptr(r.srcPitch), r.height-1
		}
	}
	return into
}
