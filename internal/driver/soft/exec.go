package soft

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/memcopy"
)

// backBytes is the smallest copy that is worth asking whether its memory has pages.
const backBytes = 4096

// back gives n bytes at addr pages if they belong to a large allocation that has none yet: in 2 MiB steps that is
// several times faster than faults. resolve calls it for ranges that one goroutine moves, each chunk of a job for
// itself.
func (d *Driver) back(addr uintptr, n uint64) error {
	if a := d.arenaOf(addr); a != nil {
		return outOfMemory(a.Prepare(addr, n))
	}
	if s := d.virtual.mapped.Find(addr); s != nil {
		return prepareIn(s, addr, min(n, roomIn(s, addr)))
	}
	return nil
}

// Bounds of the program's memory. The page below lowest is never mapped, and the Go runtime reports a fault there as a
// nil pointer. No process has memory above highest, but an arm64 processor ignores the top byte and would access other
// memory.
const (
	lowest  = 4096
	highest = 1<<56 - 1
)

// resolve returns the engine's address of the program's n bytes at addr. It fails unless they are inside one live
// allocation or registration. pageable also allows ordinary host memory, which need not be mapped; RC form, where host
// and device memory are the same, always allows it.
func (d *Driver) resolve(addr uintptr, n uint64, pageable bool) (uintptr, error) {
	if a := d.arenaOf(addr); a != nil {
		if a.Room(addr) < n {
			return 0, fmt.Errorf("%w: %d bytes at %#x are not inside a live allocation", driver.ErrFault, n, addr)
		}
		if n >= backBytes && n <= chunkBytes {
			if err := a.Prepare(addr, n); err != nil {
				return 0, outOfMemory(err)
			}
		}
		return addr + a.Delta(), nil
	}
	if d.isWindow(addr) {
		return 0, fmt.Errorf("%w: %#x belongs to a device that is not open", driver.ErrFault, addr)
	}
	if s := d.virtual.mapped.Find(addr); s != nil {
		if roomIn(s, addr) < n {
			return 0, fmt.Errorf("%w: %d bytes at %#x go past what is mapped there", driver.ErrFault, n, addr)
		}
		if n >= backBytes && n <= chunkBytes {
			if err := prepareIn(s, addr, n); err != nil {
				return 0, err
			}
		}
		return addr + s.Of.delta, nil
	}
	if s := d.virtual.reserved.Find(addr); s != nil {
		if n == 0 {
			return addr + s.Of.delta, nil
		}
		return 0, fmt.Errorf("%w: nothing is mapped at %#x, which is reserved", driver.ErrFault, addr)
	}
	if r, ok := d.hosts.find(addr); ok {
		if r.room(addr) >= n {
			if r.shadow != nil && !mapped(r.host(addr), n) {
				return 0, fmt.Errorf("%w: not all of the %d registered bytes at %#x are mapped", driver.ErrFault, n,
					addr)
			}
			return r.engine(addr), nil
		}
		if !pageable || r.alias != 0 && addr-r.alias < uintptr(r.size) {
			return 0, fmt.Errorf("%w: %d bytes at %#x go past the registered range", driver.ErrFault, n, addr)
		}
	}
	if (pageable || d.prot == readWrite) && addr >= lowest && addr <= highest && n <= highest-uint64(addr) {
		return addr, nil
	}
	return 0, fmt.Errorf("%w: %d bytes at %#x are not memory that the device can reach", driver.ErrFault, n, addr)
}

// copyNow copies in the calling goroutine, which belongs to the program. The core has just checked the addresses, so
// arena memory needs no second lookup: even if it is freed now, it stays mapped.
func (d *Driver) copyNow(dst, src uintptr, n uint64) (err error) {
	to, from := d.arenaOf(dst), d.arenaOf(src)
	if to == nil || from == nil || n >= backBytes {
		return d.moveNow(dst, src, n)
	}
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	memcopy.Copy(dst+to.Delta(), src+from.Delta(), uintptr(n))
	return nil
}

// moveNow is not part of copyNow because it would enlarge the stack frame.
//
//go:noinline
func (d *Driver) moveNow(dst, src uintptr, n uint64) error {
	if n < backBytes {
		to, ok1 := d.quickly(dst, n)
		from, ok2 := d.quickly(src, n)
		if ok1 && ok2 {
			return tryCopy(to, from, uintptr(n))
		}
	}
	return d.move(&driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n}, false, nil)
}

// quickly returns the engine's address of a few bytes in an arena or mapped into a reservation.
func (d *Driver) quickly(addr uintptr, n uint64) (uintptr, bool) {
	if a := d.arenaOf(addr); a != nil {
		return addr + a.Delta(), true
	}
	if s := d.virtual.mapped.Find(addr); s != nil && roomIn(s, addr) >= n {
		return addr + s.Of.delta, true
	}
	return 0, false
}

