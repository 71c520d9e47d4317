package transfer

import (
	"slices"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/reduce"
)

// maxSum is the most bytes of one sum.
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

// ReduceAsync is aclrtReduceAsync: dst = dst (kind) src, element by element, in the order of the stream. count is in
// bytes.
func ReduceAsync(t *core.Thread, dst, src core.Addr, count uint64, kind abi.ReduceKind, dataType abi.DataType,
	stream core.Handle, reserve core.Addr) *core.Error {
	const api = "aclrtReduceAsync"
	if err := checkReduceAsync(t, dst, src, count, kind, dataType, stream, reserve); err != nil {
		return err
	}
	typ, reducible := reduceTypes[dataType]
	switch dataType {
	case abi.DataTypeInt4, abi.DataTypeUint8, abi.DataTypeUint16: // known, and no product has them
	default:
		if !reducible {
			return core.Invalid(api, "type", "%v cannot be reduced", dataType)
		}
	}
	c := t.Current()
	if c == nil && !t.Runtime.Product.ReduceKinds { // 310P and 910 check the context first
		return core.NoCurrentContext(api)
	}
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	how, known := reduceKinds[kind]
	switch {
	case count == 0:
		return core.Refused(api, "count", "is 0")
	case !known:
		return core.Refused(api, "kind", "%d is not 10 (sum), 11 (maximum), 12 (minimum) or 13 (equal)", kind)
	case how != reduce.Sum && !t.Runtime.Product.ReduceKinds:
		return core.Refused(api, "kind", "%v: %s knows sums only", kind, t.Runtime.Product.Name)
	case how == reduce.Sum && count > maxSum:
		return core.Refused(api, "count", "%d bytes are more than 4 GiB", count)
	case c == nil:
		return core.NoCurrentContext(api)
	}
	if s, err = c.On(api, s); err != nil {
		return err
	}
	if !slices.Contains(t.Runtime.Product.ReduceTypes, int32(dataType)) {
		return core.Unsupported(api, "type", "%s does not reduce %v", t.Runtime.Product.Name, dataType)
	}
	for _, a := range [...]struct {
		arg  string
		addr core.Addr
	}{{"src", src}, {"dst", dst}} {
		if a.addr%core.Addr(typ.Size()) != 0 {
			return core.Fail(api, abi.ErrRTAddrUnaligned, a.arg, "%#x is not a multiple of %d, the size of an element",
				a.addr, typ.Size())
		}
	}
	if err := reachable(t, api, "src", c.Device, src, count); err != nil {
		return err
	}
	if err := reachable(t, api, "dst", c.Device, dst, count); err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	op := reduce.Op{Kind: how, Type: typ, Saturate: saturates(c.Device)}
	if typ.Float() && op.Kind == reduce.Sum && !s.CountsOverflow() {
		if _, err := c.OverflowBuffer(); err != nil { // the task reports there
			return core.FromDriver(api, "", err)
		}
	}
	dropped := s.Dropped()
	return s.Launch(api, t, core.Task{Op: driver.Op{Kind: driver.OpCompute, Dst: dst, Src: src, N: count,
		Work: func() error {
			return reduceTask(s, op, dst, src, count, dropped)
		}}, Kind: observe.Reduce})
}

// saturates reports whether floats of the device stay finite.
func saturates(d *core.Device) bool {
	mode := d.Overflow.Load() - 1
	if mode < 0 {
		mode = d.Runtime.Product.DefaultSatMode
	}
	return abi.FloatOverflowMode(mode) == abi.OverflowModeSaturation
}

// reduceTask combines n bytes of src with dst, and reports overflow. If they overlap, it uses the previous content of
// src.
func reduceTask(s *core.Stream, op reduce.Op, dst, src core.Addr, n uint64, dropped func() bool) error {
	var overflow atomic.Bool
	overlap := dst != src && dst < src+core.Addr(n) && src < dst+core.Addr(n)
	pieces := (n + pieceBytes - 1) / pieceBytes
	err := compute(s.Runtime, pieces, overlap, dropped, func(h *hand, i uint64) error {
		if dst > src {
			i = pieces - 1 - i // from the end, as memmove does
		}
		at := i * pieceBytes
		m := min(n-at, pieceBytes)
		from, err := h.see(0, src+core.Addr(at), m)
		if err != nil {
			return err
		}
		if overlap && h.viewer != nil {
			from = append(h.scratch(0)[:0], from...)
		}
		to, err := h.see(1, dst+core.Addr(at), m)
		if err != nil {
			return err
		}
		if op.Do(to, from) {
			overflow.Store(true)
		}
		return h.change(dst+core.Addr(at), to)
	})
	if err == nil && overflow.Load() {
		return s.ReportOverflow()
	}
	return err
}
