// Package reduce combines arrays of numbers element by element, like a device: dst = dst (kind) src.
//
// Sums of integers wrap. Sums of 16-bit floats are made in 32 bits and rounded to nearest, ties to even; all floats
// follow IEEE 754, or stay finite if requested. The maximum and minimum of a number and NaN is NaN, and +0 is larger
// than -0.
package reduce

import (
	"encoding/binary"
	"fmt"
	"math"

	"ropeway/internal/float16"
)

// Kind is an operation on two elements.
type Kind uint8

// Kinds. Equal gives 1 for equal elements, else 0.
const (
	Sum Kind = iota
	Max
	Min
	Equal
)

// Type is the type of the elements.
type Type uint8

// Types.
const (
	Int8 Type = iota
	Int16
	Int32
	Uint32
	Float16
	BFloat16
	Float32
)

// Types lists all types, Kinds all kinds.
var (
	Types = []Type{Int8, Int16, Int32, Uint32, Float16, BFloat16, Float32}
	Kinds = []Kind{Sum, Max, Min, Equal}
)

var sizes = [...]int{Int8: 1, Int16: 2, Int32: 4, Uint32: 4, Float16: 2, BFloat16: 2, Float32: 4}

// Size returns the size of an element in bytes.
func (t Type) Size() int { return sizes[t] }

// Float reports whether elements are floats.
func (t Type) Float() bool { return t >= Float16 }

// Op is an operation on every pair of elements.
type Op struct {
	Kind Kind
	Type Type
	// sums of floats that are infinite become the largest finite number of their sign, NaN the largest of all
	Saturate bool
}

// Do combines the elements of src with those of dst. Both must have the same length, be aligned to the type, and be
// identical or disjoint. Bytes after the last whole element do not change. It reports whether a sum of finite floats
// was too large for its type.
func (o Op) Do(dst, src []byte) (overflow bool) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("BUG: %d bytes are combined with %d", len(src), len(dst)))
	}
	switch o.Type {
	case Int8:
		numbers(o.Kind, as[int8](dst), as[int8](src))
	case Int16:
		numbers(o.Kind, as[int16](dst), as[int16](src))
	case Int32:
		numbers(o.Kind, as[int32](dst), as[int32](src))
	case Uint32:
		numbers(o.Kind, as[uint32](dst), as[uint32](src))
	case Float16, BFloat16:
		return o.halves(as[uint16](dst), as[uint16](src))
	case Float32:
		return o.floats(dst, src)
	}
	return false
}

// numbers combines numbers; sums of integers wrap. Each kind has its own loop.
func numbers[T int8 | int16 | int32 | uint32 | float32](kind Kind, dst, src []T) {
	dst = dst[:len(src)]
	switch kind {
	case Sum:
		for i, s := range src {
			dst[i] += s
		}
	case Max:
		for i, s := range src {
			dst[i] = max(dst[i], s)
		}
	case Min:
		for i, s := range src {
			dst[i] = min(dst[i], s)
		}
	case Equal:
		for i, s := range src {
			var equal T
			if dst[i] == s {
				equal = 1
			}
			dst[i] = equal
		}
	}
}

// portion is the count of floats combined at a time, so that they stay in the cache.
const portion = 512

// floats combines floats of 32 bits. It checks sums after computing them, since they are almost always finite.
func (o Op) floats(dst, src []byte) (overflow bool) {
	if o.Kind != Sum {
		numbers(o.Kind, as[float32](dst), as[float32](src))
		return false
	}
	var before [portion]float32
	for len(dst) >= 4 {
		n := min(len(dst)&^3, 4*portion)
		d, s := as[float32](dst[:n]), as[float32](src[:n])
		copy(before[:], d)
		if &d[0] == &s[0] {
			s = before[:len(d)]
		}
		numbers(Sum, d, s)
		if !allFinite(dst[:n]) {
			overflow = o.bound(d, before[:len(d)], s) || overflow
		}
		dst, src = dst[n:], src[n:]
	}
	return overflow
}

// allFinite reports whether all floats are finite: none has an exponent of ones, to which the lowest bit of the
// exponent can be added without a carry.
func allFinite(b []byte) bool {
	const exponent, lowest = 0x7F8000007F800000, 0x0080000000800000
	var carry uint64
	for ; len(b) >= 32; b = b[32:] {
		carry |= binary.NativeEndian.Uint64(b)&exponent + lowest
		carry |= binary.NativeEndian.Uint64(b[8:])&exponent + lowest
		carry |= binary.NativeEndian.Uint64(b[16:])&exponent + lowest
		carry |= binary.NativeEndian.Uint64(b[24:])&exponent + lowest
	}
	for ; len(b) >= 4; b = b[4:] {
		carry |= uint64(binary.NativeEndian.Uint32(b))&exponent + lowest
	}
	return carry&(1<<63|1<<31) == 0
}

// bound reports whether sums of finite numbers a and b are not finite, and replaces them by the largest number if
// o.Saturate.
func (o Op) bound(sums, a, b []float32) (overflow bool) {
	for i, sum := range sums {
		if finite(sum) {
			continue
		}
		overflow = overflow || finite(a[i]) && finite(b[i])
		switch {
		case o.Saturate && sum < 0:
			sums[i] = -math.MaxFloat32
		case o.Saturate:
			sums[i] = math.MaxFloat32
		}
	}
	return overflow
}

func finite(f float32) bool { return f-f == 0 }

// halves combines floats of 16 bits as if they had 32.
func (o Op) halves(dst, src []uint16) (overflow bool) {
	var wide [2][portion]float32
	var result [portion]uint16
	for len(dst) > 0 {
		n := min(len(dst), portion)
		d, s, r := wide[0][:n], wide[1][:n], result[:n]
		widen(o.Type, d, dst[:n])
		widen(o.Type, s, src[:n])
		numbers(o.Kind, d, s)
		narrow(o.Type, r, d)
		if o.Kind == Sum {
			overflow = o.boundHalves(r, dst, src) || overflow
		}
		copy(dst, r)
		dst, src = dst[n:], src[n:]
	}
	return overflow
}

func widen(t Type, wide []float32, from []uint16) {
	wide = wide[:len(from)]
	if t == BFloat16 {
		for i, b := range from {
			wide[i] = float16.ToB(b)
		}
		return
	}
	for i, h := range from {
		wide[i] = float16.To(h)
	}
}

func narrow(t Type, to []uint16, wide []float32) {
	to = to[:len(wide)]
	if t == BFloat16 {
		for i, f := range wide {
			to[i] = float16.FromB(f)
		}
		return
	}
	for i, f := range wide {
		to[i] = float16.From(f)
	}
}

// boundHalves is bound for floats of 16 bits.
func (o Op) boundHalves(sums, a, b []uint16) (overflow bool) {
	const sign = 1 << 15
	most := uint16(float16.Most16)
	if o.Type == BFloat16 {
		most = float16.MostB
	}
	a, b = a[:len(sums)], b[:len(sums)]
	for i, h := range sums {
		if h&^sign <= most {
			continue
		}
		overflow = overflow || a[i]&^sign <= most && b[i]&^sign <= most
		if !o.Saturate {
			continue
		}
		sums[i] = most
		if h&^sign == most+1 { // infinite; else it is NaN
			sums[i] |= h & sign
		}
	}
	return overflow
}
