package cuda

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"

	"ropeway/internal/driver"
	"ropeway/internal/memcopy"
)

// Run carries op out now. Memory that nobody can vouch for is touched first, every page of it, so that a bad range is found
// before anything is written.
func (d *Driver) Run(op driver.Op) error {
	if err := d.probe(&op); err != nil {
		return err
	}
	return d.carry(&op, true)
}

// carry does a copy or a fill before it returns. The host moves what is host memory on both sides; the rest goes to a lane.
func (d *Driver) carry(op *driver.Op, pageable bool) (err error) {
	m := mover{d: d, pageable: pageable}
	defer m.end(&err)
	defer guarded(debug.SetPanicOnFault(true), &err)
	switch op.Kind {
	case driver.OpCopy:
		return m.segment(op.Dst, op.Src, op.N)
	case driver.OpCopy2D:
		return m.rows(op)
	case driver.OpBatch:
		if done, err := m.batch(op.Segs.List); done || err != nil {
			return err
		}
		for i := range op.Segs.List {
			s := &op.Segs.List[i]
			if _, _, err := m.ends(s.Dst, s.Src, s.N, s.N); err != nil {
				return err
			}
		}
		for i := range op.Segs.List {
			s := &op.Segs.List[i]
			if err := m.segment(s.Dst, s.Src, s.N); err != nil {
				return err
			}
		}
		return nil
	}
	return m.fill(op)
}

// guarded, deferred with what debug.SetPanicOnFault(true) returned, turns a memory fault into *err.
func guarded(old bool, err *error) {
	if !old {
		debug.SetPanicOnFault(false)
	}
	if r := recover(); r != nil {
		*err = asFault(r)
	}
}

// asFault is the error for a recovered memory fault; any other panic goes on.
func asFault(r any) error {
	if e, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		return fmt.Errorf("%w: memory fault at %#x", driver.ErrFault, e.Addr())
	}
	panic(r)
}

// mover carries out the parts of one operation, with a lane of each card that is needed, one after the other.
type mover struct {
	d        *Driver
	pageable bool
	lane     *lane // or nil
}

// end waits for what is under way.
func (m *mover) end(err *error) {
	if m.lane == nil {
		return
	}
	c := m.lane.card
	e := c.check("copy", m.lane.finish())
	if m.lane.fault != nil && e == nil {
		e = m.lane.fault
	}
	c.giveLane(m.lane)
	m.lane = nil
	if *err == nil {
		*err = e
	}
}

