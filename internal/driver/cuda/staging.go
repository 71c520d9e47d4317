package cuda

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/parts"
	"ropeway/internal/memcopy"
)

// haul is a copy between memory of a card and host memory that GPUs do not reach. Several lanes work on it, each with a
// goroutine: it takes a load, moves it between host memory and one of its two slots, and while that is on the link, it turns to the
// other. Between them they keep the link busy, which one core cannot.
type haul struct {
	card *card
	up   bool // to the card

	mu   sync.Mutex
	rest cursor // guarded by mu; what no lane has taken yet
	err  error  // guarded by mu; the first there was; nothing more is taken then
}

// slot is pinned memory for one load.
type slot struct {
	event uintptr          // behind what uses it
	busy  bool             // it was recorded
	load  []driver.Segment // host memory to and from
	wire  []driver.Segment // the same bytes between the slot and the card
}

const (
	loadBytes  = 1 << 20                   // of a load, at most
	loadPieces = 4 << 10                   // and segments
	slotBytes  = loadBytes + 16*loadPieces // they lie as far behind a multiple of 16 as their other ends
	stageBytes = 2 * slotBytes
	laneBytes  = 2 * loadBytes // for less, another lane is not worth waking somebody
)

// do carries it out, with l and as many other lanes as n bytes are worth.
func (h *haul) do(l *lane, n uint64) error {
	var wg sync.WaitGroup
	for range min(uint64(hands()), n/laneBytes+1) - 1 {
		wg.Go(func() {
			if l, err := h.card.takeLane(); err == nil { // without it the others do all
				h.work(l)
				h.card.giveLane(l)
			}
		})
	}
	h.work(l)
	wg.Wait()
	return h.err
}

// work takes loads until there are none.
func (h *haul) work(l *lane) {
	if err := l.needStage(); err != nil {
		h.fail(err)
		return
	}
	for i := 0; ; i ^= 1 {
		h.fail(h.collect(l, i))
		s := &l.slot[i]
		if s.load = h.take(s.load[:0]); len(s.load) == 0 {
			h.fail(h.collect(l, i^1))
			return
		}
		l.lay(i, h.up)
		if h.up {
			if err := copyAll(s.load, s.wire, true); err != nil {
				h.fail(err)
				continue
			}
		}
		h.fail(l.send(i, h.up))
	}
}

// take is the next load; none if there is no more, or something went wrong.
func (h *haul) take(into []driver.Segment) []driver.Segment {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return into
	}
	return h.rest.take(loadBytes, loadPieces, into)
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

// collect waits for a slot, and passes on what has come from the card.
func (h *haul) collect(l *lane, i int) error {
	s := &l.slot[i]
	if !s.busy {
		return nil
	}
	s.busy = false
	if err := l.card.check("copy", l.card.await(s.event, spinShort)); err != nil || h.up {
		return err
	}
	return copyAll(s.load, s.wire, false)
}

// needStage sees to it that the lane has its slots.
func (l *lane) needStage() error {
	if l.stage != 0 {
		return nil
	}
	l.card.enter()
	addr, r := l.card.d.lib.allocHost(stageBytes)
	l.card.leave()
	if r == success {
		l.stage = addr
	}
	return l.card.check("cuMemHostAlloc", r)
}

// lay says where in a slot each segment of its load comes to lie.
func (l *lane) lay(i int, up bool) {
	s := &l.slot[i]
	at := l.stage + uintptr(i*slotBytes)
	s.wire = s.wire[:0]
	for _, p := range s.load {
		far := p.Src // on the card
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

// copyAll copies a load to its slot, or from it. The program may have unmapped its memory meanwhile.
func copyAll(load, wire []driver.Segment, up bool) (err error) {
	defer parts.Guarded(debug.SetPanicOnFault(true), &err)
	for i := range load {
		if n := uintptr(load[i].N); up {
			memcopy.Copy(wire[i].Src, load[i].Src, n)
		} else if n < loadBytes {
			memcopy.Copy(load[i].Dst, wire[i].Dst, n)
		} else {
			memcopy.CopyStream(load[i].Dst, wire[i].Dst, n)
		}
	}
	return nil
}

// send gives what is in a slot, or will be, to the stream, and puts the event of the slot behind it.
func (l *lane) send(i int, up bool) error {
	s := &l.slot[i]
	c := l.card
	c.enter()
	defer c.leave()
	c.d.gone.RLock()
	defer c.d.gone.RUnlock()
	b := batchPool.Get().(*batch)
	defer b.release()
	b.c = c
	for _, p := range s.wire {
		b.bytes += p.N
	}
	staged := view{Window: kernels.Window{Lo: l.stage, Size: stageBytes}, kind: pinned}
	if up {
		b.from.known = staged
	} else {
		b.to.known = staged
	}
	if !b.judge(s.wire, 0) {
		return fmt.Errorf("%w: memory of device %d has gone", driver.ErrFault, c.number)
	}
	if !b.put(l.stream) {
		return errors.Join(errCUDA, c.check("copy", c.d.lib.queryStream(l.stream)))
	}
	r := c.d.lib.record(s.event, l.stream)
	s.busy = r == success
	return c.check("cuEventRecord", r)
}

// read copies len(b) bytes from the card and waits for them. Nothing else uses the lane.
func (l *lane) read(b []byte, src uintptr) error {
	if err := l.needStage(); err != nil {
		return err
	}
	if err := l.copy(l.stage, src, uint64(len(b))); err != nil {
		return err
	}
	if err := l.card.check("copy", l.finish()); err != nil {
		return err
	}
	copy(b, bytesAt(l.stage, uint64(len(b))))
	return nil
}

// cursor goes through copies from the first byte to the last: rows of a 2-D copy, then the segments of a list.
type cursor struct {
	rows rows
	list []driver.Segment
	done uint64 // bytes of the row that comes next
}

// rows are height copies of n bytes; from one to the next it is a pitch.
type rows struct {
	dst, src           uintptr
	n, height          uint64
	dstPitch, srcPitch uint64
}

// take appends what comes next to into, up to so many bytes and pieces.
func (c *cursor) take(bytes uint64, pieces int, into []driver.Segment) []driver.Segment {
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
