package ascend

import (
	"encoding/binary"
	"fmt"
	"math"

	"ropeway"
	"ropeway/internal/abi"
	"ropeway/internal/core/transfer"
	"ropeway/internal/float16"
	"ropeway/internal/random"
)

// Distribution is a distribution of random numbers. Its parameters are rounded to the type of the numbers; those of
// integers must be integers.
type Distribution struct {
	kind abi.RandomNumFuncType
	of   Type
	a, b float64
}

// Uniform is the uniform distribution over [low, high): floats, or integers of 32 or 64 bits.
func Uniform(of Type, low, high float64) Distribution {
	return Distribution{abi.RandomNumFuncTypeUniformDis, of, low, high}
}

// Normal is the normal distribution of floats.
func Normal(of Type, mean, deviation float64) Distribution {
	return Distribution{abi.RandomNumFuncTypeNormalDis, of, mean, deviation}
}

// TruncatedNormal is Normal without numbers more than two standard deviations from the mean.
func TruncatedNormal(of Type, mean, deviation float64) Distribution {
	return Distribution{abi.RandomNumFuncTypeTruncatedNormalDis, of, mean, deviation}
}

// Dropout is a bit mask: each bit is 0 with probability ratio, else 1. The first bit is the lowest of its byte.
func Dropout(ratio float64) Distribution {
	return Distribution{abi.RandomNumFuncTypeDropoutBitmask, Float32, ratio, 0}
}

// RandomSource is a source of random numbers. The same seed and counter give the same numbers.
type RandomSource struct {
	Seed uint64

	// Counter is 16 bytes of device memory, zeros at first. Drawing advances it, so that the next numbers differ.
	Counter ropeway.Span
}

// Random queues filling dst with random numbers. Uses of one counter on several streams must be ordered. Only some
// products have it (A2, A3).
func Random(s *ropeway.Stream, dst ropeway.Span, like Distribution, from RandomSource) error {
	q := on(s, "aclrtRandomNumAsync")
	to, err := q.addr("randomResultAddr", dst)
	if err != nil {
		return err
	}
	counter, err := q.addr("randomCounterAddr", from.Counter)
	if err != nil {
		return err
	}
	if from.Counter.Len() < random.CounterBytes {
		return q.outOfBounds("randomCounterAddr", fmt.Sprintf("the span is shorter than %d bytes", random.CounterBytes))
	}
	a, sizeA := bitsOf(like.of, like.a)
	b, sizeB := bitsOf(like.of, like.b)
	size := min(sizeA, sizeB)
	if size == 0 {
		text := fmt.Sprintf("%v and %v are not both a %v that random numbers know", like.a, like.b, like.of)
		return q.misuse("taskInfo", text)
	}
	count := uint64(dst.Len()) * 8 // of a mask
	if like.kind != abi.RandomNumFuncTypeDropoutBitmask {
		count = uint64(dst.Len() / size)
		if dst.Len()%size != 0 {
			return q.misuse("randomResultAddr", fmt.Sprintf("%d bytes are no whole number of %v", dst.Len(), like.of))
		}
	}
	task := abi.RandomNumTaskInfo{DataType: abi.DataType(like.of), RandomResultAddr: to, RandomCounterAddr: counter,
		RandomSeed: given(from.Seed, 8), RandomNum: given(count, 8)}
	f := &task.RandomNumFuncParaInfo
	f.FuncType = like.kind
	switch like.kind {
	case abi.RandomNumFuncTypeDropoutBitmask:
		f.ParamInfo.DropoutBitmaskInfo().DropoutRation = given(a, size)
	case abi.RandomNumFuncTypeUniformDis:
		*f.ParamInfo.UniformDisInfo() = abi.UniformDisInfo{Min: given(a, size), Max: given(b, size)}
	default:
		*f.ParamInfo.NormalDisInfo() = abi.NormalDisInfo{Mean: given(a, size), Stddev: given(b, size)}
	}
	return q.result(transfer.RandomNumAsync(q.t, &task, q.h, 0))
}

// given returns a parameter passed by value.
func given(bits uint64, size int) (p abi.RandomParaInfo) {
	binary.LittleEndian.PutUint64(p.ValueOrAddr[:], bits)
	p.Size = uint8(size)
	return p
}

// bitsOf converts v to a number of a type, and returns its size in bytes; 0 if there is no such number.
func bitsOf(of Type, v float64) (bits uint64, size int) {
	whole := func(low, end float64, n int) (uint64, int) {
		switch {
		case v != math.Trunc(v) || v < low || v >= end:
			return 0, 0
		case v < 0:
			return uint64(int64(v)), n
		}
		return uint64(v), n
	}
	switch of {
	case Float32:
		return uint64(math.Float32bits(float32(v))), 4
	case Float16:
		return uint64(float16.From(float32(v))), 2
	case BFloat16:
		return uint64(float16.FromB(float32(v))), 2
	case Int32:
		return whole(-1<<31, 1<<31, 4)
	case Int64:
		return whole(-1<<63, 1<<63, 8)
	case Uint32:
		return whole(0, 1<<32, 4)
	case Uint64:
		return whole(0, 1<<64, 8)
	}
	return 0, 0
}
