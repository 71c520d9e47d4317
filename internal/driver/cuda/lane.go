package cuda

import "ropeway/internal/driver"

// lane is a stream for work that a goroutine waits for, with pinned slots for host memory that GPUs do not reach; see
// haul. One goroutine at a time uses it.
type lane struct {
	gpu    *gpu
	stream uintptr
	event  uintptr // for finish
	used   bool    // there is work on the stream that finish has not waited for
	load   uint64  // bytes of it
	slots  [slotCount]slot
	stage  uintptr // their memory; 0 until first used
	fence  *fence  // of the stream; nil until first used
	scrap  uintptr // device memory for copies that overlap; 0 until first used
}

const scrapBytes = 4 << 20

// takeLane takes a lane that is not in use.
func (c *gpu) takeLane() (*lane, error) {
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
	return c.newLane()
}

// newLane makes a lane. If CUDA fails, nothing of it stays taken.
func (c *gpu) newLane() (*lane, error) {
	c.enter()
	defer c.leave()
	l := &lane{gpu: c}
	var r result
	if l.stream, r = c.stream(0); r != success {
		return nil, c.check("cuStreamCreate", r)
	}
	events := []*uintptr{&l.event}
	for i := range l.slots {
		events = append(events, &l.slots[i].event)
	}
	for i, event := range events {
		if *event, r = c.event(sleptEvent); r != success {
			for _, made := range events[:i] {
				c.giveEvent(*made, sleptEvent)
			}
			c.giveStream(l.stream, 0)
			return nil, c.check("cuEventCreate", r)
		}
	}
	return l, nil
}

func (c *gpu) giveLane(l *lane) {
	c.mu.Lock()
	c.lanes = append(c.lanes, l)
	c.mu.Unlock()
}

// free frees the memory of a lane; its stream and events are the GPU's. The GPU is entered.
func (l *lane) free() result {
	r := success
	if l.stage != 0 {
		r = l.gpu.freeInner(l.stage)
	}
	if l.scrap != 0 {
		r = max(r, l.gpu.d.lib.free(l.scrap))
	}
	return r
}

// alive fails if memory has gone since it was found. Driver.gone is held until CUDA has the work: to reach for what is
// not there would cost the whole device.
func (l *lane) alive(addr uintptr, n uint64) error {
	if addr-l.stage < stageBytes && l.stage != 0 || addr-l.scrap < scrapBytes && l.scrap != 0 {
		return nil
	}
	_, err := l.gpu.d.resolve(addr, n, false)
	return err
}

// put gives work on two ranges to the stream.
func (l *lane) put(call string, dst, src uintptr, dstBytes, srcBytes uint64, work func(lib api) result) error {
	d := l.gpu.d
	l.gpu.enter()
	defer l.gpu.leave()
	d.gone.RLock()
	defer d.gone.RUnlock()
	if err := l.alive(dst, dstBytes); err != nil {
		return err
	}
	if err := l.alive(src, srcBytes); err != nil {
		return err
	}
	l.used = true
	l.load += dstBytes
	return l.gpu.check(call, work(d.lib))
}

func (l *lane) copy(dst, src uintptr, n uint64) error {
	return l.put("cuMemcpyAsync", dst, src, n, n, func(lib api) result { return lib.copyAsync(dst, src, n, l.stream) })
}

func (l *lane) copy2D(c *copy2D) error {
	dst, src := (c.height-1)*c.dstPitch+c.width, (c.height-1)*c.srcPitch+c.width
	return l.put("cuMemcpy2DAsync", c.dst, c.src, dst, src, func(lib api) result {
		return lib.copy2DAsync(c,
			l.stream)
	})
}

func (l *lane) fill(at uintptr, op *driver.Op) error {
	n := op.N * uint64(op.Width)
	return l.put("cuMemsetAsync", at, at, n, n, func(api) result { return l.gpu.d.fill(at, op, l.stream) })
}

// shift copies n bytes within device memory where the two ranges overlap, as memmove would: in pieces that are as long
// as the ranges are apart, or, if that is little, through other memory; beginning at the end that is overwritten last.
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
	l.gpu.enter()
	defer l.gpu.leave()
	addr, r := l.gpu.d.lib.alloc(scrapBytes)
	if r == success {
		l.scrap = addr
	}
	return l.gpu.check("cuMemAlloc", r)
}

// finish waits for all that is on the stream.
func (l *lane) finish() result {
	if !l.used {
		return success
	}
	l.used = false
	d := l.gpu.d
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	rings, load := false, l.load
	l.load = 0
	for s := d.spinning(spinWaiter); s.on(); {
		if rings && l.fence.passed(l.fence.number) {
			return success
		}
		if rings && s.looks%askEvery != 0 {
			continue
		}
		if r := l.gpu.ended(l.stream); r != notReady {
			return r
		}
		if rings || load < fenceFrom {
			continue
		}
		if l.fence == nil {
			l.fence = l.gpu.fenceOf(l.stream)
		}
		rings = l.fence.put(l.gpu, l.stream)
	}
	l.gpu.enter()
	defer l.gpu.leave()
	if r := d.lib.record(l.event, l.stream); r != success {
		return r
	}
	return d.lib.syncEvent(l.event)
}
