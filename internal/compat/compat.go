// Package compat compares what ropeway offers with what its last release offered. docs/compatibility.md has the
// promise; the directory compat of the repository has the records, a line for each thing that users may rely on: a
// symbol, the layout of a struct, a method, a flag. Lines may be added at any time. One that is missing, or has
// changed, is a break, and only a version that allows breaks may have it.
package compat

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ropeway/internal/version"
)

const header = "# What release %s offers; internal/compat compares. " +
	"CONTRIBUTING.md says when and how to write it anew: make record.\n"

// Check fails the test for each line of a record that is not among the lines. With ROPEWAY_UPDATE=1 it writes the
// record anew instead, if the version allows what it loses; ROPEWAY_UPDATE=force writes it in any case.
func Check(t testing.TB, root, name string, lines []string) {
	t.Helper()
	file := filepath.Join(root, "tools/compat", name+".txt")
	update := os.Getenv("ROPEWAY_UPDATE")
	text, err := os.ReadFile(file)
	if err != nil && (update == "" || !os.IsNotExist(err)) {
		t.Fatal(err)
	}
	release, lost, err := compare(string(text), lines)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(lost) > 0 && update != "force" && !mayBreak(release, version.Ropeway) {
		for _, line := range lost {
			t.Errorf("gone or changed since release %s: %s", release, line)
		}
		t.Fatalf("version %s must not break what release %s offers: keep it, or see CONTRIBUTING.md, Releases",
			version.Ropeway, release)
	}
	if update == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(record(version.Ropeway, lines)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// record is the text of a record.
func record(release string, lines []string) string {
	all := map[string]bool{}
	for _, line := range lines {
		all[line] = true
	}
	return fmt.Sprintf(header, release) + strings.Join(slices.Sorted(maps.Keys(all)), "\n") + "\n"
}

// compare returns the release that a record is of, and those of its lines that are lost.
func compare(text string, lines []string) (release string, lost []string, err error) {
	if text == "" {
		return "0.0.0", nil, nil
	}
	first, rest, _ := strings.Cut(text, "\n")
	if _, err := fmt.Sscanf(first, "# What release %s", &release); err != nil {
		return "", nil, fmt.Errorf("the first line does not name the release: %q", first)
	}
	release = strings.TrimSuffix(release, ";")
	have := map[string]bool{}
	for _, line := range lines {
		have[line] = true
	}
	for line := range strings.Lines(rest) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !have[line] {
			lost = append(lost, line)
		}
	}
	return release, lost, nil
}

// mayBreak reports whether a version may lack what a release had: its first number is greater or, while that is 0, its
// second (semver.org, 4 and 8).
func mayBreak(release, now string) bool {
	old, next := numbers(release), numbers(now)
	return next[0] > old[0] || next[0] == 0 && old[0] == 0 && next[1] > old[1]
}

func numbers(version string) (n [3]int) {
	for i, part := range strings.SplitN(version, ".", 3) {
		n[i], _ = strconv.Atoi(part)
	}
	return n
}
