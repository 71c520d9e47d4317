package ropeway

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Reduction is how [Stream.Reduce] puts two numbers together.
type Reduction = abi.ReduceKind

// Reductions.
const (
	Sum = abi.MemcpySdmaAutomaticSum
	Max = abi.MemcpySdmaAutomaticMax
	Min = abi.MemcpySdmaAutomaticMin
)

// Number is a type of numbers in device memory. Products and calls differ in those they know.
type Number = abi.DataType

// Numbers.
const (
	Float32  = abi.DataTypeFloat
	Float16  = abi.DataTypeFloat16
	BFloat16 = abi.DataTypeBF16
	Int8     = abi.DataTypeInt8
	Int16    = abi.DataTypeInt16
	Int32    = abi.DataTypeInt32
	Int64    = abi.DataTypeInt64
	Uint32   = abi.DataTypeUint32
	Uint64   = abi.DataTypeUint64
)

// Reduce queues dst = dst how src, number by number, for all numbers of src.
func (s *Stream) Reduce(dst, src Span, how Reduction, of Number) error {
	const api = "aclrtReduceAsync"
	if err := usable(s.d.r, api, dst, src); err != nil {
		return err
	}
	if src.n > dst.n {
		return s.d.r.refuse(api, "count", "the source is longer than the destination", core.OutOfBounds, 0)
	}
	return s.d.answer(s.d.t.ReduceAsync(dst.addr, src.addr, uint64(src.n), how, of, s.h, 0))
}
