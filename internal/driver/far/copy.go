package far

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/pod"
)

// flight is a copy, a fill, a descriptor copy or the work of start that may use memory of other servers. It is a
// driver.Gate: the queue stops at it until all of it has ended.
type flight struct {
	d        *Driver   // immutable
	op       driver.Op // immutable
	pageable bool      // immutable; the local side may be ordinary host memory
	pattern  []byte    // bytes that a fill or a store writes, once it has begun

	// immutable; if not nil, runs instead of op, without memory of the driver below
	start func(*flight) error

	mu    sync.Mutex
	state state  // guarded by mu
	wake  func() // guarded by mu; nil: the queue does not wait
	left  bool   // guarded by mu; the queue has called Leave
	reads bool   // guarded by mu; fly reads the segments of op
	spent bool   // guarded by mu; the queue no longer needs the segments
	parts int    // guarded by mu; number of parts that have not ended
	err   error  // guarded by mu; error of the first part that failed
}

type state uint8

const (
	atRest state = iota
	waits        // waits for the holders: see Driver.still
	flying
	over
)

// touches reports whether op may use memory of another server. It is true for descriptor copies, whose addresses are
// unknown before they run.
func (d *Driver) touches(op *driver.Op) bool {
	far := op.Kind.Class() == driver.Finds
	if op.Kind.Class() == driver.Moves {
		op.Ranges(math.MaxUint64, func(lo, hi uintptr, _ bool) bool {
			far = d.meets(lo, uint64(hi-lo))
			return !far
		})
	}
	return far
}

// Pass implements driver.Gate.
func (x *flight) Pass(wake func()) bool {
	x.mu.Lock()
	begin := x.state == atRest
	if begin {
		x.state = waits
	}
	x.mu.Unlock()
	if begin && (x.start != nil || x.d.depart(x)) {
		x.fly()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wake = wake // not earlier: wake must not be called inside Pass
	return x.state == over
}

// Leave implements driver.Gate. A copy in flight continues, and uses its memory until it ends.
func (x *flight) Leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wake, x.left = nil, true
}

// dropped reports whether the queue has called Leave.
func (x *flight) dropped() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.left
}

// Err returns the error of the copy.
func (x *flight) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// retry begins a copy that was held.
func (x *flight) retry() {
	if x.d.depart(x) {
		x.fly()
	}
}

// fly begins the copy. It does not wait.
func (x *flight) fly() {
	x.mu.Lock()
	x.state, x.parts = flying, 1
	left := x.left
	x.reads = !left
	x.mu.Unlock()
	switch k := x.op.Kind; {
	case left:
		x.ended(nil)
	case x.start != nil:
		x.ended(x.start(x))
	case k.Class() == driver.Finds:
		go func() { x.ended(x.indirect()) }()
	default:
		err := x.begin(&x.op)
		x.release(false)
		x.ended(err)
	}
}

// release records that the queue (byQueue), or else fly, no longer needs the segments of op. The last of the two calls
// releases them.
func (x *flight) release(byQueue bool) {
	x.mu.Lock()
	x.spent = x.spent || byQueue
	x.reads = x.reads && byQueue
	free := x.spent && !x.reads
	x.mu.Unlock()
	if free && x.op.Segs != nil {
		x.op.Segs.Release()
	}
}

// more counts a part of the copy.
func (x *flight) more() {
	x.mu.Lock()
	x.parts++
	x.mu.Unlock()
}

// ended records that a part of the copy is over. The last part wakes the queue.
func (x *flight) ended(err error) {
	x.mu.Lock()
	if err != nil && x.err == nil {
		x.err = err
	}
	x.parts--
	last := x.parts == 0
	var wake func()
	if last {
		x.state, wake = over, x.wake
	}
	x.mu.Unlock()
	if last {
		if x.start == nil {
			x.d.arrive()
		}
		if wake != nil {
			wake()
		}
	}
}

// translate converts an error of package pod to one of package driver.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pod.ErrFault), errors.Is(err, pod.ErrRange), errors.Is(err, pod.ErrUnknown):
		return fmt.Errorf("%w: %w", driver.ErrFault, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrLost, err)
}

// trip is the part of a copy between this server and one memory of another.
type trip struct {
	of    *memory
	write bool
	stays bool // the memory here stays accessible until the trip has ended: see pod.Remote.WriteStaying
	segs  []pod.Segment
}

