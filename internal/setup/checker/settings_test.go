package checker

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/check"
	"ropeway/internal/finding"
	"ropeway/internal/testenv"
)

// but are all rules without some.
func but(names ...string) []string {
	var all []string
	for _, r := range finding.Rules {
		if !slices.Contains(names, r.Name) {
			all = append(all, r.Name)
		}
	}
	slices.Sort(all)
	return all
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text  string
		seed  uint64
		depth int
		off   []string
		bad   string // part of the error
	}{
		{text: "1", depth: check.DefaultDepth},
		{text: "", depth: check.DefaultDepth},
		{text: "seed=7", seed: 7, depth: check.DefaultDepth},
		{text: "seed=18446744073709551615,depth=1", seed: 1<<64 - 1, depth: 1},
		{text: " seed=7 , depth=64 ,", seed: 7, depth: 64},
		{text: "no=leak", depth: check.DefaultDepth, off: []string{"leak"}},
		{text: "no=leak+misaligned,no=stream-race", depth: check.DefaultDepth,
			off: []string{"leak", "misaligned", "stream-race"}},
		{text: "rules=leak", depth: check.DefaultDepth, off: but("leak")},
		{text: "rules=leak+stream-race,no=leak", depth: check.DefaultDepth, off: but("stream-race")},
		{text: "2", bad: `"2"`},
		{text: "seed", bad: "seed="},
		{text: "seed=-1", bad: "seed=-1"},
		{text: "seed=x", bad: "whole number"},
		{text: "depth=0", bad: "from 1 on"},
		{text: "depth=", bad: "depth="},
		{text: "no=", bad: "no rule"},
		{text: "rules=leak+nonsense", bad: `"nonsense"`},
		{text: "sed=7", bad: `"sed"`},
	} {
		t.Run(tt.text, func(t *testing.T) {
			s, err := parse(tt.text)
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) {
					t.Fatalf("error %v, want one about %s", err, tt.bad)
				}
				return
			}
			testenv.OK(t, err)
			off := slices.Sorted(maps.Keys(s.Off))
			if s.Seed != tt.seed || s.Depth != tt.depth || !slices.Equal(off, tt.off) {
				t.Errorf("seed %d, depth %d, off %v", s.Seed, s.Depth, off)
			}
		})
	}
}

// FuzzParse: whatever is accepted makes sense, and means the same when it is read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"1", "", "seed=7,depth=2048,rules=leak+stream-race,no=misaligned", "no=,,=",
		"depth=-1", "seed=1=2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text)
		if err != nil {
			return
		}
		if s.Depth < 1 {
			t.Errorf("depth %d", s.Depth)
		}
		for name, off := range s.Off {
			if finding.ByName(name) == nil || !off {
				t.Errorf("%q: %v", name, off)
			}
		}
		again, err := parse(" " + text + ",")
		if text != "1" && (err != nil || !reflect.DeepEqual(s, again)) {
			t.Errorf("again: %v, %v", again, err)
		}
	})
}
