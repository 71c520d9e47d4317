package float16

import (
	"math"
	"testing"
)

// value is what a number of 16 bits is, by the definition of the format.
func value(h uint16, fraction int) float64 {
	bias := 1<<(14-fraction) - 1
	exp := int(h&^sign16) >> fraction
	frac := float64(int(h) & (1<<fraction - 1))
	one := float64(int(1) << fraction)
	sign := 1.0
	if h&sign16 != 0 {
		sign = -1
	}
	switch {
	case exp == 1<<(15-fraction)-1 && frac == 0:
		return math.Inf(int(sign))
	case exp == 1<<(15-fraction)-1:
		return math.NaN()
	case exp == 0:
		return sign * math.Ldexp(frac/one, 1-bias)
	}
	return sign * math.Ldexp(1+frac/one, exp-bias)
}

// formats are the two formats and their functions.
var formats = []struct {
	name     string
	fraction int
	to       func(uint16) float32
	from     func(float32) uint16
}{{"half", 10, To, From}, {"bfloat16", 7, ToB, FromB}}

// TestAll proves that every number of 16 bits is what its format says, and comes back as itself.
func TestAll(t *testing.T) {
	for _, f := range formats {
		for i := range 1 << 16 {
			h := uint16(i)
			want, got := value(h, f.fraction), f.to(h)
			if math.IsNaN(want) != (got != got) || !math.IsNaN(want) && (float64(got) != want ||
				math.Signbit(want) != math.Signbit(float64(got))) {
				t.Fatalf("%s %#x is %v, want %v", f.name, h, got, want)
			}
			back := f.from(got)
			if back != h && !(math.IsNaN(want) && math.IsNaN(value(back, f.fraction)) && back&sign16 == h&sign16) {
				t.Fatalf("%s %#x comes back as %#x", f.name, h, back)
			}
		}
	}
}

// TestNearest proves that a float between two neighbours becomes the nearer one, and the even one from the middle.
func TestNearest(t *testing.T) {
	for _, f := range formats {
		top := uint16(Most16)
		if f.fraction == 7 {
			top = MostB
		}
		for h := uint16(0); h < top; h++ {
			lo, hi := value(h, f.fraction), value(h+1, f.fraction)
			mid := float32((lo + hi) / 2) // exact: a float32 has more bits than either format
			even := h + h&1
			for _, c := range []struct {
				in   float32
				want uint16
			}{{mid, even}, {math.Nextafter32(mid, 0), h}, {math.Nextafter32(mid, float32(hi)), h + 1}} {
				if c.in == 0 {
					continue
				}
				if got := f.from(c.in); got != c.want {
					t.Fatalf("%s of %v is %#x, want %#x", f.name, c.in, got, c.want)
				}
				if got := f.from(-c.in); got != c.want|sign16 {
					t.Fatalf("%s of %v is %#x, want %#x", f.name, -c.in, got, c.want|sign16)
				}
			}
		}
	}
	for _, c := range []struct {
		in   float32
		h, b uint16
	}{
		{65519.996, Most16, 0x4780}, {65520, inf16, 0x4780}, {float32(math.Inf(1)), inf16, 0x7f80},
		{math.MaxFloat32, inf16, 0x7f80}, {-math.MaxFloat32, inf16 | sign16, 0xff80},
		{math.SmallestNonzeroFloat32, 0, 0},
		{0x1p-25, 0, 0x3300}, {0x1.8p-25, 1, 0x3340},
	} {
		if h, b := From(c.in), FromB(c.in); h != c.h || b != c.b {
			t.Errorf("%v: %#x and %#x, want %#x and %#x", c.in, h, b, c.h, c.b)
		}
	}
	if h, b := From(float32(math.NaN())), FromB(float32(math.NaN())); To(h) == To(h) || ToB(b) == ToB(b) {
		t.Error("NaN became a number")
	}
	lowNaN := math.Float32frombits(inf32 | 1) // its bits are all below those that stay
	if h, b := From(lowNaN), FromB(lowNaN); To(h) == To(h) || ToB(b) == ToB(b) {
		t.Error("NaN became a number")
	}
}
