// Package seeded makes the properties that rapid checks draw from the seed of testenv. A test package that uses rapid
// imports it, if only for that; internal/archtest sees to it.
package seeded

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/testenv"
)

const seedFlag = "rapid.seed" // 0: a random one

// The flag of rapid exists when this runs, and the command line, which is read later, has the last word.
func init() {
	if f := flag.Lookup(seedFlag); f.Value.String() != "0" {
		return // RAPID_SEED
	}
	if testenv.Random() {
		return // another one for each check
	}
	seed, err := testenv.Seed()
	if err == nil {
		err = flag.Set(seedFlag, strconv.FormatUint(seed, 10))
	}
	if err != nil {
		panic(err)
	}
}

// Cases checks a property once for each seed with which it failed in the past. The name says what was wrong. Other
// tests must not run meanwhile: no t.Parallel.
func Cases(t *testing.T, property func(*rapid.T), cases map[string]uint64) {
	t.Helper()
	for name, seed := range cases {
		t.Run(name, func(t *testing.T) {
			for name, value := range map[string]string{seedFlag: strconv.FormatUint(seed, 10), "rapid.checks": "5"} {
				before := flag.Lookup(name).Value.String()
				defer flag.Set(name, before) //nolint:errcheck // it was valid
				if err := flag.Set(name, value); err != nil {
					t.Fatal(err)
				}
			}
			rapid.Check(t, property)
		})
	}
}
