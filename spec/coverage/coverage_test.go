package coverage

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ropeway/spec/table"
)

func scanText(t *testing.T, body string) *Proofs {
	t.Helper()
	dir := t.TempDir()
	src := "package p\n\nfunc init() {\n" + body + "\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := Scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestScan(t *testing.T) {
	p := scanText(t, `
		prove("aclrtMemcpy", 3, func() {})
		prove("aclrtMemcpy", 5, 6, func() { other(7) })
		prove(name, 8, nil)
		x.prove("aclrtMemcpy", 9, nil)
		// prove("aclrtMemcpy", 10, nil)
		behaves("aclrtGetRunMode", func() { prove("aclrtMalloc", 1, nil) })`)
	got := p.Rules["aclrtMemcpy"]
	if len(got) != 3 || !got[3] || !got[5] || !got[6] {
		t.Errorf("aclrtMemcpy: %v, want 3, 5 and 6", got)
	}
	if !p.Rules["aclrtMalloc"][1] || len(p.Rules) != 2 {
		t.Errorf("rules: %v", p.Rules)
	}
	if !p.Behaviour["aclrtGetRunMode"] || len(p.Behaviour) != 1 {
		t.Errorf("behaviour: %v", p.Behaviour)
	}
}

func TestPage(t *testing.T) {
	tab, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
	page, err := Page(tab, scanText(t, `
		prove("aclrtMemcpy", 3, nil)
		prove("aclrtMemcpyBatch", 8, nil)
		behaves("aclDataTypeSize", nil)`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 3 | src is NULL | 100000 ACL_ERROR_INVALID_PARAM | `TestRules/aclrtMemcpy/03` |\n",
		"| 2 | dst is NULL | 100000 ACL_ERROR_INVALID_PARAM | **MISSING** |\n",
		"| `TestRules/aclrtMemcpyBatch/08`; *shadowed by* 2: ",
		"Behaviour: `TestBehaviour/aclDataTypeSize`. No rules.\n",
		"| aclrtSnapShotProcessLock | 950, A3, A2 | ",
		"| 10 | src, then dst, is not a multiple of 64 (*310; with ROPEWAY_STRICT=1 all*) |",
		"| 25 | the host side is pageable on the 310, where the copy would fail when it runs (*with " +
			"ROPEWAY_STRICT=1*) |",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestChecked: the page counts the rules that generated checks name, and only those that can apply.
func TestChecked(t *testing.T) {
	code := int32(1)
	expr, err := table.ParseWhen("n == 0")
	if err != nil {
		t.Fatal(err)
	}
	by := &table.When{Op: "fits"}
	f := &table.Function{Name: "aclF", Rules: []table.Rule{
		{Expr: expr, Code: &code}, {Call: by, By: "fits(n)"}, {Call: by, By: "fits(n)"}, {If: "what the work finds"},
		{Expr: expr, Code: &code}, {Expr: expr, Mark: &table.Mark{Needs: "models"}},
	}}
	dir := t.TempDir()
	src := "package p\n\nfunc checkF() {\n\tconst api = \"aclF\"\n\tif n == 0 { // 1\n\t}\n\tif err := fits(n); err " +
		"!= nil { // 2\n\t}\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "checks.go"), []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	p := scanText(t, "")
	if err := p.ScanChecks(dir); err != nil {
		t.Fatal(err)
	}
	var c count
	c.addRules(f, p)
	if want := (count{mechanical: 4, generated: 3, late: 1, other: 1}); !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want %+v", c, want)
	}
	c = count{}
	c.addRules(f, scanText(t, ""))
	if want := "3 could be checked by generated code, which their functions do not call: aclF."; c.left() != want {
		t.Errorf("without a check: %q, want %q", c.left(), want)
	}
}

// TestNoneByHand: every function makes its leading rules that have an expression or a function in a generated check.
func TestNoneByHand(t *testing.T) {
	tab, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
	p := scanText(t, "")
	if err := p.ScanChecks("../../internal/core"); err != nil {
		t.Fatal(err)
	}
	var c count
	for _, f := range tab.Functions {
		if f.Status == table.Core {
			c.addRules(f, p)
		}
	}
	if c.generated < 1000 || len(c.byHand) > 0 {
		t.Errorf("%d rules are in generated checks; these functions call none: %q", c.generated, c.byHand)
	}
}

func TestPageRefusesUnknownProofs(t *testing.T) {
	tab, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`prove("aclrtNope", 1, nil)`:                "not in the table",
		`prove("aclrtMemcpy", 99, nil)`:             "rule 99",
		`prove("aclrtMemcpy", 0, nil)`:              "rule 0",
		`behaves("aclrtSnapShotProcessLock", nil)`:  "status is later",
		`prove("aclrtSnapShotProcessLock", 1, nil)`: "status is later",
	} {
		if _, err := Page(tab, scanText(t, body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
	}
}

// TestStrictIsDocumented: docs/environment.md names every function that strict mode changes.
func TestStrictIsDocumented(t *testing.T) {
	tab, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Strict mode\n")
	section, _, found := strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("the section is missing")
	}
	rules := 0
	for _, f := range tab.Functions {
		for i, r := range f.Rules {
			if !r.Strict {
				continue
			}
			rules++
			if !strings.Contains(section, f.Name) || r.Code != nil && !strings.Contains(section,
				fmt.Sprintf("| %d |", *r.Code)) {
				t.Errorf("%s rule %d is not in the list", f.Name, i+1)
			}
		}
	}
	if rules == 0 {
		t.Error("no rule is strict")
	}
}