// plan is a copy divided into parts.
type plan struct {
	trips  []trip
	local  *driver.Segments // copies in the driver below
	across []crossing       // copies between other servers
	staged []staging        // copies through buffers of this server
	fills  []driver.Op      // fills in the driver below
}

// crossing is a part of a copy between two memories of other servers.
type crossing struct {
	dst, src       *memory
	dstOff, srcOff uint64
	n              uint64
}

// begin begins op. Its parts end by themselves.
func (x *flight) begin(op *driver.Op) error {
	var p plan
	if op.Kind == driver.OpFill {
		x.pattern = newBuffer(min(op.Bytes(), fillBytes))
		x.d.planFill(&p, op, x.pattern)
	} else if err := op.EachCopy(func(dst, src uintptr, n uint64) error {
		return x.d.plan(&p, dst, src, n, x.pageable)
	}); err != nil {
		if p.local != nil {
			p.local.Release()
		}
		return err
	}
	for _, t := range p.trips {
		f := t.of.remote.Read
		switch {
		case t.write && t.stays:
			f = t.of.remote.WriteStaying
		case t.write:
			f = t.of.remote.Write
		}
		x.more()
		f(t.segs, func(err error) { x.ended(translate(err)) })
	}
	if p.local != nil {
		x.more()
		go func() {
			err := x.d.Driver.Run(driver.Op{Kind: driver.OpBatch, Segs: p.local})
			p.local.Release()
			x.ended(err)
		}()
	}
	if len(p.fills) > 0 {
		x.more()
		go func() {
			var err error
			for _, op := range p.fills {
				err = errors.Join(err, x.d.Driver.Run(op))
			}
			x.ended(err)
		}()
	}
	if len(p.staged) > 0 {
		x.more()
		go func() { x.ended(x.d.stage(p.staged)) }()
	}
	if len(p.across) > 0 {
		x.more()
		go func() { x.ended(cross(p.across)) }()
	}
	return nil
}

// plan divides a copy of n bytes where mappings of other servers begin and end.
func (d *Driver) plan(p *plan, dst, src uintptr, n uint64, pageable bool) error {
	for n > 0 {
		to, toOff, toRoom := d.at(dst)
		from, fromOff, fromRoom := d.at(src)
		k := min(n, toRoom, fromRoom)
		switch {
		case to == nil && from == nil:
			if p.local == nil {
				p.local = driver.NewSegments()
			}
			p.local.Add(dst, src, k)
		case to != nil && from != nil:
			p.across = append(p.across, crossing{to, from, toOff, fromOff, k})
		default:
			here, m, off := src, to, toOff
			if to == nil {
				here, m, off = dst, from, fromOff
			}
			if d.isStaged(here) {
				p.staged = append(p.staged, staging{of: m, write: to != nil, here: here, off: off, n: k})
				break
			}
			local, err := d.view(here, k, pageable)
			if err != nil {
				return err
			}
			p.add(m, to != nil, to != nil && d.stays(here), pod.Segment{Local: local, Offset: off, N: k})
		}
		dst, src, n = dst+uintptr(k), src+uintptr(k), n-k
	}
	return nil
}

// add adds a segment to the trip of its memory and direction.
func (p *plan) add(m *memory, write, stays bool, s pod.Segment) {
	for i := range p.trips {
		if t := &p.trips[i]; t.of == m && t.write == write && t.stays == stays {
			t.segs = append(t.segs, s)
			return
		}
	}
	p.trips = append(p.trips, trip{m, write, stays, []pod.Segment{s}})
}

// at returns the memory of another server at addr, the offset in it and the bytes to its end. If there is none, m is
// nil and room the distance to the next mapping.
func (d *Driver) at(addr uintptr) (m *memory, off, room uint64) {
	if s := d.spans.Find(addr); s != nil {
		off = uint64(addr - s.Start)
		return s.Of.of, off, s.Size - off
	}
	if s := d.spans.After(addr); s != nil {
		return nil, 0, uint64(s.Start - addr)
	}
	return nil, 0, 1<<63 - 1
}

// isStaged reports whether memory of the driver below has to be copied through a buffer.
func (d *Driver) isStaged(addr uintptr) bool {
	return d.viewer == nil && d.Driver.Locate(addr).Place != driver.Pageable
}

// stays reports whether memory of the driver below stays accessible until a departed copy ends: calls that remove it
// wait for such copies. The program may unmap its own memory at any time.
func (d *Driver) stays(addr uintptr) bool {
	return d.closing.Load() == 0 && d.viewer != nil && d.viewer.Stays(addr)
}

