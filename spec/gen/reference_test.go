package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ropeway/internal/repo"
	"ropeway/spec/table"
)

// TestReference: docs/reference.md has every function that is built and every code once, each prototype as the headers
// declare it, and no link that leads nowhere.
func TestReference(t *testing.T) {
	tab, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := writeReference(tab, root)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	var headers strings.Builder
	files, err := filepath.Glob(filepath.Join(root, "capi/include/acl/*.h"))
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		headers.Write(text)
	}
	declared := strings.Join(strings.Fields(headers.String()), " ")
	for _, f := range tab.Functions {
		want := 0
		if f.Status == table.Core {
			want = 1
		}
		if n := strings.Count(page, "\n### "+f.Name+"\n"); n != want {
			t.Errorf("%s has %d sections, not %d", f.Name, n, want)
		}
	}
	for _, block := range regexp.MustCompile("(?s)```c\n(.*?)\n```").FindAllStringSubmatch(page, -1) {
		if p := strings.Join(strings.Fields(block[1]), " "); !strings.Contains(declared, p) {
			t.Errorf("no header declares %s", p)
		}
	}
	coverage, err := os.ReadFile(filepath.Join(root, "docs/coverage.md"))
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]string{"": anchorsOf(page), "coverage.md": anchorsOf(string(coverage))}
	for _, link := range regexp.MustCompile(`\]\(([\w.]*)#([\w-]+)\)`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(anchors[link[1]], " "+link[2]+" ") {
			t.Errorf("%s leads nowhere", link[0])
		}
	}
	for _, c := range tab.Codes() {
		if !strings.Contains(page, "| "+c.Name+" |") {
			t.Errorf("%s is missing", c.Name)
		}
	}
}

// anchorsOf are the places of a page that can be linked to, with blanks between them.
func anchorsOf(page string) string {
	all := " "
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$|<a id="(\w+)">`).FindAllStringSubmatch(page, -1) {
		all += strings.ReplaceAll(strings.ToLower(m[1]), " ", "-") + m[2] + " "
	}
	return all
}
