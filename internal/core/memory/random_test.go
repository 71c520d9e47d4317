package memory_test

import (
	"errors"
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	_ "ropeway/internal/testenv/seeded" // rapid draws from a fixed seed
)

// TestMain has rapid try more programs, and longer ones, than it does by default.
func TestMain(m *testing.M) {
	flag.Parse()
	byDefault("rapid.steps", "50")
	if !testing.Short() {
		byDefault("rapid.checks", "500") // a few seconds
	}
	goleak.VerifyTestMain(m)
}

// byDefault sets a flag that the command line does not.
func byDefault(name, value string) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}

// patience is how long one program may take.
const patience = 2 * time.Minute

func must(t *rapid.T, err *core.Error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pick returns a random element, and skips the action if there is none.
func pick[T any](t *rapid.T, list []T, label string) T {
	if len(list) == 0 {
		t.Skip("no " + label)
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, label)]
}

// expect checks a code; 0 is success.
func expect(t *rapid.T, err *core.Error, code abi.Code, what string) {
	t.Helper()
	switch {
	case err == nil && code != 0:
		t.Fatalf("%s: no error, want %d", what, code)
	case err != nil && (err.Code != code || !errors.Is(err, err.Code)):
		t.Fatalf("%s: %v, want %d", what, err, code)
	}
}
