package compat

import (
	"slices"
	"testing"
)

// TestCompare: lines may come, and a line that goes or changes is reported.
func TestCompare(t *testing.T) {
	old := record("0.3.1", []string{"symbol b", "symbol a", "flag --x string"})
	for _, tt := range []struct {
		now, lost []string
	}{
		{[]string{"symbol a", "symbol b", "flag --x string"}, nil},
		{[]string{"symbol a", "symbol b", "flag --x string", "symbol c"}, nil},
		{[]string{"symbol a", "flag --x string"}, []string{"symbol b"}},
		{[]string{"symbol a", "symbol b", "flag --x int"}, []string{"flag --x string"}},
		{nil, []string{"flag --x string", "symbol a", "symbol b"}},
	} {
		release, lost, err := compare(old, tt.now)
		if err != nil || release != "0.3.1" || !slices.Equal(lost, tt.lost) {
			t.Errorf("%v: release %q, lost %v, %v; want %v", tt.now, release, lost, err, tt.lost)
		}
	}
	if _, _, err := compare("symbol a\n", nil); err == nil {
		t.Error("a record that names no release is accepted")
	}
}

// TestMayBreak: which version may break what a release offers.
func TestMayBreak(t *testing.T) {
	for _, tt := range []struct {
		release, now string
		want         bool
	}{
		{"0.1.0", "0.1.0", false}, {"0.1.0", "0.1.7", false}, {"0.1.9", "0.2.0", true}, {"0.9.0", "0.10.0", true},
		{"0.9.0", "1.0.0", true}, {"1.2.3", "1.3.0", false}, {"1.2.3", "1.2.4", false}, {"1.9.0", "2.0.0", true},
		{"2.0.0", "1.9.0", false}, {"1.1.0", "0.2.0", false},
	} {
		if got := mayBreak(tt.release, tt.now); got != tt.want {
			t.Errorf("%s after %s: %v", tt.now, tt.release, got)
		}
	}
}
