package transfer

import (
	"math"
	"testing"

	"ropeway/internal/core"
)

// TestHalfToFloat goes through all halves: the value is that of the bits, and it comes back.
func TestHalfToFloat(t *testing.T) {
	th := &core.Thread{}
	for i := range 1 << 16 {
		h := uint16(i)
		sign, exp, frac := 1.0, h>>10&31, float64(h&1023)
		if h>>15 != 0 {
			sign = -1
		}
		want := sign * (1 + frac/1024) * math.Pow(2, float64(exp)-15)
		if exp == 0 {
			want = sign * frac * math.Pow(2, -24)
		}
		got := Float16ToFloat(th, h)
		if float64(got) != want || math.Signbit(float64(got)) != (sign < 0) {
			t.Fatalf("%#04x is %g, want %g", h, got, want)
		}
		back := h
		if exp == 31 { // above what is kept
			back = h&0x8000 | 0x7bff
		}
		if b := FloatToFloat16(th, got); b != back {
			t.Fatalf("%g becomes %#04x, want %#04x", got, b, back)
		}
	}
}

// TestFloatToHalf looks at both sides of every border between two halves, and so at all floats: between borders the
// result cannot change.
func TestFloatToHalf(t *testing.T) {
	th := &core.Thread{}
	check := func(f float32, want uint16) {
		t.Helper()
		if got := FloatToFloat16(th, f); got != want {
			t.Fatalf("%g becomes %#04x, want %#04x", f, got, want)
		}
		if got := FloatToFloat16(th, -f); got != want^0x8000 {
			t.Fatalf("%g becomes %#04x, want %#04x", -f, got, want^0x8000)
		}
	}
	for h := range uint16(0x7bff) {
		border := (Float16ToFloat(th, h) + Float16ToFloat(th, h+1)) / 2
		check(math.Nextafter32(border, 0), h)
		check(border, h+h&1)
		check(math.Nextafter32(border, math.MaxFloat32), h+1)
	}
	inf := float32(math.Inf(1))
	for _, f := range []float32{65504, 65519.996, 65520, 65536, 1e30, math.MaxFloat32, inf} {
		check(f, 0x7bff)
	}
	check(0, 0)
	check(math.SmallestNonzeroFloat32, 0)
	for _, bits := range []uint32{0x7fc00000, 0x7f800001, 0x7fffffff} { // NaNs
		check(math.Float32frombits(bits), 0x7bff)
	}
}
