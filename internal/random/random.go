package random

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"ropeway/internal/float16"
)

// Kind is a distribution of numbers.
type Kind uint8

// Kinds.
const (
	Dropout   Kind = iota // bits: 0 with probability A, else 1; the first is the lowest of its byte
	Uniform               // [A, B)
	Normal                // A is the mean, B the standard deviation
	Truncated             // Normal, limited to two standard deviations from the mean
)

// Type is the type of the numbers.
type Type uint8

// Types.
const (
	Int32 Type = iota
	Int64
	Uint32
	Uint64
	Float16
	BFloat16
	Float32
)

var sizes = [...]int{Int32: 4, Int64: 8, Uint32: 4, Uint64: 8, Float16: 2, BFloat16: 2, Float32: 4}

// Size returns the size of a number in bytes.
func (t Type) Size() int { return sizes[t] }

// float reports whether the type is one of floats.
func (t Type) float() bool { return t >= Float16 }

// signed reports whether the type is a signed integer type.
func (t Type) signed() bool { return t == Int32 || t == Int64 }

// Fits reports whether the distribution supports the type: only Uniform supports integers. For a mask of bits, the
// type is that of A.
func (k Kind) Fits(t Type) bool { return k == Uniform || t.float() }

// Numbers specifies random numbers. A and B are the bits of numbers of the type; Dropout has no B.
type Numbers struct {
	Kind Kind
	Type Type
	A, B uint64
}

// Errors of parameters.
var (
	errRatio   = errors.New("the dropout ratio is not between 0 and 1")
	errEmpty   = errors.New("the minimum is not below the maximum")
	errSpread  = errors.New("the standard deviation is negative or no finite number")
	errUnbound = errors.New("a parameter is no finite number")
)

// Check returns an error if A or B is invalid.
func (n Numbers) Check() error {
	if !n.Type.float() {
		if n.span() == 0 {
			return errEmpty
		}
		return nil
	}
	a, b := n.Type.value(n.A), n.Type.value(n.B)
	switch {
	case n.Kind == Dropout && !(a >= 0 && a <= 1):
		return errRatio
	case n.Kind == Dropout:
		return nil
	case a-a != 0:
		return errUnbound
	case n.Kind == Uniform && b-b != 0:
		return errUnbound
	case n.Kind == Uniform && a >= b:
		return errEmpty
	case n.Kind != Uniform && !(b >= 0 && b-b == 0):
		return errSpread
	}
	return nil
}

// span returns the number of integers in [A, B); 0 if it is empty.
func (n Numbers) span() uint64 {
	a, b := n.A, n.B
	switch n.Type {
	case Int32:
		a, b = uint64(int64(int32(a))), uint64(int64(int32(b)))
	case Uint32:
		a, b = uint64(uint32(a)), uint64(uint32(b))
	}
	if n.Type.signed() && int64(a) >= int64(b) || !n.Type.signed() && a >= b {
		return 0
	}
	return b - a
}

// value converts the bits of a number.
func (t Type) value(bits uint64) float64 {
	switch t {
	case Float16:
		return float64(float16.To(uint16(bits)))
	case BFloat16:
		return float64(float16.ToB(uint16(bits)))
	}
	return float64(math.Float32frombits(uint32(bits)))
}

// round returns the bits of the number of the type nearest to v.
func (t Type) round(v float64) uint32 {
	switch t {
	case Float16:
		return uint32(float16.From(float32(v)))
	case BFloat16:
		return uint32(float16.FromB(float32(v)))
	}
	return math.Float32bits(float32(v))
}

// below returns the bits of the largest number of the type that is less than the number with bits b.
func (t Type) below(b uint64) uint32 {
	sign := uint32(1) << (8*t.Size() - 1)
	switch w := uint32(b); {
	case w&^sign == 0:
		return sign | 1
	case w&sign != 0:
		return w + 1
	default:
		return w - 1
	}
}

// perBlock returns the count of numbers generated from one block of random bits. Integers use twice their own number
// of bits, so that none is noticeably more likely than others.
func (n Numbers) perBlock() uint64 {
	if n.Type.float() {
		return 4
	}
	return uint64(8 / n.Type.Size())
}

// Step is a multiple of every perBlock: fills are divided at multiples of it.
const Step = 1 << 13

// Blocks returns the increment of the counter for count numbers.
func (n Numbers) Blocks(count uint64) uint64 {
	per := n.perBlock()
	return count/per + min(count%per, 1)
}

