package core

import (
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/reduce"
)

// maxSum is how many bytes one sum may have.
const maxSum = 4 << 30

// reduceKinds are the kinds of aclrtReduceAsync.
var reduceKinds = map[abi.ReduceKind]reduce.Kind{
	abi.MemcpySdmaAutomaticSum:   reduce.Sum,
	abi.MemcpySdmaAutomaticMax:   reduce.Max,
	abi.MemcpySdmaAutomaticMin:   reduce.Min,
	abi.MemcpySdmaAutomaticEqual: reduce.Equal,
}

// reduceTypes are the types that some product reduces.
var reduceTypes = map[abi.DataType]reduce.Type{
	abi.DataTypeInt8:    reduce.Int8,
	abi.DataTypeInt16:   reduce.Int16,
	abi.DataTypeInt32:   reduce.Int32,
	abi.DataTypeUint32:  reduce.Uint32,
	abi.DataTypeFloat16: reduce.Float16,
	abi.DataTypeBF16:    reduce.BFloat16,
	abi.DataTypeFloat:   reduce.Float32,
}

// ReduceAsync is aclrtReduceAsync: dst = dst (kind) src, element by element, in the order of the stream. count is in bytes.
func (t *Thread) ReduceAsync(dst, src Addr, count uint64, kind abi.ReduceKind, dataType abi.DataType, stream Handle, reserve Addr) *Error {
	const api = "aclrtReduceAsync"
	switch {
	case dst == 0:
		return isNull(api, "dst")
	case src == 0:
		return isNull(api, "src")
	case reserve != 0:
		return invalid(api, "reserve", "%#x is reserved and must be NULL", reserve)
	}
	typ, reducible := reduceTypes[dataType]
	switch dataType {
	case abi.DataTypeInt4, abi.DataTypeUint8, abi.DataTypeUint16: // known, and nobody has them
	default:
		if !reducible {
			return invalid(api, "type", "%v cannot be reduced", dataType)
		}
	}
	c := t.current()
	if c == nil && !t.rt.prod.ReduceKinds { // 310P and 910 look at the context first
		return noContext(api)
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	how, known := reduceKinds[kind]
	switch {
	case count == 0:
		return refused(api, "count", "is 0")
	case !known:
		return refused(api, "kind", "%d is not 10 (sum), 11 (maximum), 12 (minimum) or 13 (equal)", kind)
	case how != reduce.Sum && !t.rt.prod.ReduceKinds:
		return refused(api, "kind", "%v: %s knows sums only", kind, t.rt.prod.Name)
	case how == reduce.Sum && count > maxSum:
		return refused(api, "count", "%d bytes are more than 4 GiB", count)
	case c == nil:
		return noContext(api)
	}
	if s, err = c.on(api, s); err != nil {
		return err
	}
	if !slices.Contains(t.rt.prod.ReduceTypes, int32(dataType)) {
		return unsupported(api, "type", "%s does not reduce %v", t.rt.prod.Name, dataType)
	}
	for _, a := range [...]struct {
		arg  string
		addr Addr
	}{{"src", src}, {"dst", dst}} {
		if a.addr%Addr(typ.Size()) != 0 {
			return fail(api, abi.ErrRTAddrUnaligned, a.arg, "%#x is not a multiple of %d, the size of an element", a.addr, typ.Size())
		}
	}
	if err := t.reachable(api, "src", c.dev, src, count); err != nil {
		return err
	}
	if err := t.reachable(api, "dst", c.dev, dst, count); err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	op := reduce.Op{Kind: how, Type: typ, Saturate: c.dev.saturates()}
	rt, dropped := t.rt, s.dropped()
	return s.launch(api, t, task{op: driver.Op{Kind: driver.OpWork, Dst: dst, Src: src, N: count, Work: func() error {
		return rt.reduce(op, dst, src, count, dropped)
	}}, kind: observe.Reduce})
}

// saturates tells whether floats of the device stay finite.
func (d *Device) saturates() bool {
	mode := d.overflow.Load() - 1
	if mode < 0 {
		mode = d.rt.prod.DefaultSatMode
	}
	return abi.FloatOverflowMode(mode) == abi.OverflowModeSaturation
}

// reduce combines n bytes of src with dst. Where they overlap, src counts as it was before.
func (rt *Runtime) reduce(op reduce.Op, dst, src Addr, n uint64, dropped func() bool) error {
	overlap := dst != src && dst < src+Addr(n) && src < dst+Addr(n)
	pieces := (n + pieceBytes - 1) / pieceBytes
	return rt.compute(pieces, overlap, dropped, func(h *hand, i uint64) error {
		if dst > src {
			i = pieces - 1 - i // from behind, as memmove does
		}
		at := i * pieceBytes
		m := min(n-at, pieceBytes)
		from, err := h.see(0, src+Addr(at), m)
		if err != nil {
			return err
		}
		if overlap && h.viewer != nil {
			from = append(h.scratch(0)[:0], from...)
		}
		to, err := h.see(1, dst+Addr(at), m)
		if err != nil {
			return err
		}
		op.Do(to, from)
		return h.change(dst+Addr(at), to)
	})
}
