package coverage

import (
	"os"
	"path/filepath"
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
		"| aclrtSwitchStream | 950, A2, 310B, 310P, 910 | ",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestPageRefusesUnknownProofs(t *testing.T) {
	tab, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`prove("aclrtNope", 1, nil)`:         "not in the table",
		`prove("aclrtMemcpy", 99, nil)`:      "rule 99",
		`prove("aclrtMemcpy", 0, nil)`:       "rule 0",
		`behaves("aclrtSwitchStream", nil)`:  "status is later",
		`prove("aclrtSwitchStream", 1, nil)`: "status is later",
	} {
		if _, err := Page(tab, scanText(t, body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
	}
}