// Bytes returns the size of count numbers in bytes; false if it does not fit in 64 bits.
func (n Numbers) Bytes(count uint64) (uint64, bool) {
	if n.Kind == Dropout {
		return count/8 + min(count%8, 1), true
	}
	hi, lo := bits.Mul64(count, uint64(n.Type.Size()))
	return lo, hi == 0
}

// Fill writes count numbers to dst, starting with those of the counter at. Bits after the last one of a mask are 0.
func (n Numbers) Fill(dst []byte, seed uint64, at Counter, count uint64) {
	switch {
	case n.Kind == Dropout:
		n.mask(dst, seed, at, count)
	case !n.Type.float():
		n.whole(dst, seed, at, count)
	default:
		n.floats(dst, seed, at, count)
	}
}

func (n Numbers) mask(dst []byte, seed uint64, at Counter, count uint64) {
	drop := uint64(math.Round(n.Type.value(n.A) * (1 << 32)))
	for i := range dst {
		var b byte
		for j := range uint64(2) {
			w := block(seed, at)
			at = at.Add(1)
			for k, word := range w {
				if uint64(word) >= drop {
					b |= 1 << (4*int(j) + k)
				}
			}
		}
		if left := count - 8*uint64(i); left < 8 {
			b &= 1<<left - 1
		}
		dst[i] = b
	}
}

// whole generates integers: the random bits, as a fraction, times the span.
func (n Numbers) whole(dst []byte, seed uint64, at Counter, count uint64) {
	span := n.span()
	for i := uint64(0); i < count; at = at.Add(1) {
		w := block(seed, at)
		lo, hi := uint64(w[1])<<32|uint64(w[0]), uint64(w[3])<<32|uint64(w[2])
		if n.Type.Size() == 8 {
			h, l := bits.Mul64(span, hi)
			carry, _ := bits.Mul64(span, lo)
			_, c := bits.Add64(l, carry, 0)
			binary.LittleEndian.PutUint64(dst[8*i:], n.A+h+c)
			i++
			continue
		}
		for _, word := range [2]uint64{lo, hi} {
			if i < count {
				h, _ := bits.Mul64(span, word)
				binary.LittleEndian.PutUint32(dst[4*i:], uint32(n.A)+uint32(h))
				i++
			}
		}
	}
}

func (n Numbers) floats(dst []byte, seed uint64, at Counter, count uint64) {
	a, b := n.Type.value(n.A), n.Type.value(n.B)
	top := n.Type.below(n.B)
	var z [4]float64
	for i := uint64(0); i < count; at = at.Add(1) {
		w := block(seed, at)
		switch n.Kind {
		case Uniform:
			n.Type.fractions(&z, w)
			for j := range z {
				z[j] = a + z[j]*(b-a)
			}
		case Normal:
			bell(&z, w)
		case Truncated:
			middle(&z, w)
		}
		for _, v := range z[:min(4, count-i)] {
			if n.Kind != Uniform {
				v = a + v*b
			}
			r := n.Type.round(v)
			if n.Kind == Uniform && n.Type.value(uint64(r)) >= b {
				r = top // it was rounded up to B
			}
			if n.Type == Float32 {
				binary.LittleEndian.PutUint32(dst[4*i:], r)
			} else {
				binary.LittleEndian.PutUint16(dst[2*i:], uint16(r))
			}
			i++
		}
	}
}

// precisions are the significant bits of floats.
var precisions = [...]uint{Float16: 11, BFloat16: 8, Float32: 24}

// fractions generates numbers in [0, 1), with the precision of the type.
func (t Type) fractions(z *[4]float64, w [4]uint32) {
	precision := precisions[t]
	for i, word := range w {
		z[i] = math.Ldexp(float64(word>>(32-precision)), -int(precision))
	}
}

// bell generates standard normal numbers by the Box-Muller transform: two from two words.
func bell(z *[4]float64, w [4]uint32) {
	for i := 0; i < 4; i += 2 {
		r := math.Sqrt(-2 * math.Log((float64(w[i])+1)/(1<<32)))
		sin, cos := math.Sincos(2 * math.Pi * float64(w[i+1]) / (1 << 32))
		z[i], z[i+1] = r*cos, r*sin
	}
}

// inner is the probability that a standard normal number is in (-2, 2).
var inner = math.Erf(math.Sqrt2)

// middle generates standard normal numbers in (-2, 2) by the inverse of their distribution: every word gives a
// number, so none is rejected.
func middle(z *[4]float64, w [4]uint32) {
	for i, word := range w {
		u := (float64(word) + 0.5) / (1 << 32)
		z[i] = math.Sqrt2 * math.Erfinv((2*u-1)*inner)
	}
}