// on gives a lane of a card.
func (m *mover) on(card int32) (*lane, error) {
	c := m.d.cards[card]
	if m.lane != nil && m.lane.card == c {
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

// ends finds both ends of a copy; of no bytes there are none.
func (m *mover) ends(dst, src uintptr, dstBytes, srcBytes uint64) (to, from side, err error) {
	if dstBytes == 0 || srcBytes == 0 {
		return to, from, nil
	}
	if to, err = m.d.resolve(dst, dstBytes, m.pageable); err == nil {
		from, err = m.d.resolve(src, srcBytes, m.pageable)
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

// batch does all of a list in one go, if one card and no ordinary memory has to do with it.
func (m *mover) batch(list []driver.Segment) (done bool, err error) {
	card := int32(-1)
	for i := range list {
		if s := &list[i]; s.N > 0 {
			to, from, err := m.ends(s.Dst, s.Src, s.N, s.N)
			switch {
			case err != nil:
				return false, err
			case to.kind == onCard:
				card = to.card
			case from.kind == onCard:
				card = from.card
			}
			break
		}
	}
	if card < 0 {
		return false, nil
	}
	l, err := m.on(card)
	if err != nil {
		return false, err
	}
	l.card.enter()
	defer l.card.leave()
	return l.card.putBatch(list, l.stream), nil
}

// move copies n bytes between two ends that are there.
func (m *mover) move(to, from side, n uint64) error {
	switch {
	case to.kind != onCard && from.kind != onCard:
		memcopy.Copy(to.addr, from.addr, uintptr(n)) // overlapping ranges end as memmove leaves them
		return nil
	case to.kind == onCard:
		l, err := m.on(to.card)
		switch {
		case err != nil:
			return err
		case from.kind == byHost:
			return l.up(to.addr, from.addr, n)
		case overlap(to.addr, from.addr, n):
			return l.shift(to.addr, from.addr, n)
		}
		return l.copy(to.addr, from.addr, n)
	}
	l, err := m.on(from.card)
	switch {
	case err != nil:
		return err
	case to.kind == byHost:
		return l.down(to.addr, from.addr, n)
	}
	return l.copy(to.addr, from.addr, n)
}

// rows does a 2-D copy: in one piece where CUDA can, else row by row.
func (m *mover) rows(op *driver.Op) error {
	if op.N == 0 || op.Height == 0 {
		return nil
	}
	to, from, err := m.ends(op.Dst, op.Src, (op.Height-1)*op.DstPitch+op.N, (op.Height-1)*op.SrcPitch+op.N)
	if err != nil {
		return err
	}
	if c, ok := m.d.plan2D(op); ok {
		card := to.card
		if to.kind != onCard {
			card = from.card
		}
		l, err := m.on(card)
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
		to.addr += uintptr(op.DstPitch)
		from.addr += uintptr(op.SrcPitch)
	}
	return nil
}

func (m *mover) fill(op *driver.Op) error {
	n := op.N * uint64(op.Width)
	if n == 0 {
		return nil
	}
	to, err := m.d.resolve(op.Dst, n, m.pageable)
	switch {
	case err != nil:
		return err
	case to.kind == onCard:
		l, err := m.on(to.card)
		if err != nil {
			return err
		}
		return l.fill(to.addr, op)
	case op.Width == 1:
		memcopy.Fill8(to.addr, byte(op.Value), uintptr(op.N))
	default:
		memcopy.Fill32(to.addr, op.Value, uintptr(op.N))
	}
	return nil
}

// probe finds out whether op's host memory is there.
func (d *Driver) probe(op *driver.Op) (err error) {
	defer guarded(debug.SetPanicOnFault(true), &err)
	switch op.Kind {
	case driver.OpCopy:
		return d.probePair(op.Dst, op.Src, op.N)
	case driver.OpCopy2D:
		if op.N == 0 || op.Height == 0 {
			return nil
		}
		m := mover{d: d, pageable: true}
		if _, _, err := m.ends(op.Dst, op.Src, (op.Height-1)*op.DstPitch+op.N, (op.Height-1)*op.SrcPitch+op.N); err != nil {
			return err
		}
		for i := range op.Height {
			if err := d.probePair(op.Dst+uintptr(i*op.DstPitch), op.Src+uintptr(i*op.SrcPitch), op.N); err != nil {
				return err
			}
		}
	case driver.OpBatch:
		for i := range op.Segs.List {
			s := &op.Segs.List[i]
			if err := d.probePair(s.Dst, s.Src, s.N); err != nil {
				return err
			}
		}
	case driver.OpFill:
		return d.probeOne(op.Dst, op.N*uint64(op.Width), memcopy.ProbeWrite)
	}
	return nil
}

// probePair touches what will be written at dst and read at src, where the driver cannot vouch for it.
func (d *Driver) probePair(dst, src uintptr, n uint64) error {
	if err := d.probeOne(dst, n, memcopy.ProbeWrite); err != nil {
		return err
	}
	return d.probeOne(src, n, memcopy.ProbeRead)
}

func (d *Driver) probeOne(addr uintptr, n uint64, touch func(addr, n uintptr)) error {
	if n == 0 {
		return nil
	}
	s, err := d.resolve(addr, n, true)
	if err == nil && s.kind == byHost {
		touch(s.addr, uintptr(n))
	}
	return err
}

// indirect does a copy whose addresses are in device memory, as they are now: everything before it is over.
func (d *Driver) indirect(op *driver.Op) error {
	c := driver.Op{Kind: driver.OpCopy, N: op.N}
	if op.Kind == driver.OpDesc {
		desc, err := d.peek(op.Src, op.N)
		if err != nil {
			return err
		}
		l := op.Layout
		c.N = uint64(binary.LittleEndian.Uint32(desc[l.Length:]))
		c.Src = uintptr(binary.LittleEndian.Uint64(desc[l.Src:]))
		c.Dst = uintptr(binary.LittleEndian.Uint64(desc[l.Dst:]))
	} else {
		src, err := d.peek(op.Src, 8)
		if err != nil {
			return err
		}
		dst, err := d.peek(op.Dst, 8)
		if err != nil {
			return err
		}
		c.Src = uintptr(binary.LittleEndian.Uint64(src[:]) + op.SrcPitch)
		c.Dst = uintptr(binary.LittleEndian.Uint64(dst[:]) + op.DstPitch)
	}
	for _, addr := range [...]uintptr{c.Src, c.Dst} {
		l := d.Locate(addr)
		if l.Place != driver.OnDevice || l.Device != op.Device {
			return fmt.Errorf("%w: %#x, read when the copy ran, is no memory of device %d", driver.ErrFault, addr, op.Device)
		}
	}
	return d.carry(&c, false)
}

// peek reads the n bytes (at most 64) that a descriptor or a cell has at this moment.
func (d *Driver) peek(addr uintptr, n uint64) (b [64]byte, err error) {
	from, err := d.resolve(addr, n, false)
	if err != nil {
		return b, err
	}
	m := mover{d: d}
	defer m.end(&err)
	defer guarded(debug.SetPanicOnFault(true), &err)
	if from.kind != onCard {
		copy(b[:], bytesAt(from.addr, n))
		return b, nil
	}
	l, err := m.on(from.card)
	if err != nil {
		return b, err
	}
	return b, l.read(b[:n], from.addr)
}
