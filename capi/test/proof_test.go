package capitest

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

// proofProgram builds a program from all sources that match, with the codes of the table in rules.h.
func proofProgram(t *testing.T, pattern string, flags ...string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	var sources []string
	for _, path := range found {
		sources = append(sources, filepath.Base(path))
	}
	include, err := rulesDir()
	testenv.OK(t, err)
	return compile(t, sources, append([]string{"-O0", "-Itestdata", "-I" + include}, flags...)...)
}

// rulesDir is the directory of rules.h.
var rulesDir = sync.OnceValues(func() (string, error) {
	all, err := table.Load()
	if err != nil {
		return "", err
	}
	dir, err := workshop()
	if err != nil {
		return "", err
	}
	cases, err := os.ReadFile("testdata/cases.h")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "rules.h"), []byte(rulesHeader(all, string(cases))), 0o644)
})

// rulesHeader is rules.h: what the table says of every rule of a core function, and whether cases has it.
func rulesHeader(all *table.Table, cases string) string {
	var b strings.Builder
	b.WriteString("static const struct rule {\n\tconst char *function, *name;\n\tint code, quiet, cased;\n" +
		"} table[] = {\n")
	number := map[bool]int{true: 1}
	for _, f := range all.Functions {
		if f.Status != table.Core {
			continue
		}
		for _, r := range f.Rules {
			code := int32(0)
			if passed := cmp.Or(r.Code, r.SuchAs); passed != nil {
				code = *passed
			}
			cased := strings.Contains(cases, fmt.Sprintf(", %q, %q, ", f.Name, r.Name))
			fmt.Fprintf(&b, "\t{%q, %q, %d, %d, %d},\n", f.Name, r.Name, code, number[r.Quiet], number[cased])
		}
	}
	b.WriteString("};\n")
	return b.String()
}

func loadTable(t *testing.T) *table.Table {
	t.Helper()
	all, err := table.Load()
	testenv.OK(t, err)
	return all
}
