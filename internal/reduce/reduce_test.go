package reduce

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"ropeway/internal/float16"
)

// model is Do for one element, from the definition: whole numbers exactly, floats by way of float64, which holds the
// sum of two 16-bit floats exactly or rounds it in the same direction that a second rounding goes.
func model(o Op, dst, src []byte) {
	switch o.Type {
	case Float32, Float16, BFloat16:
		d, s := load(o.Type, dst), load(o.Type, src)
		store(o, dst, floatModel(o, d, s))
	default:
		wholeModel(o, dst, src)
	}
}

func floatModel(o Op, d, s float64) float64 {
	switch {
	case o.Kind == Sum:
		return d + s
	case o.Kind == Equal:
		if d == s {
			return 1
		}
		return 0
	case math.IsNaN(d) || math.IsNaN(s):
		return math.NaN()
	case o.Kind == Max:
		return math.Max(d, s)
	}
	return math.Min(d, s)
}

func load(t Type, b []byte) float64 {
	switch t {
	case Float16:
		return float64(float16.To(binary.LittleEndian.Uint16(b)))
	case BFloat16:
		return float64(float16.ToB(binary.LittleEndian.Uint16(b)))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
}

func store(o Op, b []byte, v float64) {
	if o.Saturate && o.Kind == Sum && math.IsNaN(v) {
		v = math.Inf(1)
	}
	f := float32(v)
	most := map[Type]float64{Float32: math.MaxFloat32, Float16: 65504,
		BFloat16: float64(float16.ToB(float16.MostB))}[o.Type]
	overflows := math.IsInf(float64(f), 0)
	switch o.Type {
	case Float16:
		h := float16.From(f)
		if overflows = overflows || float16.To(h)-float16.To(h) != 0; !overflows || !o.Saturate || o.Kind != Sum {
			binary.LittleEndian.PutUint16(b, h)
			return
		}
		binary.LittleEndian.PutUint16(b, float16.From(float32(math.Copysign(most, v))))
	case BFloat16:
		h := float16.FromB(f)
		if overflows = overflows || float16.ToB(h)-float16.ToB(h) != 0; !overflows || !o.Saturate || o.Kind != Sum {
			binary.LittleEndian.PutUint16(b, h)
			return
		}
		binary.LittleEndian.PutUint16(b, float16.FromB(float32(math.Copysign(most, v))))
	default:
		if overflows && o.Saturate && o.Kind == Sum {
			f = float32(math.Copysign(most, v))
		}
		binary.LittleEndian.PutUint32(b, math.Float32bits(f))
	}
}

// whole reads a whole number of up to 4 bytes.
func whole(t Type, b []byte) *big.Int {
	var v uint64
	for i := t.Size() - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	n := new(big.Int).SetUint64(v)
	if bits := uint(8 * t.Size()); t != Uint32 && v>>(bits-1) != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), bits))
	}
	return n
}

func wholeModel(o Op, dst, src []byte) {
	d, s := whole(o.Type, dst), whole(o.Type, src)
	r := new(big.Int)
	switch o.Kind {
	case Sum:
		r.Add(d, s)
	case Max:
		r = s
		if d.Cmp(s) > 0 {
			r = d
		}
	case Min:
		r = s
		if d.Cmp(s) < 0 {
			r = d
		}
	case Equal:
		if d.Cmp(s) == 0 {
			r.SetInt64(1)
		}
	}
	r.Mod(r, new(big.Int).Lsh(big.NewInt(1), uint(8*o.Type.Size()))) // it wraps
	v := r.Uint64()
	for i := range o.Type.Size() {
		dst[i] = byte(v >> (8 * i))
	}
}

// same compares an element, or the bytes after the last; NaNs are all alike.
func same(t Type, got, want []byte) bool {
	if bytes.Equal(got, want) {
		return true
	}
	return t >= Float16 && len(got) == t.Size() && math.IsNaN(load(t, got)) && math.IsNaN(load(t, want))
}

// aligned is n bytes of memory that any type may lie in.
func aligned(n int) []byte { return make([]byte, n, n+8) }

func compare(t *testing.T, o Op, dst, src []byte) {
	t.Helper()
	got, from, want := aligned(len(dst)), aligned(len(src)), bytes.Clone(dst)
	copy(got, dst)
	copy(from, src)
	n := o.Type.Size()
	for i := 0; i+n <= len(want); i += n {
		model(o, want[i:i+n], src[i:i+n])
	}
	o.Do(got, from)
	for i := 0; i < len(got); i += n {
		end := min(i+n, len(got))
		if !same(o.Type, got[i:end], want[i:end]) {
			t.Fatalf("%+v of %x and %x is %x, want %x", o, dst[i:end], src[i:end], got[i:end], want[i:end])
		}
	}
	if !bytes.Equal(from, src) {
		t.Fatalf("%+v changed src", o)
	}
}