// view returns the address at which this process can access n bytes of the driver below.
func (d *Driver) view(addr uintptr, n uint64, pageable bool) (uintptr, error) {
	if pageable && d.Driver.Locate(addr).Place == driver.Pageable {
		return addr, nil
	}
	if d.viewer == nil {
		return 0, fmt.Errorf("%w: %d bytes at %#x are not memory that the device can reach", driver.ErrFault, n, addr)
	}
	b, err := d.viewer.View(addr, n)
	if err != nil {
		return 0, err
	}
	return addressOf(b), nil
}

const fillBytes = 256 << 10

// planFill makes writes of one pattern of a fill.
func (d *Driver) planFill(p *plan, op *driver.Op, pattern []byte) {
	total := op.Bytes()
	for i := range pattern {
		pattern[i] = byte(op.Value >> (8 * (uint(i) % uint(op.Width))))
	}
	dst := op.Dst
	for total > 0 {
		m, off, room := d.at(dst)
		if m == nil {
			k := min(total, room)
			p.fills = append(p.fills, driver.Op{Kind: driver.OpFill, Dst: dst, N: k / uint64(op.Width),
				Width: op.Width, Value: op.Value})
			dst, total = dst+uintptr(k), total-k
			continue
		}
		// Each piece begins with the start of the pattern, since mappings begin and end at multiples of 2 MiB.
		k := min(total, room, uint64(len(pattern)))
		p.add(m, true, true, pod.Segment{Local: addressOf(pattern), Offset: off, N: k})
		dst, total = dst+uintptr(k), total-k
	}
}

// cross copies between other servers, through a buffer of this one.
func cross(list []crossing) error {
	const room = 4 << 20
	buffer := newBuffer(room)
	defer runtime.KeepAlive(buffer)
	wait := make(chan error, 1)
	done := func(err error) { wait <- err }
	for _, c := range list {
		for off := uint64(0); off < c.n; off += room {
			n := min(room, c.n-off)
			c.src.remote.Read([]pod.Segment{{Local: addressOf(buffer), Offset: c.srcOff + off, N: n}}, done)
			if err := <-wait; err != nil {
				return translate(err)
			}
			c.dst.remote.WriteStaying([]pod.Segment{{Local: addressOf(buffer), Offset: c.dstOff + off, N: n}}, done)
			if err := <-wait; err != nil {
				return translate(err)
			}
		}
	}
	return nil
}

// indirect carries out the copy that a descriptor describes.
func (x *flight) indirect() error {
	c, err := hostqueue.Indirect(&x.op, x.d, x.d.peek)
	if err != nil {
		return err
	}
	for _, addr := range [...]uintptr{c.Dst, c.Src} {
		if x.d.Locate(addr).Room < c.N {
			return fmt.Errorf("%w: %d bytes at %#x are not inside a live allocation", driver.ErrFault, c.N, addr)
		}
	}
	return x.begin(&c)
}

// peek reads the bytes of a descriptor or a cell.
func (d *Driver) peek(addr uintptr, n uint64) (b [64]byte, err error) {
	if m, off, room := d.at(addr); m != nil && room >= n {
		wait := make(chan error, 1)
		buffer := newBuffer(n)
		m.remote.Read([]pod.Segment{{Local: addressOf(buffer), Offset: off, N: n}}, func(err error) { wait <- err })
		err = translate(<-wait)
		copy(b[:], buffer)
		return b, err
	}
	if d.viewer == nil {
		buffer := newBuffer(n)
		err = d.Driver.Run(driver.Op{Kind: driver.OpCopy, Dst: addressOf(buffer), Src: addr, N: n})
		copy(b[:], buffer)
		return b, err
	}
	v, err := d.viewer.View(addr, n)
	if err == nil {
		copy(b[:], v)
	}
	return b, err
}

// Run implements driver.Driver.
func (d *Driver) Run(op driver.Op) error {
	if d.mounts.Load() == 0 || !d.touches(&op) {
		return d.Driver.Run(op)
	}
	if op.Kind.Class() == driver.Finds {
		return fmt.Errorf("BUG: %w: a synchronous descriptor copy", driver.ErrUnsupported)
	}
	wait := make(chan struct{})
	x := &flight{d: d, op: op, pageable: true, state: waits, wake: func() { close(wait) }}
	x.retry()
	<-wait
	return x.Err()
}
