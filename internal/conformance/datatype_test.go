package conformance

import (
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core/transfer"
)

func init() {
	behaves("aclFloat16ToFloat", func(e *env) { // internal/core goes through all of them
		for h, want := range map[uint16]float32{
			0: 0, 0x3c00: 1, 0xc000: -2, 1: 1.0 / (1 << 24), 0x7bff: 65504, 0x7c00: 65536, 0xfc00: -65536,
			0x7e00: 98304,
		} {
			is(e, "half", transfer.Float16ToFloat(e.th, h), want)
		}
	})
	behaves("aclFloatToFloat16", func(e *env) {
		inf := float32(math.Inf(1))
		for f, want := range map[float32]uint16{
			0: 0, 1: 0x3c00, -2: 0xc000, 65504: 0x7bff, 65520: 0x7bff, -1e9: 0xfbff, inf: 0x7bff, -inf: 0xfbff,
			1.0 / (1 << 24): 1, 1.0 / (1 << 25): 0, 1.5 / (1 << 25): 1, 2049: 0x6800, 2051: 0x6802,
		} {
			is(e, "float", transfer.FloatToFloat16(e.th, f), want)
		}
		nan := float32(math.NaN())
		is(e, "NaN", transfer.FloatToFloat16(e.th, nan), 0x7bff)
		is(e, "negative NaN", transfer.FloatToFloat16(e.th, float32(math.Copysign(float64(nan), -1))), 0xfbff)
	})
	behaves("aclDataTypeSize", func(e *env) {
		for size, types := range map[uint64][]abi.DataType{
			0: {abi.DataTypeUndefined, abi.DataTypeString},
			1: {abi.DataTypeInt8, abi.DataTypeUint8, abi.DataTypeBool, abi.DataTypeInt4, abi.DataTypeUint1,
				abi.DataTypeHifloat8,
				abi.DataTypeFloat8E5M2, abi.DataTypeFloat8E4M3FN, abi.DataTypeFloat8E8M0,
				abi.DataTypeHifloat4Scale},
			2: {abi.DataTypeFloat16, abi.DataTypeInt16, abi.DataTypeUint16, abi.DataTypeBF16},
			4: {abi.DataTypeFloat, abi.DataTypeInt32, abi.DataTypeUint32, abi.DataTypeComplex32},
			8: {abi.DataTypeInt64, abi.DataTypeUint64, abi.DataTypeDouble, abi.DataTypeComplex64,
				abi.DataTypeFloat6E3M2,
				abi.DataTypeFloat6E2M3, abi.DataTypeFloat4E2M1, abi.DataTypeFloat4E1M2, abi.DataTypeHifloat4, 999},
			16: {abi.DataTypeComplex128},
		} {
			for _, d := range types {
				is(e, d.String(), transfer.DataTypeSize(e.stranger(), d), size)
			}
		}
	})

	behaves("aclCreateDataBuffer", func(e *env) {
		a, b := transfer.CreateDataBuffer(e.stranger(), 0x1000, 1<<33+5), transfer.CreateDataBuffer(e.th, 0, 0)
		if a == 0 || b == 0 || a == b {
			e.Fatalf("handles %#x and %#x", a, b)
		}
		is(e, "live buffers", transfer.LiveBuffers(e.rt), 2)
		is(e, "address", transfer.GetDataBufferAddr(e.th, a), 0x1000)
		is(e, "size", transfer.GetDataBufferSizeV2(e.th, a), 1<<33+5)
	})
	behaves("aclDestroyDataBuffer", func(e *env) {
		b := transfer.CreateDataBuffer(e.th, e.device(64), 64)
		e.ok(transfer.DestroyDataBuffer(e.stranger(), b))
		is(e, "live buffers", transfer.LiveBuffers(e.rt), 0)
		e.want(transfer.DestroyDataBuffer(e.th, b), abi.ErrInvalidParam)
		e.want(transfer.DestroyDataBuffer(e.th, garbage), abi.ErrInvalidParam)
	})
	behaves("aclUpdateDataBuffer", func(e *env) {
		b := transfer.CreateDataBuffer(e.th, 0x1000, 5)
		e.ok(transfer.UpdateDataBuffer(e.stranger(), b, 0x2000, 6))
		is(e, "address", transfer.GetDataBufferAddr(e.th, b), 0x2000)
		is(e, "size", transfer.GetDataBufferSizeV2(e.th, b), 6)
		e.ok(transfer.DestroyDataBuffer(e.th, b))
		e.want(transfer.UpdateDataBuffer(e.th, b, 0x3000, 7), abi.ErrInvalidParam)
	})
	behaves("aclGetDataBufferAddr", func(e *env) {
		is(e, "of a buffer", transfer.GetDataBufferAddr(e.stranger(), transfer.CreateDataBuffer(e.th, 0x1000, 5)),
			0x1000)
		is(e, "of NULL", transfer.GetDataBufferAddr(e.th, 0), 0)
		is(e, "of something else", transfer.GetDataBufferAddr(e.th, e.stream()), 0)
	})
	behaves("aclGetDataBufferSize", func(e *env) {
		is(e, "cut to 32 bits", transfer.GetDataBufferSize(e.th, transfer.CreateDataBuffer(e.th, 0x1000, 1<<33+5)), 5)
		is(e, "of NULL", transfer.GetDataBufferSize(e.th, 0), 0)
	})
	behaves("aclGetDataBufferSizeV2", func(e *env) {
		is(e, "whole", transfer.GetDataBufferSizeV2(e.th, transfer.CreateDataBuffer(e.th, 0x1000, 1<<33+5)), 1<<33+5)
		is(e, "of NULL", transfer.GetDataBufferSizeV2(e.th, 0), 0)
	})
}