// interesting are bytes of numbers at the edges of their types.
func interesting(t Type) [][]byte {
	var list [][]byte
	add := func(v uint64) {
		b := make([]byte, 8)
		binary.LittleEndian.PutUint64(b, v)
		list = append(list, b[:t.Size()])
	}
	switch t {
	case Float16:
		for _, v := range []uint64{0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
			0x7e00, 0xfe00, 0x5000} {
			add(v)
		}
	case BFloat16:
		for _, v := range []uint64{0, 0x8000, 1, 0x8001, 0x7f, 0x80, 0x3f80, 0xbf80, 0x7f7f, 0xff7f, 0x7f80, 0xff80,
			0x7fc0, 0xffc0} {
			add(v)
		}
	case Float32:
		for _, v := range []uint64{0, 1 << 31, 1, 0x7fffff, 0x800000, 0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff,
			0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x33000000} {
			add(v)
		}
	default:
		top := uint64(1) << (8*t.Size() - 1)
		for _, v := range []uint64{0, 1, 2, 3, top - 1, top, top + 1, 2*top - 1, 2*top - 2} {
			add(v)
		}
	}
	return list
}

// each calls f with every combination of kind, type and mode.
func each(t *testing.T, f func(t *testing.T, o Op)) {
	for _, typ := range Types {
		for _, kind := range Kinds {
			for _, saturate := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d/%d/%t", typ, kind, saturate),
					func(t *testing.T) { f(t, Op{kind, typ, saturate}) })
			}
		}
	}
}

// TestEdges compares every pair of edge values with the model.
func TestEdges(t *testing.T) {
	each(t, func(t *testing.T, o Op) {
		var dst, src []byte
		for _, a := range interesting(o.Type) {
			for _, b := range interesting(o.Type) {
				dst, src = append(dst, a...), append(src, b...)
			}
		}
		compare(t, o, dst, src)
	})
}

// TestAgainstModel compares random bytes of odd lengths with the model.
func TestAgainstModel(t *testing.T) {
	each(t, func(t *testing.T, o Op) {
		r := rand.New(rand.NewPCG(1, uint64(o.Type)))
		for _, n := range []int{0, 1, 2, 3, 4, 7, 64, 1021, 4099} {
			dst, src := make([]byte, n), make([]byte, n)
			for i := range dst {
				dst[i], src[i] = byte(r.Uint32()), byte(r.Uint32())
			}
			copy(src[n/2:], dst[n/2:]) // so that some are equal
			compare(t, o, dst, src)
		}
	})
}

// TestItself combines memory with itself.
func TestItself(t *testing.T) {
	b := aligned(4096)
	for i := range b {
		b[i] = byte(i)
	}
	want := bytes.Clone(b)
	for i := range want {
		want[i] *= 2
	}
	Op{Kind: Sum, Type: Int8}.Do(b, b)
	if !bytes.Equal(b, want) {
		t.Error("a + a is not 2a")
	}
}

// FuzzDo compares whatever comes with the model.
func FuzzDo(f *testing.F) {
	f.Add(uint8(0), uint8(4), false, []byte{0, 0x3c, 1, 2}, []byte{0, 0x3c, 3, 4})
	f.Add(uint8(1), uint8(6), true, []byte{0, 0, 0x80, 0x7f}, []byte{0, 0, 0xc0, 0x7f})
	f.Fuzz(func(t *testing.T, kind, typ uint8, saturate bool, dst, src []byte) {
		n := min(len(dst), len(src))
		o := Op{Kinds[int(kind)%len(Kinds)], Types[int(typ)%len(Types)], saturate}
		compare(t, o, dst[:n], src[:n])
	})
}

func BenchmarkDo(b *testing.B) {
	for _, typ := range Types {
		b.Run(fmt.Sprint(typ), func(b *testing.B) {
			dst, src := aligned(1<<20), aligned(1<<20)
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				Op{Kind: Sum, Type: typ}.Do(dst, src)
			}
		})
	}
}

// TestOverflow: a sum of finite floats that is not finite, or would not be, is reported, and nothing else is.
func TestOverflow(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	most := map[Type]float64{Float16: 65504, BFloat16: float64(float16.ToB(float16.MostB)), Float32: math.MaxFloat32}
	for typ, m := range most {
		for _, tt := range []struct {
			d, s float64
			kind Kind
			want bool
		}{
			{m, m, Sum, true}, {-m, -m, Sum, true}, {m, m / 256, Sum, true}, {m, -m, Sum, false}, {m, 0, Sum, false},
			{inf, m, Sum, false}, {m, inf, Sum, false}, {inf, -inf, Sum, false}, {nan, m, Sum, false},
			{m, m, Max, false}, {m, m, Min, false}, {m, m, Equal, false},
		} {
			for _, saturate := range []bool{false, true} {
				for _, place := range []int{0, 1, 600} { // the last is not in the first portion
					d, s := aligned(601*typ.Size()), aligned(601*typ.Size())
					store(Op{Type: typ}, d[place*typ.Size():], tt.d)
					store(Op{Type: typ}, s[place*typ.Size():], tt.s)
					o := Op{Kind: tt.kind, Type: typ, Saturate: saturate}
					if got := o.Do(d, s); got != tt.want {
						t.Errorf("%+v of %g and %g at %d reports %v", o, tt.d, tt.s, place, got)
					}
				}
			}
		}
	}
}
