package cuda

import (
	"runtime/debug"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/memory"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/memcopy"
)

// Run implements driver.Driver. It first touches every page of memory that may not be mapped, so that it finds a bad
// range before it writes anything.
func (d *Driver) Run(op driver.Op) error {
	if op.Kind == driver.OpBatch {
		if done, err := d.runBatch(op.Segs); done || err != nil {
			return err
		}
	} else if done, err := d.runCopy(&op); done || err != nil {
		return err
	} else if err := d.probe(&op); err != nil {
		return err
	}
	return d.carry(&op, true)
}

// runBatch makes all copies of a batch together, if they involve a single GPU and no ordinary memory.
func (d *Driver) runBatch(segs *driver.Segments) (done bool, err error) {
	gpu := int32(-1)
	for i := range segs.List {
		if s := &segs.List[i]; s.N > 0 {
			if to, err := d.Resolve(s.Dst, s.N, false); err == nil && to.Kind == memory.OnGPU {
				gpu = to.GPU
			} else if from, err := d.Resolve(s.Src, s.N, false); err == nil && from.Kind == memory.OnGPU {
				gpu = from.GPU
			}
			break
		}
	}
	if gpu < 0 {
		return false, nil
	}
	m := mover{d: d}
	defer m.end(&err)
	return m.put(gpu, segs)
}

// carry carries out a copy or a fill, and waits for it. The host copies between host memory; lanes do the rest.
func (d *Driver) carry(op *driver.Op, pageable bool) (err error) {
	m := mover{d: d, pageable: pageable}
	defer m.end(&err)
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	switch op.Kind {
	case driver.OpCopy:
		return m.segment(op.Dst, op.Src, op.N)
	case driver.OpCopy2D:
		return m.rows(op)
	case driver.OpBatch:
		return m.batch(op.Segs.List)
	case driver.OpFill:
		return m.fill(op)
	}
	return driver.ErrUnsupported
}

// mover carries out the parts of one operation, with one lane at a time.
type mover struct {
	d        *Driver
	pageable bool
	lane     *lane // or nil
}

// end waits for the work on the lane.
func (m *mover) end(err *error) {
	if m.lane == nil {
		return
	}
	c := m.lane.gpu
	e := c.Check("copy", m.lane.finish())
	c.giveLane(m.lane)
	m.lane = nil
	if *err == nil {
		*err = e
	}
}

// on returns a lane of a GPU.
func (m *mover) on(gpu int32) (*lane, error) {
	c := m.d.gpus[gpu]
	if m.lane != nil && m.lane.gpu == c {
		return m.lane, nil
	}
	var err error
	if m.end(&err); err != nil {
		return nil, err
	}
	if m.lane, err = c.takeLane(); err != nil {
		return nil, err
	}
	return m.lane, nil
}

// put passes a batch to the lane of a GPU; false if the host has to make it.
func (m *mover) put(gpu int32, segs *driver.Segments) (done bool, err error) {
	l, err := m.on(gpu)
	if err != nil {
		return false, err
	}
	l.gpu.Enter()
	defer l.gpu.Leave()
	l.used = true
	return l.gpu.putBatch(segs, l.stream, false), nil
}

// ends resolves both ends of a copy, unless it has no bytes.
func (m *mover) ends(dst, src uintptr, dstBytes, srcBytes uint64) (to, from memory.Side, err error) {
	if dstBytes == 0 || srcBytes == 0 {
		return to, from, nil
	}
	if to, err = m.d.Resolve(dst, dstBytes, m.pageable); err == nil {
		from, err = m.d.Resolve(src, srcBytes, m.pageable)
	}
	return to, from, err
}

func (m *mover) segment(dst, src uintptr, n uint64) error {
	if n == 0 {
		return nil
	}
	to, from, err := m.ends(dst, src, n, n)
	if err != nil {
		return err
	}
	return m.move(to, from, n)
}

