package coverage

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

func TestPage(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	page := string(Page(tab, nil))
	if n := strings.Count(page, "\n"); n > 100 {
		t.Errorf("the page has %d lines; it is a summary", n)
	}
	for _, want := range []string{
		"| memory-copy | 17 | 17 | 238 | 228 | 10 |", "| snapshot | aclrtSnapShotProcessLock, ",
		"devices with UB links (3);",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestChecked: the page counts the rules that generated checks name, and only those that can apply.
func TestChecked(t *testing.T) {
	code := int32(1)
	expr, err := table.ParseWhen("n == 0")
	testenv.OK(t, err)
	by := &table.When{Op: "fits"}
	f := &table.Function{Name: "aclF", Rules: []table.Rule{
		{Name: "n-0", Expr: expr, Code: &code}, {Name: "b", Call: by, By: "fits(n)"},
		{Name: "c", Call: by, By: "fits(n)"}, {Name: "d", If: "what the work finds"},
		{Name: "e", Expr: expr, Code: &code}, {Name: "f", Expr: expr, Mark: &table.Mark{Needs: "models"}},
	}}
	dir := t.TempDir()
	src := "package p\n\nfunc checkF() {\n\tconst api = \"aclF\"\n\tif n == 0 { // n-0\n\t}\n\tif err := fits(n); " +
		"err != nil { // b\n\t}\n}\n"
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "checks.go"), []byte(src), 0o644))
	checked, err := ReadChecks(dir)
	testenv.OK(t, err)
	var c count
	c.addRules(f, checked)
	if want := (count{mechanical: 4, generated: 3, late: 1, other: 1}); !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want %+v", c, want)
	}
	c = count{}
	c.addRules(f, nil)
	if want := "3 could be checked by generated code, which their functions do not call: aclF."; c.left() != want {
		t.Errorf("without a check: %q, want %q", c.left(), want)
	}
}

// TestNoneByHand: every function makes its leading rules that have an expression or a function in a generated check.
func TestNoneByHand(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	checked, err := ReadChecks("../../internal/core")
	testenv.OK(t, err)
	var c count
	for _, f := range tab.Functions {
		if f.Status == table.Core {
			c.addRules(f, checked)
		}
	}
	if c.generated < 1000 || len(c.byHand) > 0 {
		t.Errorf("%d rules are in generated checks; these functions call none: %q", c.generated, c.byHand)
	}
}

// TestStrictIsDocumented: docs/environment.md names every function that strict mode changes.
func TestStrictIsDocumented(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	text, err := os.ReadFile("../../docs/environment.md")
	testenv.OK(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Strict mode\n")
	section, _, found := strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("the section is missing")
	}
	rules := 0
	for _, f := range tab.Functions {
		for _, r := range f.Rules {
			if !r.Strict {
				continue
			}
			rules++
			if !strings.Contains(section, f.Name) || r.Code != nil && !strings.Contains(section,
				fmt.Sprintf("| %d |", *r.Code)) {
				t.Errorf("%s: rule %s is not in the list", f.Name, r.Name)
			}
		}
	}
	if rules == 0 {
		t.Error("no rule is strict")
	}
}
