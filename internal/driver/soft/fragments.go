package soft

import (
	"encoding/binary"

	"ropeway/internal/driver"
)

// With Guard, one range of the program may be several fragments for the engine, because parts of registered memory have
// a second view. The functions here cut work at the borders of fragments; without Guard none of them is called.

// contiguous returns how many of the n bytes at addr are in one fragment.
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

// each calls f with the engine's address and the length of each fragment of the n bytes at addr. Ordinary memory is
// allowed.
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

// inFragments carries out op if one of its ranges has several fragments, and reports whether it did.
func (d *Driver) inFragments(op *driver.Op, pageable bool, q *queue) (done bool, err error) {
	op.Ranges(0, func(lo, hi uintptr, _ bool) bool {
		done = d.contiguous(lo, uint64(hi-lo)) < uint64(hi-lo)
		return !done
	})
	if !done {
		return false, nil
	}
	if err := d.whole(op, pageable); err != nil {
		return true, err
	}
	if op.Kind == driver.OpFill {
		return true, d.fillFragments(op)
	}
	return true, op.EachCopy(func(dst, src uintptr, n uint64) error {
		return d.copyFragments(&driver.Op{Dst: dst, Src: src, N: n}, pageable, q)
	})
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

// copyOver copies between overlapping ranges through a buffer, with the result of memmove.
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

// write copies b to addr.
func (d *Driver) write(addr uintptr, b []byte) error {
	return d.each(addr, uint64(len(b)), func(at uintptr, n uint64) error {
		copy(bytesAt(at, n), b)
		b = b[n:]
		return nil
	})
}

// hostOf returns the host address of addr, which may be the device address of registered memory.
func (d *Driver) hostOf(addr uintptr) uintptr {
	if r, ok := d.hosts.find(addr); ok {
		return r.host(addr)
	}
	return addr
}

// fillFragments fills fragment by fragment. An element across a border is written by itself.
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
