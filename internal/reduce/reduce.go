// Package reduce combines arrays of numbers element by element, as a device does: dst = dst (kind) src.
//
// Sums of integers wrap. Sums of 16-bit floats are made in 32 bits and rounded to nearest, ties to even; all floats
// follow IEEE 754, or stay finite where that is asked for. The maximum and minimum of a number and NaN is NaN, and +0
// is larger than -0.
package reduce

import (
	"fmt"
	"math"

	"ropeway/internal/float16"
)

// Kind is how two elements become one.
type Kind uint8

// Kinds. Equal makes 1 of elements that are equal, and 0 of others.
const (
	Sum Kind = iota
	Max
	Min
	Equal
)

// Type is what the elements are.
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

// Types are all of them, Kinds all kinds.
var (
	Types = []Type{Int8, Int16, Int32, Uint32, Float16, BFloat16, Float32}
	Kinds = []Kind{Sum, Max, Min, Equal}
)

var sizes = [...]int{Int8: 1, Int16: 2, Int32: 4, Uint32: 4, Float16: 2, BFloat16: 2, Float32: 4}

// Size is how many bytes an element has.
func (t Type) Size() int { return sizes[t] }

// Op is what is to be done with every pair of elements.
type Op struct {
	Kind Kind
	Type Type
	// sums of floats that are infinite become the largest finite number of their sign, NaN the largest of all
	Saturate bool
}

// Do combines the elements of src with those of dst. Both are as long as each other and aligned to the type, and either
// the same bytes or different ones. Bytes after the last whole element stay as they are.
func (o Op) Do(dst, src []byte) {
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
		o.halves(as[uint16](dst), as[uint16](src))
	case Float32:
		o.floats(as[float32](dst), as[float32](src))
	}
}

// numbers combines numbers; sums of integers wrap. Each kind has a loop of its own, that does nothing else.
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

// floats combines floats, and brings what a sum makes infinite, or of no value, back to the largest number.
func (o Op) floats(dst, src []float32) {
	numbers(o.Kind, dst, src)
	if o.Kind != Sum || !o.Saturate {
		return
	}
	for i, d := range dst[:len(src)] {
		dst[i] = min(max(d, -math.MaxFloat32), math.MaxFloat32)
		if d != d {
			dst[i] = math.MaxFloat32
		}
	}
}

// halves combines floats of 16 bits as if they had 32, in portions that stay in the cache.
func (o Op) halves(dst, src []uint16) {
	var wide [2][512]float32
	for len(dst) > 0 {
		n := min(len(dst), len(wide[0]))
		d, s := wide[0][:n], wide[1][:n]
		widen(o.Type, d, dst[:n])
		widen(o.Type, s, src[:n])
		o.floats(d, s)
		narrow(o.Type, dst[:n], d)
		if o.Saturate && o.Kind == Sum {
			bound(o.Type, dst[:n])
		}
		dst, src = dst[n:], src[n:]
	}
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

// bound makes what has become infinite by rounding finite.
func bound(t Type, list []uint16) {
	const sign = 1 << 15
	most := uint16(float16.Most16)
	if t == BFloat16 {
		most = float16.MostB
	}
	for i, h := range list {
		if h&^sign > most {
			list[i] = h&sign | most
		}
	}
}
