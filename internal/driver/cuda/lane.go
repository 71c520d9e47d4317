package cuda

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/memcopy"
)

// lane is a stream for work that somebody waits for, with two pinned halves that host memory goes through which GPUs do not
// reach: while one is on its way, the host fills or empties the other. One goroutine at a time uses it.
type lane struct {
	card   *card
	stream uintptr
	half   [2]half
	now    int     // the half that is filled
	stage  uintptr // both halves; 0 until first used
	scrap  uintptr // device memory for copies that overlap; 0 until first used
	fault  error   // met while the halves were emptied
}

// half is one half of the staging memory.
type half struct {
	event uintptr // behind what uses it; 0 until first used
	used  uint64  // bytes
	busy  bool    // the event was recorded
	out   []segment
}

// segment is bytes of a half that go to the host when they have come.
type segment struct {
	dst uintptr
	off uint64
	n   uint64
}

const (
	halfBytes  = 4 << 20
	scrapBytes = 4 << 20
)

// takeLane takes a lane that is not in use.
func (c *card) takeLane() (*lane, error) {
	if err := c.start(); err != nil {
		return nil, err
	}
	if err := c.healthy(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if n := len(c.lanes); n > 0 {
		l := c.lanes[n-1]
		c.lanes = c.lanes[:n-1]
		c.mu.Unlock()
		return l, nil
	}
	c.mu.Unlock()
	c.enter()
	defer c.leave()
	l := &lane{card: c}
	var r result
	if l.stream, r = c.stream(0); r != success {
		return nil, c.check("cuStreamCreate", r)
	}
	for i := range l.half {
		if l.half[i].event, r = c.event(); r != success {
			return nil, c.check("cuEventCreate", r)
		}
	}
	return l, nil
}

func (c *card) giveLane(l *lane) {
	l.fault = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes = append(c.lanes, l)
}

// free gives back the memory of a lane; its stream and events are the card's. The card is entered.
func (l *lane) free() result {
	r := success
	if l.stage != 0 {
		r = l.card.d.lib.freeHost(l.stage)
	}
	if l.scrap != 0 {
		r = max(r, l.card.d.lib.free(l.scrap))
	}
	return r
}

// alive fails if memory has gone since it was found. Driver.gone is held until CUDA has the work: to reach for what is not there
// would cost the whole device.
func (l *lane) alive(addr uintptr, n uint64) error {
	if addr-l.stage < 2*halfBytes && l.stage != 0 || addr-l.scrap < scrapBytes && l.scrap != 0 {
		return nil
	}
	_, err := l.card.d.resolve(addr, n, false)
	return err
}

// put gives work on two ranges to the stream.
func (l *lane) put(call string, dst, src uintptr, dstBytes, srcBytes uint64, work func(lib api) result) error {
	d := l.card.d
	l.card.enter()
	defer l.card.leave()
	d.gone.RLock()
	defer d.gone.RUnlock()
	if err := l.alive(dst, dstBytes); err != nil {
		return err
	}
	if err := l.alive(src, srcBytes); err != nil {
		return err
	}
	return l.card.check(call, work(d.lib))
}

func (l *lane) copy(dst, src uintptr, n uint64) error {
	return l.put("cuMemcpyAsync", dst, src, n, n, func(lib api) result { return lib.copyAsync(dst, src, n, l.stream) })
}

func (l *lane) copy2D(c *copy2D) error {
	dst, src := (c.height-1)*c.dstPitch+c.width, (c.height-1)*c.srcPitch+c.width
	return l.put("cuMemcpy2DAsync", c.dst, c.src, dst, src, func(lib api) result { return lib.copy2DAsync(c, l.stream) })
}

func (l *lane) fill(at uintptr, op *driver.Op) error {
	n := op.N * uint64(op.Width)
	return l.put("cuMemsetAsync", at, at, n, n, func(api) result { return l.card.d.fill(at, op, l.stream) })
}

// shift copies n bytes within device memory where the two ranges overlap, as memmove would: in pieces that are as long as the
// ranges are apart, or, if that is little, through other memory; beginning at the end that is overwritten last.
func (l *lane) shift(dst, src uintptr, n uint64) error {
	piece := uint64(max(dst, src) - min(dst, src))
	if piece == 0 {
		return nil
	}
	through := piece < scrapBytes
	if through {
		piece = scrapBytes
		if err := l.needScrap(); err != nil {
			return err
		}
	}
	for done := uint64(0); done < n; {
		m := min(piece, n-done)
		at := uintptr(done)
		if dst > src {
			at = uintptr(n - done - m)
		}
		from := src + at
		if through {
			if err := l.copy(l.scrap, from, m); err != nil {
				return err
			}
			from = l.scrap
		}
		if err := l.copy(dst+at, from, m); err != nil {
			return err
		}
		done += m
	}
	return nil
}

func (l *lane) needScrap() error {
	if l.scrap != 0 {
		return nil
	}
	l.card.enter()
	defer l.card.leave()
	addr, r := l.card.d.lib.alloc(scrapBytes)
	if r == success {
		l.scrap = addr
	}
	return l.card.check("cuMemAlloc", r)
}

// room makes room for up to n bytes in a half: where they begin, and how many there may be.
func (l *lane) room(n uint64) (at uintptr, part uint64, err error) {
	if l.stage == 0 {
		l.card.enter()
		addr, r := l.card.d.lib.allocHost(2 * halfBytes)
		l.card.leave()
		if err := l.card.check("cuMemHostAlloc", r); err != nil {
			return 0, 0, err
		}
		l.stage = addr
	}
	if l.half[l.now].used == halfBytes {
		if err := l.card.check("copy", l.send(l.now)); err != nil {
			return 0, 0, err
		}
		l.now ^= 1
		if err := l.card.check("copy", l.empty(l.now)); err != nil {
			return 0, 0, err
		}
	}
	h := &l.half[l.now]
	return l.stage + uintptr(l.now*halfBytes) + uintptr(h.used), min(n, halfBytes-h.used), nil
}

// up copies host memory that GPUs do not reach to the device.
func (l *lane) up(dst, src uintptr, n uint64) error {
	for n > 0 {
		at, part, err := l.room(n)
		if err != nil {
			return err
		}
		if err := spread(at, src, uintptr(part)); err != nil {
			return err
		}
		if err := l.copy(dst, at, part); err != nil {
			return err
		}
		l.half[l.now].used += part
		dst, src, n = dst+uintptr(part), src+uintptr(part), n-part
	}
	return nil
}

// down copies from the device to such memory; the bytes are there after finish.
func (l *lane) down(dst, src uintptr, n uint64) error {
	for n > 0 {
		at, part, err := l.room(n)
		if err != nil {
			return err
		}
		if err := l.copy(at, src, part); err != nil {
			return err
		}
		h := &l.half[l.now]
		h.out = append(h.out, segment{dst, h.used, part})
		h.used += part
		dst, src, n = dst+uintptr(part), src+uintptr(part), n-part
	}
	return nil
}

// read copies len(b) bytes from the device and waits for them. Nothing else is in the halves.
func (l *lane) read(b []byte, src uintptr) error {
	at, _, err := l.room(uint64(len(b)))
	if err != nil {
		return err
	}
	if err := l.copy(at, src, uint64(len(b))); err != nil {
		return err
	}
	if err := l.card.check("copy", l.finish()); err != nil {
		return err
	}
	copy(b, bytesAt(at, uint64(len(b))))
	return nil
}

// send puts the event of a half behind what uses it.
func (l *lane) send(i int) result {
	l.card.enter()
	defer l.card.leave()
	l.half[i].busy = true
	return l.card.d.lib.record(l.half[i].event, l.stream)
}

// empty waits for a half that was sent, and passes on what has come.
func (l *lane) empty(i int) result {
	h := &l.half[i]
	r := success
	if h.busy {
		r = l.card.await(h.event)
	}
	h.busy, h.used = false, 0
	if r == success {
		l.passOn(i)
	}
	h.out = h.out[:0]
	return r
}

// passOn copies what has come from the device to where it goes, which may have been unmapped meanwhile.
func (l *lane) passOn(i int) {
	if len(l.half[i].out) == 0 {
		return
	}
	base := l.stage + uintptr(i*halfBytes)
	for _, s := range l.half[i].out {
		if err := spread(s.dst, base+uintptr(s.off), uintptr(s.n)); err != nil {
			l.fault = err
			return
		}
	}
}

// spread copies n bytes between host memory, with several cores if that pays: one cannot keep the link busy.
func spread(dst, src, n uintptr) error {
	const hands, least = 4, 1 << 20
	if n < least || runtime.GOMAXPROCS(0) < hands {
		return guardedCopy(dst, src, n)
	}
	var errs [hands]error
	var wg sync.WaitGroup
	part := (n/hands + hostPage - 1) &^ (hostPage - 1)
	for i := range hands {
		lo, hi := min(uintptr(i)*part, n), min(uintptr(i+1)*part, n)
		if i == hands-1 {
			hi = n
		}
		wg.Go(func() { errs[i] = guardedCopy(dst+lo, src+lo, hi-lo) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// guardedCopy copies memory that may have lost its pages.
func guardedCopy(dst, src, n uintptr) (err error) {
	defer guarded(debug.SetPanicOnFault(true), &err)
	memcopy.Copy(dst, src, n)
	return nil
}

// finish waits for all that is under way.
func (l *lane) finish() result {
	r := l.empty(l.now ^ 1)
	if s := l.send(l.now); s != success {
		l.half[l.now].busy = false
		r = max(r, s)
	}
	return max(r, l.empty(l.now))
}
