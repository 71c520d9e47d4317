package conformance_test

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ropeway/internal/conformance"
	"ropeway/spec/coverage"
	"ropeway/spec/table"
)

const pagePath = "../../docs/coverage.md"

func readPage(t *testing.T) []byte {
	t.Helper()
	page, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func scan(t *testing.T) *coverage.Proofs {
	t.Helper()
	proofs, err := coverage.Scan(".")
	if err != nil {
		t.Fatal(err)
	}
	conformance.EachExpressed(proofs.Prove)
	return proofs
}

// TestPageNamesRealTests fails when the page claims a test that no source of
// this package registers.
func TestPageNamesRealTests(t *testing.T) {
	page, proofs := readPage(t), scan(t)
	for _, m := range regexp.MustCompile("`TestRules/(\\w+)/(\\d\\d+)`").FindAllSubmatch(page, -1) {
		rule, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		if !proofs.Rules[string(m[1])][rule] {
			t.Errorf("the page names %s, but nothing calls prove(%q, %d, ...)", m[0], m[1], rule)
		}
	}
	for _, m := range regexp.MustCompile("`TestBehaviour/(\\w+)`").FindAllSubmatch(page, -1) {
		if !proofs.Behaviour[string(m[1])] {
			t.Errorf("the page names %s, but nothing calls behaves(%q, ...)", m[0], m[1])
		}
	}
}

// TestPageIsCurrent fails when the page is not what the table and the
// registered proofs give.
func TestPageIsCurrent(t *testing.T) {
	tab, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
	want, err := coverage.Page(tab, scan(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readPage(t), want) {
		t.Error("docs/coverage.md is stale; run go run ./spec/gen")
	}
}

// TestNothingMissing fails when a core rule has neither a proof nor a mark, or
// a core function without rules has no behaviour test.
func TestNothingMissing(t *testing.T) {
	function, count := "", 0
	for line := range strings.Lines(string(readPage(t))) {
		if name, ok := strings.CutPrefix(line, "### "); ok {
			function = strings.TrimSpace(name)
		}
		if strings.Contains(line, coverage.Missing) {
			count++
			t.Logf("%s: %s", function, strings.TrimSpace(line))
		}
	}
	if count > 0 {
		t.Errorf("%d proofs are missing", count)
	}
}

// TestDecidedIsProven fails when a decision of ours has no test.
func TestDecidedIsProven(t *testing.T) {
	for line := range strings.Lines(string(readPage(t))) {
		if strings.HasPrefix(line, "| ") && strings.Contains(line, "*decided") &&
			!strings.Contains(line, "`TestRules/") {
			t.Errorf("decided, but not proven: %s", line)
		}
	}
}
