package hostqueue

import (
	"encoding/binary"
	"fmt"

	"ropeway/internal/driver"
)

// Indirect returns the plain copy that a descriptor or offset copy describes at this moment. peek reads the n bytes (at
// most 64) of a descriptor or a cell. The error is ErrFault if an address is not memory of the device of op; Indirect
// does not check the length.
func Indirect(op *driver.Op, d driver.Driver, peek func(addr uintptr, n uint64) ([64]byte, error)) (driver.Op, error) {
	c := driver.Op{Kind: driver.OpCopy, N: op.N}
	n := uint64(8)
	if op.Kind == driver.OpDesc {
		n = op.N
	}
	src, err := peek(op.Src, n)
	if err != nil {
		return c, err
	}
	word := func(b []byte) uintptr { return uintptr(binary.LittleEndian.Uint64(b)) }
	if op.Kind == driver.OpDesc {
		l := op.Layout
		c.Dst, c.Src, c.N = word(src[l.Dst:]), word(src[l.Src:]), uint64(binary.LittleEndian.Uint32(src[l.Length:]))
	} else {
		dst, err := peek(op.Dst, 8)
		if err != nil {
			return c, err
		}
		c.Dst, c.Src = word(dst[:])+uintptr(op.DstPitch), word(src[:])+uintptr(op.SrcPitch)
	}
	for _, addr := range [...]uintptr{c.Src, c.Dst} {
		if l := d.Locate(addr); l.Place != driver.OnDevice || l.Device != op.Device {
			return c, fmt.Errorf("%w: %#x, read when the copy ran, is not memory of device %d", driver.ErrFault, addr,
				op.Device)
		}
	}
	return c, nil
}