// move copies n bytes between two resolved ends.
func (m *mover) move(to, from memory.Side, n uint64) error {
	switch {
	case to.Kind != memory.OnGPU && from.Kind != memory.OnGPU:
		return copyHost(to.Addr, from.Addr, n)
	case to.Kind == memory.ByHost || from.Kind == memory.ByHost:
		return m.haul(to, from, cursor{rows: rows{dst: to.Addr, src: from.Addr, n: n, height: 1}}, n)
	}
	l, err := m.between(to, from)
	if err != nil {
		return err
	}
	if overlap(to.Addr, from.Addr, n) {
		return l.shift(to.Addr, from.Addr, n)
	}
	return l.copy(to.Addr, from.Addr, n)
}

// between returns a lane of the destination's GPU or, if that is not on a GPU, of the source's.
func (m *mover) between(to, from memory.Side) (*lane, error) {
	if to.Kind == memory.OnGPU {
		return m.on(to.GPU)
	}
	return m.on(from.GPU)
}

// haul moves the n bytes of c through the slots of lanes. One end is on a GPU, which cannot access the other.
func (m *mover) haul(to, from memory.Side, c cursor, n uint64) error {
	l, err := m.between(to, from)
	if err != nil {
		return err
	}
	return newHaul(l.gpu, to.Kind == memory.OnGPU, c, n).do(l)
}

// rows makes a 2-D copy: with one call if CUDA can, else row by row.
func (m *mover) rows(op *driver.Op) error {
	if op.N == 0 || op.Height == 0 {
		return nil
	}
	to, from, err := m.ends(op.Dst, op.Src, (op.Height-1)*op.DstPitch+op.N, (op.Height-1)*op.SrcPitch+op.N)
	if err != nil {
		return err
	}
	if to.Kind == memory.OnGPU && from.Kind == memory.ByHost || to.Kind == memory.ByHost && from.Kind == memory.OnGPU {
		r := rows{to.Addr, from.Addr, op.N, op.Height, op.DstPitch, op.SrcPitch}
		return m.haul(to, from, cursor{rows: r}, op.N*op.Height)
	}
	if c, ok := m.d.plan2D(op); ok {
		gpu := to.GPU
		if to.Kind != memory.OnGPU {
			gpu = from.GPU
		}
		l, err := m.on(gpu)
		if err != nil {
			return err
		}
		if l.copy2D(&c) == nil {
			return nil
		}
	}
	for range op.Height {
		if err := m.move(to, from, op.N); err != nil {
			return err
		}
		to.Addr += uintptr(op.DstPitch)
		from.Addr += uintptr(op.SrcPitch)
	}
	return nil
}

func (m *mover) fill(op *driver.Op) error {
	n := op.Bytes()
	if n == 0 {
		return nil
	}
	to, err := m.d.Resolve(op.Dst, n, m.pageable)
	switch {
	case err != nil:
		return err
	case to.Kind == memory.OnGPU:
		l, err := m.on(to.GPU)
		if err != nil {
			return err
		}
		return l.fill(to.Addr, op)
	case op.Width == 1:
		memcopy.Fill8(to.Addr, byte(op.Value), uintptr(op.N))
	default:
		memcopy.Fill32(to.Addr, op.Value, uintptr(op.N))
	}
	return nil
}

// probe fails if host memory of op, which is not a batch, is not mapped.
func (d *Driver) probe(op *driver.Op) error {
	switch op.Kind {
	case driver.OpCopy2D:
		var err error
		op.Ranges(0, func(lo, hi uintptr, _ bool) bool {
			_, err = d.Resolve(lo, uint64(hi-lo), true)
			return err == nil
		})
		if err != nil {
			return err
		}
	case driver.OpFill:
		return d.probeOne(op.Dst, op.Bytes(), writing)
	}
	return op.EachCopy(func(dst, src uintptr, n uint64) error {
		if err := d.probeOne(dst, n, writing); err != nil {
			return err
		}
		return d.probeOne(src, n, reading)
	})
}

// probeOne touches n bytes at addr if they are ordinary host memory.
func (d *Driver) probeOne(addr uintptr, n uint64, a access) error {
	if n == 0 {
		return nil
	}
	s, err := d.Resolve(addr, n, true)
	if err == nil && s.Kind == memory.ByHost {
		return a.probe(s.Addr, n)
	}
	return err
}
