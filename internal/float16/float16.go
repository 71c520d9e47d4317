// Package float16 converts numbers of 32 bits to numbers of 16 and back: IEEE half precision, and bfloat16.
//
// The C API has a conversion of its own, which knows no infinities (core.Thread.FloatToFloat16); devices compute with
// these.
package float16

import "math"

const (
	sign16 = 1 << 15
	inf16  = 0x7c00 // a half's
	inf32  = 0x7f800000
)

// Most16 and MostB are the largest finite numbers.
const (
	Most16 = 0x7bff // 65504
	MostB  = 0x7f7f // about 3.39e38
)

// To is the number that a half is. Every one is a float32.
func To(h uint16) float32 {
	rest := uint32(h &^ sign16)
	// the bias of the exponent is 112 less; subnormals get theirs
	bits := math.Float32bits(math.Float32frombits(rest<<13) * 0x1p112)
	if rest >= inf16 {
		bits = rest<<13 | inf32
	}
	return math.Float32frombits(bits | uint32(h&sign16)<<16)
}

// From is the half nearest to f, ties to even. What is 65520 or more is infinite.
func From(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & sign16
	bits &^= 1 << 31
	switch {
	case bits > inf32:
		return sign | inf16 | 1<<9 | uint16(bits>>13&0x3ff) // not a number, and quiet
	case bits >= 0x477ff000: // 65520
		return sign | inf16
	case bits < 0x38800000: // below the smallest normal half: beside 0.5 a float's last bit is a subnormal's
		const half = 0x3f000000
		return sign | uint16(math.Float32bits(math.Float32frombits(bits)+0.5)-half)
	}
	bits += 0xfff + bits>>13&1
	return sign | uint16((bits-0x38000000)>>13)
}

// ToB is the number that a bfloat16 is.
func ToB(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// FromB is the bfloat16 nearest to f, ties to even.
func FromB(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&^(1<<31) > inf32 {
		return uint16(bits>>16) | 1<<6 // not a number, and quiet
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