// tryCopy copies memory that may be unmapped by now; a fault becomes an error.
func tryCopy(dst, src, n uintptr) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	memcopy.Copy(dst, src, n)
	return nil
}

// exec carries out an operation of a queue. Helpers of q, if q is not nil, may join a large one.
func (d *Driver) exec(op *driver.Op, q *queue) error {
	switch op.Kind.Class() {
	case driver.Moves:
		return d.move(op, false, q)
	case driver.Finds:
		return d.indirect(op, q)
	case driver.Runs:
		var times hostqueue.StepTimes
		if q != nil {
			times = q.TimeSteps(op)
		}
		return d.program(op, q, times)
	case driver.Launches:
		return d.launch(op, q)
	}
	return hostqueue.Do(op)
}

// move carries out a copy or a fill: here if it is small, in chunks if it is large.
func (d *Driver) move(op *driver.Op, pageable bool, q *queue) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	if d.guard {
		if done, err := d.inFragments(op, pageable, q); done {
			return err
		}
	}
	switch op.Kind {
	case driver.OpCopy:
		return d.copy(op, pageable, q)
	case driver.OpCopy2D:
		if op.N*op.Height >= parallelBytes && !overlap(op) {
			if err := d.whole(op, pageable); err != nil {
				return err
			}
			return d.parallel(op, 0, 0, pageable, q)
		}
		return d.rows(op, 0, op.Height, pageable)
	case driver.OpBatch:
		return d.batch(op, pageable, q)
	case driver.OpFill:
		n := op.Bytes()
		dst, err := d.resolve(op.Dst, n, pageable)
		if err != nil {
			return err
		}
		if n >= parallelBytes {
			return d.parallel(op, dst, 0, pageable, q)
		}
		fill(dst, op, op.N)
		return nil
	}
	return driver.ErrUnsupported
}

// overlap reports whether the rows of a 2-D copy may touch rows they are copied from.
func overlap(op *driver.Op) bool {
	return op.Dst < op.Src+uintptr(op.SrcPitch*op.Height) && op.Src < op.Dst+uintptr(op.DstPitch*op.Height)
}

func (d *Driver) copy(op *driver.Op, pageable bool, q *queue) error {
	dst, err := d.resolve(op.Dst, op.N, pageable)
	if err != nil {
		return err
	}
	src, err := d.resolve(op.Src, op.N, pageable)
	if err != nil {
		return err
	}
	apart := dst+uintptr(op.N) <= src || src+uintptr(op.N) <= dst
	if op.N >= parallelBytes && apart {
		return d.parallel(op, dst, src, pageable, q)
	}
	memcopy.Copy(dst, src, uintptr(op.N)) // overlapping ranges end as memmove leaves them
	return nil
}

// whole fails unless all rows of a 2-D copy, with the bytes between them, are inside one range on either side. Chunks
// check only their own rows.
func (d *Driver) whole(op *driver.Op, pageable bool) (err error) {
	op.Ranges(0, func(lo, hi uintptr, _ bool) bool {
		_, err = d.resolve(lo, uint64(hi-lo), pageable)
		return err == nil
	})
	return err
}

// rows copies the rows first to last of a 2-D copy.
func (d *Driver) rows(op *driver.Op, first, last uint64, pageable bool) error {
	if first >= last {
		return nil
	}
	dst, err := d.resolve(op.Dst+uintptr(first*op.DstPitch), (last-first-1)*op.DstPitch+op.N, pageable)
	if err != nil {
		return err
	}
	src, err := d.resolve(op.Src+uintptr(first*op.SrcPitch), (last-first-1)*op.SrcPitch+op.N, pageable)
	if err != nil {
		return err
	}
	for range last - first {
		memcopy.Copy(dst, src, uintptr(op.N))
		dst += uintptr(op.DstPitch)
		src += uintptr(op.SrcPitch)
	}
	return nil
}

// streamBatch is the size in bytes of the smallest batch that bypasses the cache.
const streamBatch = 4 << 20

// resolver resolves the source or the destination addresses of a batch. Neighbours in the list mostly share an
// allocation, and comparing with its bounds is cheaper than a lookup.
type resolver struct {
	d        *Driver
	pageable bool
	frame    memcopy.Frame // addresses in one live allocation that has its pages
}

