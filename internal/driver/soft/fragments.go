package soft

import (
	"encoding/binary"

	"ropeway/internal/driver"
)

// With Guard, what is one range to the program may be several to the engine: parts of registered memory have a second
// view. The functions here cut work at those borders; without Guard none of them is called.

// contiguous is how many of the n bytes at addr the engine finds in one fragment.
func (d *Driver) contiguous(addr uintptr, n uint64) uint64 {
	if d.vouches(addr) || d.isWindow(addr) {
		return n
	}
	if r, ok := d.hosts.find(addr); ok {
		n = min(n, r.room(addr))
		if r.shadow == nil {
			return n
		}
		host := r.host(addr)
		p := r.shadow.next(host)
		switch {
		case p == nil:
			return n
		case host < p.lo:
			return min(n, uint64(p.lo-host))
		}
		return min(n, uint64(p.hi-host))
	}
	if s := d.hosts.byHost.After(addr); s != nil {
		return min(n, uint64(s.Start-addr))
	}
	return n
}

// each calls f for the fragments of n bytes at addr, with where the engine finds them. Ordinary memory is allowed.
func (d *Driver) each(addr uintptr, n uint64, f func(at uintptr, n uint64) error) error {
	for n > 0 {
		part := d.contiguous(addr, n)
		at, err := d.resolve(addr, part, true)
		if err != nil {
			return err
		}
		if err := f(at, part); err != nil {
			return err
		}
		addr += uintptr(part)
		n -= part
	}
	return nil
}

// inFragments carries out op if its memory is not one fragment, and reports whether it did. A batch loses the
// segments that were carried out, and is still to be done.
func (d *Driver) inFragments(op *driver.Op, pageable bool, q *queue) (done bool, err error) {
	one := func(addr uintptr, n uint64) bool { return d.contiguous(addr, n) == n }
	switch op.Kind {
	case driver.OpCopy:
		if one(op.Dst, op.N) && one(op.Src, op.N) {
			return false, nil
		}
		return true, d.copyFragments(op, pageable, q)
	case driver.OpCopy2D:
		if op.Height == 0 || one(op.Dst, (op.Height-1)*op.DstPitch+op.N) && one(op.Src,
			(op.Height-1)*op.SrcPitch+op.N) {
			return false, nil
		}
		if err := d.whole(op, pageable); err != nil {
			return true, err
		}
		for i := range op.Height {
			row := driver.Op{Dst: op.Dst + uintptr(i*op.DstPitch), Src: op.Src + uintptr(i*op.SrcPitch), N: op.N}
			if err := d.copyFragments(&row, pageable, q); err != nil {
				return true, err
			}
		}
		return true, nil
	case driver.OpBatch:
		for i := range op.Segs.List {
			s := &op.Segs.List[i]
			if one(s.Dst, s.N) && one(s.Src, s.N) {
				continue
			}
			if err := d.copyFragments(&driver.Op{Dst: s.Dst, Src: s.Src, N: s.N}, pageable, q); err != nil {
				return true, err
			}
			op.Segs.Bytes -= s.N
			s.N = 0
		}
		return false, nil
	case driver.OpFill:
		if n := op.N * uint64(op.Width); !one(op.Dst, n) {
			if _, err := d.resolve(op.Dst, n, pageable); err != nil {
				return true, err
			}
			return true, d.fillFragments(op)
		}
	}
	return false, nil
}

// copyFragments copies op.N bytes, fragment by fragment.
func (d *Driver) copyFragments(op *driver.Op, pageable bool, q *queue) error {
	if _, err := d.resolve(op.Dst, op.N, pageable); err != nil {
		return err
	}
	if _, err := d.resolve(op.Src, op.N, pageable); err != nil {
		return err
	}
	if dst, src := d.hostOf(op.Dst), d.hostOf(op.Src); dst < src+uintptr(op.N) && src < dst+uintptr(op.N) {
		return d.copyOver(op)
	}
	for done := uint64(0); done < op.N; {
		part := driver.Op{Kind: driver.OpCopy, Dst: op.Dst + uintptr(done), Src: op.Src + uintptr(done)}
		part.N = min(d.contiguous(part.Dst, op.N-done), d.contiguous(part.Src, op.N-done))
		if err := d.copy(&part, pageable, q); err != nil {
			return err
		}
		done += part.N
	}
	return nil
}

// copyOver copies bytes over themselves, by way of a copy of them, so that they end as memmove leaves them.
func (d *Driver) copyOver(op *driver.Op) error {
	all := make([]byte, 0, op.N)
	err := d.each(op.Src, op.N, func(at uintptr, n uint64) error {
		all = append(all, bytesAt(at, n)...)
		return nil
	})
	if err != nil {
		return err
	}
	return d.write(op.Dst, all)
}

// write puts bytes at addr.
func (d *Driver) write(addr uintptr, b []byte) error {
	return d.each(addr, uint64(len(b)), func(at uintptr, n uint64) error {
		copy(bytesAt(at, n), b)
		b = b[n:]
		return nil
	})
}

// hostOf is the program's own address of addr, where registered memory has two.
func (d *Driver) hostOf(addr uintptr) uintptr {
	if r, ok := d.hosts.find(addr); ok {
		return r.host(addr)
	}
	return addr
}

// fillFragments fills fragment by fragment. An element that lies on a border is written by itself.
func (d *Driver) fillFragments(op *driver.Op) error {
	width := uint64(op.Width)
	element := binary.LittleEndian.AppendUint32(nil, op.Value)[:width]
	for addr, n := op.Dst, op.N; n > 0; {
		part := d.contiguous(addr, n*width) / width
		if part == 0 {
			if err := d.write(addr, element); err != nil {
				return err
			}
			part = 1
		} else {
			at, err := d.resolve(addr, part*width, true)
			if err != nil {
				return err
			}
			fill(at, op, part)
		}
		addr += uintptr(part * width)
		n -= part
	}
	return nil
}
