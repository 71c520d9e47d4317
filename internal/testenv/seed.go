package testenv

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// SeedVariable is what tests draw from: a number, or "random" for another one each time, as "make fuzz" sets it.
// Without it the seed is 1, and every run of a test does the same.
const SeedVariable = "ROPEWAY_TEST_SEED"

// Random reports whether SeedVariable asks for another seed each time.
func Random() bool { return os.Getenv(SeedVariable) == "random" }

// Seed is the number that SeedVariable asks for.
func Seed() (uint64, error) {
	switch text := os.Getenv(SeedVariable); {
	case text == "":
		return 1, nil
	case Random():
		var b [8]byte
		rand.Read(b[:]) //nolint:errcheck // it never fails
		return binary.LittleEndian.Uint64(b[:])>>1 + 1, nil
	default:
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil || n == 0 {
			return 0, fmt.Errorf("%s=%q is neither a number from 1 on nor random", SeedVariable, text)
		}
		return n, nil
	}
}

// Rand returns sources of random numbers, the i-th for what is done in the i-th place (a goroutine, a round), so
// that each draws the same whatever the others do. A test that fails says how to run it with the same numbers
// again.
func Rand(t testing.TB) (source func(i int) *mathrand.Rand) {
	t.Helper()
	seed, err := Seed()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the same again: %s=%d", SeedVariable, seed)
		}
	})
	return func(i int) *mathrand.Rand { return mathrand.New(mathrand.NewPCG(seed, uint64(i))) }
}
