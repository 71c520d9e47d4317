package cuda

import (
	"math/bits"
	"runtime"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/cuda/memory"
	"ropeway/internal/driver/hostqueue"
)

// start passes op to the stream if all parts of it are known to work there. The host does other tasks, and finds their
// errors. If start returns true, it has released the Segs of op, and the caller counts op as taken. Mu is held, and the
// stream is not in use.
func (q *queue) start(op *driver.Op) bool {
	class := op.Kind.Class()
	switch class {
	case driver.Computes, driver.Calls, driver.Fails:
		return false
	}
	if !q.enter() {
		return false
	}
	defer q.v.gpu.Leave()
	m := mark{op: true, upto: q.Taken() + 1, tag: op.Tag, done: op.Done}
	if q.Events.Ran != nil {
		m.since = hostqueue.Now()
	}
	switch {
	case op.Kind == driver.OpAwait:
		f := op.Flag.(*flag)
		if !f.Flag.IsSet() && (op.Timeout > 0 || !f.follow(q, q.stream)) {
			return false
		}
	case op.Kind == driver.OpSet:
		m.flag = op.Flag.(*flag)
	case class == driver.Orders:
		return false
	case class == driver.Finds:
		if m.read = q.read(op); m.read == nil {
			return false
		}
	case class == driver.Runs:
		if !q.moveProgram(op) {
			return false
		}
	case class == driver.Launches:
		if !q.launch(op.Launch, &m) {
			return false
		}
	default:
		if !q.move(op) {
			return false
		}
	}
	if m.done != nil || m.flag != nil || m.read != nil || m.launch != nil || q.Events.Ran != nil {
		// A kernel must not run twice: if the event is missing, the mark reports that; the device is broken anyway.
		if m.soft = q.mayBeSoft(&m); m.soft {
			q.softs++
		} else if !q.record(&m) && m.launch == nil {
			return false // other tasks may run twice with the same result; the device is broken anyway
		}
		if m.flag != nil {
			m.flag.promise(promise{q, m.event, m.asked})
		}
		q.marks.Push(&m)
	}
	q.latest = op.Tag
	if op.Segs != nil {
		op.Segs.Release()
	}
	if op.Kind == driver.OpLaunch {
		l := op.Launch
		if m.launch != nil { // the mark has it
			l = nil
		}
		q.noteKernel(m.upto, op.Tag, l)
	}
	return true
}

// startDone is start for a copy, or a program that is one graph, whose end only calls a function. Like startCopy it
// does not enter the GPU. Mu is held, and the stream is not in use.
func (q *queue) startDone(op *driver.Op) bool {
	m := mark{soft: true, op: true, upto: q.Taken() + 1, tag: op.Tag, done: op.Done}
	if op.Done == nil || !q.mayBeSoft(&m) {
		return false
	}
	switch op.Kind {
	case driver.OpCopy:
		if !q.startAgain(op) && !q.startCopy(op.Dst, op.Src, op.N) {
			return false
		}
	case driver.OpProgram:
		if !q.startWhole(op) {
			return false
		}
	default:
		return false
	}
	q.latest = op.Tag
	q.load += fenceFrom // tasks that end with a function are executed repeatedly, so the fence pays
	q.softs++
	q.marks.Push(&m)
	return true
}

// startAgain is start for a copy that is a program and has a graph. Mu is held, and the stream is not in use.
func (q *queue) startAgain(op *driver.Op) bool {
	if op.Program == nil || q.stream == 0 || q.v.gpu.Lost() {
		return false
	}
	list := q.sectionsOf(op.Program)
	return len(list) == 1 && q.launchSection(&list[0], op.Tag)
}

// startWhole is start for a program that is one graph, if that exists. Mu is held, and the stream is not in use.
func (q *queue) startWhole(op *driver.Op) bool {
	if q.stream == 0 || q.v.gpu.Lost() {
		return false
	}
	s := q.whole(op.Program)
	return s != nil && q.launchSection(s, op.Tag)
}

// startCopy is start for a plain copy. CUDA accepts a copy whichever context the thread has, if it has one: so
// startCopy first tries without entering the GPU, which would take half as long again. Mu is held, and the stream is
// not in use.
func (q *queue) startCopy(dst, src uintptr, n uint64) bool {
	if q.stream != 0 && !q.v.gpu.Lost() {
		if r := q.moveCopy(dst, src, n); r != libcuda.InvalidContext && r != libcuda.ContextDestroyed {
			return r == libcuda.Success
		}
	}
	if !q.enter() {
		return false
	}
	defer q.v.gpu.Leave()
	return q.moveCopy(dst, src, n) == libcuda.Success
}

// enter enters the GPU and gives q a stream. It returns false if the GPU is lost. Mu is held.
func (q *queue) enter() bool {
	c := q.v.gpu
	if c.Lost() || c.Enter() != libcuda.Success {
		return false
	}
	if q.stream == 0 {
		s, r := c.Stream(q.priority)
		if c.Note("cuStreamCreate", r) != nil {
			c.Leave()
			return false
		}
		q.stream = s
		q.own = c.Owned(s, q.priority)
		q.net = runtime.AddCleanup(q, gpu.OwnStream.Release, q.own)
	}
	return true
}

