package capitest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ropeway/spec/table"
)

// copyFamily are the groups of the table whose every rule is proven through the library: memory-copy holds the single,
// the batch, the 2-D, the descriptor and the offset copies, and the fills.
var copyFamily = []string{"memory-copy"}

// machines are what the rules program runs on: the argument for the program, the environment for the library.
var machines = []struct {
	name string
	env  []string
}{
	{"A2", nil},
	{"A3", []string{"ROPEWAY_PRODUCT=A3"}},
	{"950", []string{"ROPEWAY_PRODUCT=950"}},
	{"310P", []string{"ROPEWAY_PRODUCT=310P"}},
	{"310", []string{"ROPEWAY_PRODUCT=310"}},
	{"strict", []string{"ROPEWAY_PRODUCT=310", "ROPEWAY_STRICT=1"}},
	{"RC", []string{"ROPEWAY_PRODUCT=310B", "ROPEWAY_FORM=RC", "ROPEWAY_DRIVER=soft"}}, // no other driver has this form
}

// notFromC are the rules that no program can provoke, and why. internal/conformance proves them with a driver that
// fails on demand.
var notFromC = map[string]string{
	"aclrtMemcpy 12":      "the software driver never fails a copy whose addresses are good",
	"aclrtMemcpyBatch 25": "the software driver has batch copies",
}

// TestRules proves each rule of the copy family: the code, the last error it leaves, and that the message names the
// function.
func TestRules(t *testing.T) {
	t.Parallel()
	program := rulesProgram(t)
	proven := map[string]bool{}
	for _, m := range machines {
		for _, line := range strings.Split(passes(t, m.env, program, m.name), "\n") {
			if rule, ok := strings.CutPrefix(line, "rule "); ok {
				proven[rule] = true
			}
		}
	}
	wanted := copyRules(t)
	for _, rule := range slices.Sorted(maps.Keys(wanted)) {
		switch excused := notFromC[rule] != ""; {
		case proven[rule] && excused:
			t.Errorf("%s: notFromC lists it, and it was proven", rule)
		case !proven[rule] && !excused:
			t.Errorf("%s: not proven: if %s, %s", rule, wanted[rule].If, wanted[rule].Ret)
		}
	}
	for rule := range notFromC {
		if _, known := wanted[rule]; !known {
			t.Errorf("%s: notFromC lists it, and it needs no proof", rule)
		}
	}
	for rule := range proven {
		if _, known := wanted[rule]; !known {
			t.Errorf("%s: proven, and it needs no proof", rule)
		}
	}
}

// copyRules are the rules of the copy family that can be broken: all but those that are shadowed or need what is not
// built.
func copyRules(t *testing.T) map[string]table.Rule {
	t.Helper()
	rules := map[string]table.Rule{}
	for _, f := range loadTable(t).Functions {
		if f.Status != table.Core || !slices.Contains(copyFamily, f.Group) {
			continue
		}
		for i, r := range f.Rules {
			if kind := r.Mark.Kind(); kind != "shadowed" && kind != "needs" {
				rules[fmt.Sprintf("%s %d", f.Name, i+1)] = r
			}
		}
	}
	if len(rules) < 150 {
		t.Fatalf("the table has only %d rules of %v", len(rules), copyFamily)
	}
	return rules
}

// rulesProgram builds the program that proves the copy family; see machines for how to run it.
func rulesProgram(t *testing.T, flags ...string) string {
	t.Helper()
	return proofProgram(t, "rules_*.c", flags...)
}

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
	if err != nil {
		t.Fatal(err)
	}
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
	b.WriteString("static const struct rule {\n\tconst char *function;\n\tint number, code, passed_on, quiet, " +
		"cased;\n} table[] = {\n")
	number := map[bool]int{true: 1}
	for _, f := range all.Functions {
		if f.Status != table.Core {
			continue
		}
		for i, r := range f.Rules {
			code := int32(0)
			if r.Code != nil {
				code = *r.Code
			}
			cased := strings.Contains(cases, fmt.Sprintf(", %q, %d, ", f.Name, i+1))
			fmt.Fprintf(&b, "\t{%q, %d, %d, %d, %d, %d},\n", f.Name, i+1, code, number[r.Code == nil],
				number[r.Quiet], number[cased])
		}
	}
	b.WriteString("};\n")
	return b.String()
}

func loadTable(t *testing.T) *table.Table {
	t.Helper()
	all, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