// resolve returns the engine's address of n bytes at addr, and remembers their allocation.
func (l *resolver) resolve(addr uintptr, n uint64) (uintptr, error) {
	at, err := l.d.resolve(addr, n, l.pageable)
	if err != nil {
		return 0, err
	}
	a := l.d.arenaOf(addr)
	if a == nil {
		if s := l.d.virtual.mapped.Find(addr); s != nil && s.Of.allReady(s) {
			l.frame = memcopy.Frame{Lo: s.Start, Size: uintptr(s.Size), Delta: s.Of.delta}
		}
		return at, nil
	}
	if n == 0 || !a.Ready(addr) { // 0 bytes may lie outside any allocation, or between two arenas
		return at, nil
	}
	f, lo, hi := &l.frame, addr, addr+uintptr(a.Room(addr))
	if hi == f.Lo+f.Size {
		if f.Lo < addr {
			return at, nil
		}
		// A lower address of the same allocation: a list may go through it backwards.
		if r, ok := a.Find(addr); ok && r.Start+uintptr(r.Size) == hi {
			lo = r.Start
		}
	}
	*f = memcopy.Frame{Lo: lo, Size: hi - lo, Delta: a.Delta()}
	return at, nil
}

// segments copies part of a batch of total bytes, until stop, if not nil, is set.
func (d *Driver) segments(list []driver.Segment, total uint64, pageable bool, stop *atomic.Bool) error {
	const turn = 256 // segments between two checks of stop
	to, from := resolver{d: d, pageable: pageable}, resolver{d: d, pageable: pageable}
	stream := total >= streamBatch
	for len(list) > 0 && (stop == nil || !stop.Load()) {
		// Segments in the remembered allocations are copied in one call; the next one outside them is looked up.
		n := memcopy.CopySegments(asSegments(list[:min(turn, len(list))]), to.frame, from.frame, stream)
		list = list[n:]
		if n == turn || len(list) == 0 {
			continue
		}
		s := &list[0]
		dst, err := to.resolve(s.Dst, s.N)
		if err != nil {
			return err
		}
		src, err := from.resolve(s.Src, s.N)
		if err != nil {
			return err
		}
		if stream {
			memcopy.CopyStream(dst, src, uintptr(s.N))
		} else {
			memcopy.Copy(dst, src, uintptr(s.N))
		}
		list = list[1:]
	}
	return nil
}

func fill(dst uintptr, op *driver.Op, n uint64) {
	if op.Width == 1 {
		memcopy.Fill8(dst, byte(op.Value), uintptr(n))
	} else {
		memcopy.Fill32(dst, op.Value, uintptr(n))
	}
}

// indirect carries out the copy that a descriptor or cells in device memory describe at this moment.
func (d *Driver) indirect(op *driver.Op, q *queue) error {
	c, err := hostqueue.Indirect(op, d, d.peek)
	if err != nil {
		return err
	}
	return d.move(&c, false, q)
}

// peek reads the n bytes (at most 64) of a descriptor or a cell.
func (d *Driver) peek(addr uintptr, n uint64) (b [64]byte, err error) {
	from, err := d.resolve(addr, n, false)
	if err != nil {
		return b, err
	}
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	if d.guard {
		part := b[:0]
		err = d.each(addr, n, func(at uintptr, n uint64) error {
			part = append(part, bytesAt(at, n)...)
			return nil
		})
		return b, err
	}
	copy(b[:], bytesAt(from, n))
	return b, nil
}

// Run implements driver.Driver. It first touches every page of pageable memory, so that it finds a bad range before it
// writes anything.
func (d *Driver) Run(op driver.Op) error {
	defer d.quiesce.enter().Add(-1)
	if err := d.probe(&op); err != nil {
		return err
	}
	return d.move(&op, true, nil)
}

// probe fails if pageable memory of op is not mapped.
func (d *Driver) probe(op *driver.Op) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	switch op.Kind {
	case driver.OpCopy2D:
		if err := d.whole(op, true); err != nil {
			return err
		}
	case driver.OpFill:
		return d.probeTo(op.Dst, op.Bytes())
	}
	return op.EachCopy(d.probePair)
}

// vouches reports whether memory that resolve found at addr is certain to be mapped.
func (d *Driver) vouches(addr uintptr) bool {
	return d.arenaOf(addr) != nil || d.virtual.mapped.Find(addr) != nil
}

// probePair touches the memory to be written at dst and read at src, except where the driver vouches for it.
func (d *Driver) probePair(dst, src uintptr, n uint64) error {
	if err := d.probeTo(dst, n); err != nil {
		return err
	}
	from, err := d.resolve(src, n, true)
	if err != nil {
		return err
	}
	switch {
	case d.vouches(src):
	case d.guard:
		return d.each(src, n, func(at uintptr, n uint64) error { memcopy.ProbeRead(at, uintptr(n)); return nil })
	default:
		memcopy.ProbeRead(from, uintptr(n))
	}
	return nil
}

// probeTo is probePair for the destination.
func (d *Driver) probeTo(dst uintptr, n uint64) error {
	to, err := d.resolve(dst, n, true)
	if err != nil {
		return err
	}
	switch {
	case d.vouches(dst):
	case d.guard:
		return d.each(dst, n, func(at uintptr, n uint64) error { memcopy.ProbeWrite(at, uintptr(n)); return nil })
	default:
		memcopy.ProbeWrite(to, uintptr(n))
	}
	return nil
}
