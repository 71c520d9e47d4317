package trace_test

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"ropeway"
	"ropeway/internal/timeline"
)

// lineHere is the line after the one that calls it.
func lineHere() int {
	_, _, line, _ := runtime.Caller(1)
	return line + 1
}

// fillTwice queues two fills, and returns their line.
func fillTwice(t *testing.T, s *ropeway.Stream, mem ropeway.Span) (line int) {
	for range 2 {
		line = lineHere()
		check(t, s.Fill(mem, 1))
	}
	return line
}

// TestGoLines: calls of a Go program have the line and the function that called package ropeway, also when they wait,
// fail or copy themselves.
func TestGoLines(t *testing.T) {
	want := map[string][]int{}
	r := run(t, func(d *ropeway.Device) {
		s, mem := must(d.NewStream())(t), must(d.Alloc(64))(t)
		note := func(function string, line int) { want[function] = append(want[function], line) }
		line := fillTwice(t, s, mem.All())
		note("aclrtMemsetAsync", line)
		note("aclrtMemsetAsync", line)
		note("aclrtMemcpy", lineHere())
		check(t, d.Copy(mem.All(), ropeway.Pageable(make([]byte, 64))))
		note("aclrtSynchronizeStream", lineHere())
		check(t, s.Synchronize(context.Background()))
	})
	got := map[string][]timeline.Site{}
	for _, c := range r.Calls {
		if c.Site != timeline.None {
			name := r.Functions[c.Function]
			got[name] = append(got[name], r.Sites[c.Site])
		}
	}
	for function, lines := range want {
		if len(got[function]) != len(lines) {
			t.Errorf("%s: %v, want lines %v", function, got[function], lines)
			continue
		}
		for i, s := range got[function] {
			in := "TestGoLines"
			if function == "aclrtMemsetAsync" {
				in = "fillTwice"
			}
			if filepath.Base(s.File) != "sites_test.go" || s.Line != lines[i] || !strings.Contains(s.Function, in) {
				t.Errorf("%s comes from %v, want line %d in %s", function, &s, lines[i], in)
			}
		}
	}
}

// TestSiteTexts: a site is written with as much as is known of it.
func TestSiteTexts(t *testing.T) {
	for want, s := range map[string]timeline.Site{
		"load.c:30 in load": {File: "load.c", Line: 30, Function: "load"},
		"load.c:30":         {File: "load.c", Line: 30},
		"load.c in load":    {File: "load.c", Function: "load"},
		"app+0x11f2 in go":  {Module: "/opt/app", Inside: 0x11f2, Function: "go"},
		"load":              {Function: "load"},
		"":                  {},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
