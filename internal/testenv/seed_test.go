package testenv

import (
	"strings"
	"testing"
)

func TestSeed(t *testing.T) {
	for _, tt := range []struct {
		value string
		want  uint64
		ok    bool
	}{{"", 1, true}, {"7", 7, true}, {"0x10", 16, true}, {"0", 0, false}, {"-1", 0, false}, {"soon", 0, false}} {
		t.Setenv(SeedVariable, tt.value)
		if got, err := Seed(); got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%s=%s: %d, %v", SeedVariable, tt.value, got, err)
		}
	}
	t.Setenv(SeedVariable, "random")
	a, errA := Seed()
	b, errB := Seed()
	if errA != nil || errB != nil || a == 0 || a == b || !Random() {
		t.Errorf("random seeds: %d, %v and %d, %v", a, errA, b, errB)
	}
}

// TestRand: a source draws what its number and the seed say, and a failure says which seed.
func TestRand(t *testing.T) {
	draw := func(seed string, i int) uint64 {
		t.Setenv(SeedVariable, seed)
		return Rand(t)(i).Uint64()
	}
	if draw("", 3) != draw("1", 3) || draw("1", 3) == draw("1", 4) || draw("1", 3) == draw("2", 3) {
		t.Error("sources differ where they should not, or do not where they should")
	}
	failing := &failing{TB: t}
	t.Setenv(SeedVariable, "random")
	Rand(failing)
	failing.cleanup()
	if !strings.Contains(failing.log, SeedVariable+"=") {
		t.Errorf("a test that failed logs %q", failing.log)
	}
}

// failing is a test that failed and keeps what it logs.
type failing struct {
	testing.TB
	cleanup func()
	log     string
}

func (f *failing) Helper()          {}
func (f *failing) Cleanup(c func()) { f.cleanup = c }
func (f *failing) Failed() bool     { return true }
func (f *failing) Logf(format string, _ ...any) {
	f.log += strings.ReplaceAll(format, "%s", SeedVariable)
}
