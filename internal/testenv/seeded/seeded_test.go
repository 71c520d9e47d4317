package seeded

import (
	"flag"
	"testing"

	"pgregory.net/rapid"
)

// drawn is what a property sees.
func drawn(t *testing.T) (all []uint64) {
	rapid.Check(t, func(t *rapid.T) { all = append(all, rapid.Uint64().Draw(t, "x")) })
	return all
}

func TestSameEveryTime(t *testing.T) {
	if seed := flag.Lookup(seedFlag).Value.String(); seed == "0" {
		t.Skip("random seeds are asked for")
	}
	a, b := drawn(t), drawn(t)
	if len(a) < 10 || len(a) != len(b) {
		t.Fatalf("%d and %d checks", len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("check %d: %d, then %d", i, a[i], b[i])
		}
	}
}

// TestCases: each case draws from its own seed, and the flags are as before.
func TestCases(t *testing.T) {
	before := flag.Lookup(seedFlag).Value.String()
	first := func(seed uint64) (x uint64) {
		n := 0
		Cases(t, func(t *rapid.T) {
			if v := rapid.Uint64().Draw(t, "x"); n == 0 {
				x = v
			}
			n++
		}, map[string]uint64{"case": seed})
		return x
	}
	if a, b, c := first(5), first(5), first(6); a != b || a == c {
		t.Errorf("seeds 5, 5 and 6 draw %d, %d and %d", a, b, c)
	}
	if after := flag.Lookup(seedFlag).Value.String(); after != before {
		t.Errorf("the seed is %s, was %s", after, before)
	}
}
