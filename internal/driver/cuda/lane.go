package cuda

import (
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/libcuda"
)

// lane is a stream for work that a goroutine waits for, with pinned slots for host memory that GPUs cannot access; see
// haul. One goroutine at a time uses it.
type lane struct {
	gpu    *engine
	stream uintptr
	event  uintptr // used by finish
	used   bool    // finish has not waited for the work on the stream
	load   uint64  // bytes of that work
	slots  [slotCount]slot
	stage  uintptr    // their memory; 0 until first used
	fence  *gpu.Fence // of the stream; nil until first used
	scrap  uintptr    // device memory for copies that overlap; 0 until first used
}

const scrapBytes = 4 << 20

// takeLane takes a lane that is not in use.
func (c *engine) takeLane() (*lane, error) {
	if err := c.Start(); err != nil {
		return nil, err
	}
	if err := c.Healthy(); err != nil {
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

// newLane returns a new lane. If CUDA fails, it releases everything it took.
func (c *engine) newLane() (*lane, error) {
	c.Enter()
	defer c.Leave()
	l := &lane{gpu: c}
	var r libcuda.Result
	if l.stream, r = c.Stream(0); r != libcuda.Success {
		return nil, c.Check("cuStreamCreate", r)
	}
	events := []*uintptr{&l.event}
	for i := range l.slots {
		events = append(events, &l.slots[i].event)
	}
	for i, event := range events {
		if *event, r = c.Event(libcuda.SleptEvent); r != libcuda.Success {
			for _, made := range events[:i] {
				c.GiveEvent(*made, libcuda.SleptEvent)
			}
			c.GiveStream(l.stream, 0)
			return nil, c.Check("cuEventCreate", r)
		}
	}
	return l, nil
}

func (c *engine) giveLane(l *lane) {
	c.mu.Lock()
	c.lanes = append(c.lanes, l)
	c.mu.Unlock()
}

// free frees the memory of a lane; its stream and events belong to the GPU. The GPU is entered.
func (l *lane) free() libcuda.Result {
	r := libcuda.Success
	if l.stage != 0 {
		r = l.gpu.FreeInner(l.stage)
	}
	if l.scrap != 0 {
		r = max(r, l.gpu.d.lib.MemFree(l.scrap))
	}
	return r
}

// alive fails if memory was freed after it was resolved. Space.Gone is held until CUDA has the work: an access to
// unmapped memory would break the whole device.
func (l *lane) alive(addr uintptr, n uint64) error {
	if addr-l.stage < stageBytes && l.stage != 0 || addr-l.scrap < scrapBytes && l.scrap != 0 {
		return nil
	}
	_, err := l.gpu.d.Resolve(addr, n, false)
	return err
}

// put passes work on two ranges to the stream.
func (l *lane) put(call string, dst, src uintptr, dstBytes, srcBytes uint64, work func() libcuda.Result) error {
	d := l.gpu.d
	l.gpu.Enter()
	defer l.gpu.Leave()
	d.Gone.RLock()
	defer d.Gone.RUnlock()
	if err := l.alive(dst, dstBytes); err != nil {
		return err
	}
	if err := l.alive(src, srcBytes); err != nil {
		return err
	}
	l.used = true
	l.load += dstBytes
	return l.gpu.Check(call, work())
}

func (l *lane) copy(dst, src uintptr, n uint64) error {
	return l.put("cuMemcpyAsync", dst, src, n, n, func() libcuda.Result {
		return l.gpu.d.lib.MemcpyAsync(dst, src, n, l.stream)
	})
}

func (l *lane) copy2D(c *libcuda.Copy2D) error {
	dst, src := (c.Height-1)*c.DstPitch+c.Width, (c.Height-1)*c.SrcPitch+c.Width
	return l.put("cuMemcpy2DAsync", c.Dst, c.Src, dst, src, func() libcuda.Result {
		return l.gpu.d.lib.Memcpy2DAsync(c, l.stream)
	})
}

func (l *lane) fill(at uintptr, op *driver.Op) error {
	n := op.Bytes()
	return l.put("cuMemsetAsync", at, at, n, n, func() libcuda.Result { return l.gpu.d.fill(at, op, l.stream) })
}

// shift copies n bytes between overlapping ranges of device memory, with the result of memmove. It copies pieces as
// long as the distance of the ranges or, if the distance is small, through scrap memory, and starts at the end that is
// overwritten last.
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
	l.gpu.Enter()
	defer l.gpu.Leave()
	addr, r := l.gpu.d.lib.MemAlloc(scrapBytes)
	if r == libcuda.Success {
		l.scrap = addr
	}
	return l.gpu.Check("cuMemAlloc", r)
}

// finish waits for all work on the stream.
func (l *lane) finish() libcuda.Result {
	if !l.used {
		return libcuda.Success
	}
	l.used = false
	d := l.gpu.d
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	rings, load := false, l.load
	l.load = 0
	for s := d.spinning(spinWaiter); s.on(); {
		if rings && l.fence.Passed(l.fence.Number) {
			return libcuda.Success
		}
		if rings && s.looks%askEvery != 0 {
			continue
		}
		if r := l.gpu.Ended(l.stream); r != libcuda.NotReady {
			return r
		}
		if rings || load < fenceFrom {
			continue
		}
		if l.fence == nil {
			l.fence = l.gpu.FenceOf(l.stream)
		}
		rings = l.fence.Put(&l.gpu.GPU, l.stream)
	}
	l.gpu.Enter()
	defer l.gpu.Leave()
	if r := d.lib.EventRecord(l.event, l.stream); r != libcuda.Success {
		return r
	}
	return d.lib.EventSynchronize(l.event)
}
