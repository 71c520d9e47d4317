package ascend

import (
	"ropeway"
	"ropeway/internal/abi"
	"ropeway/internal/core/transfer"
)

// Reduction is an operation of [Reduce] on two numbers.
type Reduction int32

// The reductions.
const (
	Sum Reduction = Reduction(abi.MemcpySdmaAutomaticSum)
	Max Reduction = Reduction(abi.MemcpySdmaAutomaticMax)
	Min Reduction = Reduction(abi.MemcpySdmaAutomaticMin)
)

// Type is a type of numbers in device memory. Products and calls support different types.
type Type int32

// The types.
const (
	Float32  Type = Type(abi.DataTypeFloat)
	Float16  Type = Type(abi.DataTypeFloat16)
	BFloat16 Type = Type(abi.DataTypeBF16)
	Int8     Type = Type(abi.DataTypeInt8)
	Int16    Type = Type(abi.DataTypeInt16)
	Int32    Type = Type(abi.DataTypeInt32)
	Int64    Type = Type(abi.DataTypeInt64)
	Uint32   Type = Type(abi.DataTypeUint32)
	Uint64   Type = Type(abi.DataTypeUint64)
)

// String returns the name of the type, such as Float32.
func (t Type) String() string { return abi.DataType(t).String() }

// Reduce queues the elementwise operation dst = dst how src, for all numbers of src.
func Reduce(s *ropeway.Stream, dst, src ropeway.Span, how Reduction, of Type) error {
	q := on(s, "aclrtReduceAsync")
	to, err := q.addr("dst", dst)
	if err != nil {
		return err
	}
	from, err := q.addr("src", src)
	if err != nil {
		return err
	}
	if src.Len() > dst.Len() {
		return q.outOfBounds("count", "the source is longer than the destination")
	}
	return q.result(transfer.ReduceAsync(q.t, to, from, uint64(src.Len()), abi.ReduceKind(how), abi.DataType(of), q.h,
		0))
}