// move passes a copy or a fill to the stream. Mu is held.
func (q *queue) move(op *driver.Op) bool {
	switch op.Kind {
	case driver.OpCopy:
		return q.moveCopy(op.Dst, op.Src, op.N) == libcuda.Success
	case driver.OpCopy2D:
		return q.move2D(op)
	case driver.OpBatch:
		return q.moveList(op.Segs)
	case driver.OpFill:
		return q.moveFill(op)
	}
	return false
}

// moveList passes copies that may run in any order to the stream. Mu is held.
func (q *queue) moveList(segs *driver.Segments) bool {
	if list := segs.List; len(list) == 1 {
		return q.moveCopy(list[0].Dst, list[0].Src, list[0].N) == libcuda.Success
	}
	q.load += segs.Bytes
	return q.v.gpu.putBatch(segs, q.stream, true)
}

// pair resolves both ends of a copy that a stream can make.
func (d *Driver) pair(dst, src uintptr, dstBytes, srcBytes uint64) (to, from memory.Side, ok bool) {
	to, err := d.Resolve(dst, dstBytes, false)
	if err != nil {
		return to, from, false
	}
	from, err = d.Resolve(src, srcBytes, false)
	if err != nil || to.Kind == memory.ByHost || from.Kind == memory.ByHost {
		return to, from, false
	}
	// A copy between host memory would make the caller of CUDA wait.
	return to, from, to.Kind == memory.OnGPU || from.Kind == memory.OnGPU
}

// moveCopy passes a copy to the stream. It returns NotSupported if the host has to make it. Mu is held, or the caller
// has made the queue Starting (lockcheck: so one of them has it).
func (q *queue) moveCopy(dst, src uintptr, n uint64) libcuda.Result {
	if n == 0 {
		return libcuda.Success
	}
	d := q.v.d
	d.Gone.RLock()
	defer d.Gone.RUnlock()
	to, from, ok := d.pair(dst, src, n, n)
	if !ok || overlap(to.Addr, from.Addr, n) {
		return libcuda.NotSupported
	}
	r := d.lib.MemcpyAsync(to.Addr, from.Addr, n, q.stream)
	if r == libcuda.Success {
		q.load += n
	}
	return r
}

// overlap reports whether the n bytes at a and at b overlap; CUDA does not define the result of such a copy.
func overlap(a, b uintptr, n uint64) bool { return uint64(a-b) < n || uint64(b-a) < n }

// move2D passes a 2-D copy to the stream. Mu is held.
func (q *queue) move2D(op *driver.Op) bool {
	if op.N == 0 || op.Height == 0 {
		return true
	}
	d := q.v.d
	d.Gone.RLock()
	defer d.Gone.RUnlock()
	c, ok := d.plan2D(op)
	q.load += op.N * op.Height
	return ok && d.lib.Memcpy2DAsync(&c, q.stream) == libcuda.Success
}

// plan2D resolves both ends of a 2-D copy that a stream can make.
func (d *Driver) plan2D(op *driver.Op) (c libcuda.Copy2D, ok bool) {
	to, from, ok := d.pair(op.Dst, op.Src, (op.Height-1)*op.DstPitch+op.N, (op.Height-1)*op.SrcPitch+op.N)
	c = libcuda.Copy2D{Dst: to.Addr, Src: from.Addr, DstPitch: op.DstPitch, SrcPitch: op.SrcPitch, Width: op.N,
		Height: op.Height}
	if op.Height == 1 { // pitches mean nothing, but CUDA would check them
		c.DstPitch, c.SrcPitch = op.N, op.N
	}
	return c, ok && c.DstPitch >= c.Width && c.SrcPitch >= c.Width
}

// moveFill passes a fill to the stream. Mu is held.
func (q *queue) moveFill(op *driver.Op) bool {
	n := op.Bytes()
	if n == 0 {
		return true
	}
	d := q.v.d
	d.Gone.RLock()
	defer d.Gone.RUnlock()
	to, err := d.Resolve(op.Dst, n, false)
	q.load += n
	return err == nil && to.Kind != memory.ByHost && d.fill(to.Addr, op, q.stream) == libcuda.Success
}

// fill puts a fill on a stream. CUDA needs aligned words: for other addresses fill writes the aligned words in between
// with the rotated value, and the ends byte by byte.
func (d *Driver) fill(at uintptr, op *driver.Op, stream uintptr) libcuda.Result {
	if op.Width == 1 {
		return d.lib.MemsetD8Async(at, byte(op.Value), op.N, stream)
	}
	off := int(at & 3)
	if off == 0 {
		return d.lib.MemsetD32Async(at, op.Value, op.N, stream)
	}
	lead := 4 - off // bytes before the first whole word; off bytes follow the last
	if op.N > 1 {
		value := bits.RotateLeft32(op.Value, -8*lead)
		if r := d.lib.MemsetD32Async(at+uintptr(lead), value, op.N-1, stream); r != libcuda.Success {
			return r
		}
	}
	for i := range 4 {
		to := at + uintptr(i)
		if i >= lead {
			to = at + uintptr(op.N)*4 - 4 + uintptr(i)
		}
		if r := d.lib.MemsetD8Async(to, byte(op.Value>>(8*i)), 1, stream); r != libcuda.Success {
			return r
		}
	}
	return libcuda.Success
}
