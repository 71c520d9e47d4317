package transfer

import (
	"math"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// A half has, from the top: 1 bit sign, 5 bits exponent (bias 15), 10 bits fraction.
const (
	halfSign     = 1 << 15
	halfFraction = 10
	halfBias     = 15
	halfMost     = 0x7bff // 65504
	floatBias    = 127
	floatShift   = 23 - halfFraction // fraction bits a float has more
)

// Float16ToFloat is aclFloat16ToFloat. Exponent 31 is an exponent like any other: there are neither infinities nor
// NaNs, 0x7c00 is 65536.
func Float16ToFloat(t *core.Thread, value uint16) float32 {
	exp := int(value>>halfFraction) & 31
	frac := int32(value & (1<<halfFraction - 1))
	if exp == 0 {
		exp = 1 // subnormal: the same power of two, without the hidden bit
	} else {
		frac |= 1 << halfFraction
	}
	f := math.Ldexp(float64(frac), exp-halfBias-halfFraction)
	if value&halfSign != 0 {
		f = -f // also of zero
	}
	return float32(f)
}

// FloatToFloat16 is aclFloatToFloat16: to the nearest half, ties to even. What is too large, infinities and NaNs
// become the largest half of their sign.
func FloatToFloat16(t *core.Thread, value float32) uint16 {
	bits := math.Float32bits(value)
	sign := uint16(bits >> 16 & halfSign)
	bits &^= 1 << 31
	if bits >= math.Float32bits(65520) { // nearer to 65536 than to 65504, or no number
		return sign | halfMost
	}
	exp := int(bits>>23) - floatBias + halfBias
	frac := bits&(1<<23-1) | 1<<23
	shift := floatShift
	if exp <= 0 { // a subnormal half: no hidden bit, the power of two is that of exponent 1
		shift += 1 - exp
		exp = 1
	}
	if shift > 24 { // less than half of the smallest half; subnormal floats are among them
		return sign
	}
	half := frac >> shift
	rest, tie := frac&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > tie || rest == tie && half&1 != 0 {
		half++
	}
	// half holds the hidden bit where there is one, so that it counts one exponent; rounding up carries into it.
	return sign | uint16(uint32(exp-1)<<halfFraction+half)
}

// DataTypeSize is aclDataTypeSize: the bytes of an element.
func DataTypeSize(t *core.Thread, dataType abi.DataType) uint64 {
	switch dataType {
	case abi.DataTypeUndefined, abi.DataTypeString:
		return 0
	case abi.DataTypeInt8, abi.DataTypeUint8, abi.DataTypeBool, abi.DataTypeInt4, abi.DataTypeUint1,
		abi.DataTypeHifloat8,
		abi.DataTypeFloat8E5M2, abi.DataTypeFloat8E4M3FN, abi.DataTypeFloat8E8M0,
		abi.DataTypeHifloat4Scale:
		return 1
	case abi.DataTypeFloat16, abi.DataTypeInt16, abi.DataTypeUint16, abi.DataTypeBF16:
		return 2
	case abi.DataTypeFloat, abi.DataTypeInt32, abi.DataTypeUint32, abi.DataTypeComplex32:
		return 4
	case abi.DataTypeComplex128:
		return 16
	}
	return 8
}

// dataBuffer is an address and a size; the program owns the memory.
type dataBuffer struct {
	addr atomic.Uintptr
	size atomic.Uint64
}

// CreateDataBuffer is aclCreateDataBuffer; 0 when there are too many.
func CreateDataBuffer(t *core.Thread, data core.Addr, size uint64) core.Handle {
	b := &dataBuffer{}
	b.addr.Store(data)
	b.size.Store(size)
	return transferOf(t.Runtime).buffers.Add(b)
}

// DestroyDataBuffer is aclDestroyDataBuffer.
func DestroyDataBuffer(t *core.Thread, buffer core.Handle) *core.Error {
	const api = "aclDestroyDataBuffer"
	if err := checkDestroyDataBuffer(t, buffer); err != nil {
		return err
	}
	if transferOf(t.Runtime).buffers.Remove(buffer) == nil {
		return noBuffer(api, buffer)
	}
	return nil
}

// UpdateDataBuffer is aclUpdateDataBuffer.
func UpdateDataBuffer(t *core.Thread, buffer core.Handle, data core.Addr, size uint64) *core.Error {
	const api = "aclUpdateDataBuffer"
	if err := checkUpdateDataBuffer(t, buffer, data, size); err != nil {
		return err
	}
	b := transferOf(t.Runtime).buffers.Get(buffer)
	if b == nil {
		return noBuffer(api, buffer)
	}
	b.addr.Store(data)
	b.size.Store(size)
	return nil
}

// noBuffer returns the error for an invalid handle; the vendor's library would read freed memory.
func noBuffer(api string, buffer core.Handle) *core.Error {
	return core.Invalid(api, "dataBuffer", "%#x is no data buffer, or one that was destroyed", uintptr(buffer))
}

// GetDataBufferAddr is aclGetDataBufferAddr; 0 for NULL and invalid handles.
func GetDataBufferAddr(t *core.Thread, buffer core.Handle) core.Addr {
	if b := transferOf(t.Runtime).buffers.Get(buffer); b != nil {
		return b.addr.Load()
	}
	return 0
}

// GetDataBufferSize is aclGetDataBufferSize: the size cut to 32 bits; 0 for NULL and invalid handles.
func GetDataBufferSize(t *core.Thread, buffer core.Handle) uint32 {
	return uint32(GetDataBufferSizeV2(t, buffer))
}

// GetDataBufferSizeV2 is aclGetDataBufferSizeV2; 0 for NULL and invalid handles.
func GetDataBufferSizeV2(t *core.Thread, buffer core.Handle) uint64 {
	if b := transferOf(t.Runtime).buffers.Get(buffer); b != nil {
		return b.size.Load()
	}
	return 0
}
