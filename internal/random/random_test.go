package random

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ropeway/internal/float16"
	"ropeway/internal/testenv"
)

// TestPhilox compares with the answers that the authors of the algorithm publish (Random123, kat_vectors).
func TestPhilox(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		at   Counter
		want [4]uint32
	}{
		{0, Counter{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{math.MaxUint64, Counter{math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32}, [4]uint32{0x408f276d,
			0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0_a4093822, Counter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [4]uint32{0xd16cfe09, 0x94fdcceb,
			0x5001e420, 0x24126ea1}},
	} {
		if got := block(c.seed, c.at); got != c.want {
			t.Errorf("seed %#x, counter %#x: %#x, want %#x", c.seed, c.at, got, c.want)
		}
	}
}

// TestCounter proves that counters carry, end at 128 bits, and are in memory what they were.
func TestCounter(t *testing.T) {
	const most = math.MaxUint32
	for _, c := range []struct {
		from Counter
		n    uint64
		want Counter
	}{
		{Counter{}, 0, Counter{}}, {Counter{}, 5, Counter{5}}, {Counter{most}, 1, Counter{0, 1}},
		{Counter{most, most}, 1, Counter{0, 0, 1}}, {Counter{most, most, most, most}, 2, Counter{1}},
		{Counter{1, 2, 3, 4}, math.MaxUint64, Counter{0, 2, 4, 4}},
	} {
		got := c.from.Add(c.n)
		if got != c.want {
			t.Errorf("%v and %d are %v, want %v", c.from, c.n, got, c.want)
		}
		var b [CounterBytes]byte
		got.Write(b[:])
		if ReadCounter(b[:]) != got {
			t.Errorf("%v comes back as %v", got, ReadCounter(b[:]))
		}
	}
	b := []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}
	if got := ReadCounter(b); got != (Counter{1, 0, 2, 0}) {
		t.Errorf("the low word is not first: %v", got)
	}
}

var types = []Type{Int32, Int64, Uint32, Uint64, Float16, BFloat16, Float32}

// bitsOf is the bits of v in a type.
func bitsOf(t Type, v float64) uint64 {
	if t.float() {
		return uint64(t.round(v))
	}
	return uint64(int64(v)) & (1<<(8*t.Size()-1)<<1 - 1)
}

// numbers makes count numbers and reads them back.
func numbers(n Numbers, seed uint64, count uint64) []float64 {
	size, _ := n.Bytes(count)
	b := make([]byte, size)
	n.Fill(b, seed, Counter{}, count)
	list := make([]float64, count)
	for i := range list {
		list[i] = element(n, b, i)
	}
	return list
}

func element(n Numbers, b []byte, i int) float64 {
	if n.Kind == Dropout {
		return float64(b[i/8] >> (i % 8) & 1)
	}
	switch n.Type {
	case Int32:
		return float64(int32(binary.LittleEndian.Uint32(b[4*i:])))
	case Uint32:
		return float64(binary.LittleEndian.Uint32(b[4*i:]))
	case Int64:
		return float64(int64(binary.LittleEndian.Uint64(b[8*i:])))
	case Uint64:
		return float64(binary.LittleEndian.Uint64(b[8*i:]))
	case Float16:
		return float64(float16.To(binary.LittleEndian.Uint16(b[2*i:])))
	case BFloat16:
		return float64(float16.ToB(binary.LittleEndian.Uint16(b[2*i:])))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
}

// every are all sensible combinations.
func every() (list []Numbers) {
	for _, kind := range []Kind{Dropout, Uniform, Normal, Truncated} {
		for _, typ := range types {
			if kind.Fits(typ) {
				a, b := 0.25, 4.0
				if kind == Uniform {
					a = 1
				}
				list = append(list, Numbers{kind, typ, bitsOf(typ, a), bitsOf(typ, b)})
			}
		}
	}
	return list
}

func (n Numbers) String() string { return fmt.Sprintf("kind %d type %d", n.Kind, n.Type) }

// TestAgain proves that numbers depend on seed and counter alone: pieces that follow each other are the whole, and
// another seed gives others.
func TestAgain(t *testing.T) {
	const count = 3*Step + 37
	for _, n := range every() {
		size, ok := n.Bytes(count)
		if !ok {
			t.Fatal("too many")
		}
		whole, pieces, other := make([]byte, size), make([]byte, 0, size), make([]byte, size)
		at := Counter{math.MaxUint32 - 5, math.MaxUint32}
		n.Fill(whole, 7, at, count)
		for left := uint64(count); left > 0; {
			m := min(left, Step)
			k, _ := n.Bytes(m)
			piece := make([]byte, k)
			n.Fill(piece, 7, at, m)
			at = at.Add(n.Blocks(m))
			pieces = append(pieces, piece...)
			left -= m
		}
		if !bytes.Equal(whole, pieces) {
			t.Errorf("%v: the pieces are not the whole", n)
		}
		n.Fill(other, 8, Counter{math.MaxUint32 - 5, math.MaxUint32}, count)
		if bytes.Equal(whole, other) {
			t.Errorf("%v: another seed gives the same", n)
		}
	}
}

// distance is the largest distance between the distribution of a sample and another one (Kolmogorov, Smirnov).
func distance(sample []float64, cdf func(float64) float64) (d float64) {
	slices.Sort(sample)
	n := float64(len(sample))
	for i := 0; i < len(sample); {
		j := i
		for j < len(sample) && sample[j] == sample[i] {
			j++ // numbers of few bits are often equal
		}
		d = max(d, math.Abs(float64(j)/n-cdf(sample[i])))
		i = j
	}
	return d
}

// TestDistributions compares 200,000 numbers of each kind and type with their distribution. The bound is five times
// what is usual for so many, plus what rounding to the type makes; the seed is fixed, so this fails always or never.
func TestDistributions(t *testing.T) {
	const count = 200_000
	phi := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	for _, n := range every() {
		if n.Kind == Dropout {
			continue
		}
		a, b := 3.0, 2.0
		if n.Kind == Uniform {
			a, b = -100, 900
			if n.Type == Uint32 || n.Type == Uint64 {
				a, b = 100, 1100
			}
		}
		n.A, n.B = bitsOf(n.Type, a), bitsOf(n.Type, b)
		testenv.OK(t, n.Check())
		cdf := func(x float64) float64 { return phi((x - a) / b) }
		rounding := map[Type]float64{Float16: 1e-3, BFloat16: 1e-2}[n.Type]
		switch {
		case n.Kind == Uniform && n.Type.float():
			cdf = func(x float64) float64 { return (x - a) / (b - a) }
		case n.Kind == Uniform:
			cdf = func(x float64) float64 { return (x + 1 - a) / (b - a) }
		case n.Kind == Truncated:
			cdf = func(x float64) float64 { return (phi((x-a)/b) - phi(-2)) / inner }
		}
		list := numbers(n, 1234, count)
		if lo, hi := slices.Min(list), slices.Max(list); n.Kind == Uniform && (lo < a || hi >= b) ||
			n.Kind == Truncated && (lo < a-2*b || hi > a+2*b) {
			t.Errorf("%v: from %v to %v", n, lo, hi)
		}
		if d := distance(list, cdf); d > 5/math.Sqrt(count)+rounding {
			t.Errorf("%v: %v away from its distribution", n, d)
		}
	}
}

// TestUniformWhole counts how often each of 10 whole numbers comes (chi-square with 9 degrees of freedom: 60 is beyond
// any doubt), around 0 and at the ends of the types.
func TestUniformWhole(t *testing.T) {
	const count, cells = 100_000, 10
	for _, typ := range types[:4] {
		top := uint64(1)<<(8*typ.Size()-1)<<1 - 1
		if typ.signed() {
			top >>= 1
		}
		starts := []uint64{0, top - cells}
		if typ.signed() {
			starts = append(starts, ^uint64(0)-cells/2, top+1) // around 0, and the smallest
		}
		for _, start := range starts {
			n := Numbers{Uniform, typ, start, start + cells}
			if err := n.Check(); err != nil {
				t.Fatalf("%v from %#x: %v", n, start, err)
			}
			b := make([]byte, count*typ.Size())
			n.Fill(b, 99, Counter{}, count)
			var seen [cells]float64
			for i := range count {
				var v uint64
				if typ.Size() == 8 {
					v = binary.LittleEndian.Uint64(b[8*i:]) - start
				} else {
					v = uint64(binary.LittleEndian.Uint32(b[4*i:]) - uint32(start))
				}
				if v >= cells {
					t.Fatalf("%v from %#x: %d is outside", n, start, v)
				}
				seen[v]++
			}
			var chi float64
			for _, k := range seen {
				chi += (k - count/cells) * (k - count/cells) / (count / cells)
			}
			if chi > 60 {
				t.Errorf("%v from %#x: chi-square %v: %v", n, start, chi, seen)
			}
		}
	}
	// The whole range of a type but one number.
	n := Numbers{Uniform, Uint64, 0, math.MaxUint64}
	if n.Check() != nil || n.span() != math.MaxUint64 {
		t.Error("all numbers are too many")
	}
	wide := Numbers{Uniform, Int32, bitsOf(Int32, math.MinInt32), bitsOf(Int32, math.MaxInt32)}
	if list := numbers(wide, 1, 1000); slices.Min(list) > -1e9 || slices.Max(list) < 1e9 {
		t.Error("not the whole range")
	}
}

// TestDropout proves the ratio of a mask, its ends, and that bits after the last stay 0.
func TestDropout(t *testing.T) {
	const count = 100_003
	for _, typ := range types[4:] {
		for _, ratio := range []float64{0, 0.125, 0.5, 1} {
			n := Numbers{Kind: Dropout, Type: typ, A: bitsOf(typ, ratio)}
			size, _ := n.Bytes(count)
			b := make([]byte, size)
			n.Fill(b, 5, Counter{}, count)
			kept := 0
			for i := range count {
				kept += int(element(n, b, i))
			}
			want := (1 - ratio) * count
			if math.Abs(float64(kept)-want) > 6*math.Sqrt(count*ratio*(1-ratio)) {
				t.Errorf("%v: of %d bits %d are kept at ratio %v", n, count, kept, ratio)
			}
			if b[size-1]>>(count%8) != 0 {
				t.Errorf("%v: %#x after the last bit", n, b[size-1])
			}
		}
	}
}

// TestUnrelated proves that neighbours in a sequence of normal numbers, which are made of one block, have nothing to do
// with each other.
func TestUnrelated(t *testing.T) {
	const count = 100_000
	list := numbers(Numbers{Normal, Float32, bitsOf(Float32, 0), bitsOf(Float32, 1)}, 3, count)
	for lag := 1; lag <= 5; lag++ {
		var sum float64
		for i := range count - lag {
			sum += list[i] * list[i+lag]
		}
		if c := sum / (count - float64(lag)); math.Abs(c) > 6/math.Sqrt(count) {
			t.Errorf("correlation %v over %d", c, lag)
		}
	}
}

// TestCheck proves which parameters are refused.
func TestCheck(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		kind Kind
		typ  Type
		a, b float64
		want error
	}{
		{Dropout, Float32, 0, nan, nil}, {Dropout, Float16, 1, 0, nil}, {Dropout, Float16, 1.001, 0, errRatio},
		{Dropout, BFloat16, -0.5, 0, errRatio}, {Dropout, Float32, nan, 0, errRatio},
		{Uniform, Float32, 1, 2, nil}, {Uniform, Float16, 2, 2, errEmpty}, {Uniform, BFloat16, 3, 2, errEmpty},
		{Uniform, Float32, nan, 2, errUnbound}, {Uniform, Float32, 1, inf, errUnbound}, {Uniform, Float32,
			-inf, 1, errUnbound},
		{Uniform, Int32, -5, -4, nil}, {Uniform, Int32, -4, -5, errEmpty}, {Uniform, Int64, 7, 7, errEmpty},
		{Uniform, Int64, -7, 7, nil}, {Uniform, Uint32, 8, 7, errEmpty}, {Uniform, Uint64, 6, 7, nil},
		{Normal, Float32, 1, 0, nil}, {Normal, Float16, 1, -1, errSpread}, {Normal, Float32, 1, nan, errSpread},
		{Truncated, Float32, 1, inf, errSpread}, {Truncated, Float32, inf, 1, errUnbound},
	} {
		n := Numbers{c.kind, c.typ, bitsOf(c.typ, c.a), bitsOf(c.typ, c.b)}
		if got := n.Check(); got != c.want {
			t.Errorf("%v with %v and %v: %v, want %v", n, c.a, c.b, got, c.want)
		}
	}
	if Normal.Fits(Int32) || Dropout.Fits(Uint64) || !Uniform.Fits(Int64) {
		t.Error("kinds and types")
	}
	if _, ok := (Numbers{Kind: Uniform, Type: Int64}).Bytes(1 << 61); ok {
		t.Error("2^64 bytes fit in 64 bits")
	}
}

// TestNarrow proves that a range of one float gives that float, whatever is rounded.
func TestNarrow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, typ := range types[4:] {
		for range 2000 {
			top := uint64(r.Uint32())
			if typ.Size() == 2 {
				top &= 0xffff
			}
			if v := typ.value(top); v-v != 0 {
				continue
			}
			low := uint64(typ.below(top))
			if v := typ.value(low); v-v != 0 || v >= typ.value(top) {
				continue
			}
			n := Numbers{Uniform, typ, low, top}
			for _, v := range numbers(n, 11, 16) {
				if v != typ.value(low) {
					t.Fatalf("type %d: %v is not in [%v, %v)", typ, v, typ.value(low), typ.value(top))
				}
			}
		}
	}
}

func BenchmarkFill(b *testing.B) {
	for _, n := range every() {
		b.Run(n.String(), func(b *testing.B) {
			size, _ := n.Bytes(Step)
			dst := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				n.Fill(dst, 1, Counter{}, Step)
			}
		})
	}
}
