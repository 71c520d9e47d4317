package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCodes: package ropeway has a constant for every code that the core or its setup returns. A code that is new
// there fails here until the table's rules, or alsoReturned in spec/gen, have it. Codes that are only compared with,
// and those of functions that are not built, are not returned.
func TestCodes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "codes.go"))
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(Err\w+) +Code = `).FindAllSubmatch(text, -1) {
		constants[string(m[1])] = true
	}
	if len(constants) < 20 || len(constants) > 90 {
		t.Errorf("%d constants", len(constants))
	}
	used := map[string]string{} // code: where
	code := regexp.MustCompile(`\babi\.(Err[A-Z]\w+)`)
	for _, dir := range []string{"internal/core", "internal/setup"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "unbuilt_rules.go" {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(strings.TrimSpace(line), "case ") {
					continue
				}
				for _, m := range code.FindAllStringSubmatch(line, -1) {
					used[m[1]] = filepath.Base(name)
				}
			}
		}
	}
	var names []string
	for name := range used {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !constants[name] {
			t.Errorf("%s of %s is no constant of package ropeway", name, used[name])
		}
	}
	if len(names) < 20 {
		t.Errorf("only %v are returned", names)
	}
}
