package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

const root = "../.."

// built is the site of this repository.
var built = sync.OnceValues(func() (*site, error) {
	return build(root)
})

// mustLoad returns the table, all of which the site has to show.
func mustLoad(t *testing.T) *table.Table {
	t.Helper()
	all, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func mustBuild(t *testing.T) *site {
	t.Helper()
	s, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	attribute = regexp.MustCompile(`<[^>]+\s(?:href|src)="([^"]*)"`)
	identity  = regexp.MustCompile(`<[^>]+\sid="([^"]*)"`)
)

// TestLinks: every link of every page leads to a file of the site, and to a place that is there. Nothing is loaded
// from elsewhere.
func TestLinks(t *testing.T) {
	s := mustBuild(t)
	places := map[string]map[string]bool{}
	for name, text := range s.files {
		if path.Ext(name) == ".html" {
			places[name] = map[string]bool{}
			for _, m := range identity.FindAllSubmatch(text, -1) {
				if places[name][string(m[1])] && s.pages[name].Class != "document" {
					t.Errorf("%s: two elements have the id %s", name, m[1])
				}
				places[name][string(m[1])] = true
			}
		}
	}
	count := 0
	for name, text := range s.files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, m := range attribute.FindAllSubmatch(text, -1) {
			to := strings.ReplaceAll(string(m[1]), "&amp;", "&")
			if strings.HasPrefix(to, "data:") {
				continue
			}
			u, err := url.Parse(to)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.Scheme != "" {
				if s.external[to] == nil || !bytes.HasPrefix(m[0], []byte("<a ")) {
					t.Errorf("%s: %s is not among the links that leave the site", name, to)
				}
				continue
			}
			count++
			target := name
			if u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			if _, ok := s.files[target]; !ok {
				t.Errorf("%s: %s leads nowhere", name, to)
			} else if u.Fragment != "" && path.Ext(target) == ".html" && !places[target][u.Fragment] {
				t.Errorf("%s: %s names a place that is not there", name, to)
			}
		}
	}
	if count < 10000 {
		t.Errorf("only %d links were found", count)
	}
}

// TestEverythingHasAPage: each function, code and type of the table, and each page of the repository.
func TestEverythingHasAPage(t *testing.T) {
	s := mustBuild(t)
	all := mustLoad(t)
	for _, f := range all.Functions {
		text := string(s.files[functionPath(f.Name)])
		if text == "" {
			t.Errorf("%s has no page", f.Name)
			continue
		}
		if got := strings.Count(text, `<tr id="check-`); got != len(f.Rules) {
			t.Errorf("%s: %d checks on the page, %d in the table", f.Name, got, len(f.Rules))
		}
		if f.Form != nil && !strings.Contains(text, escaped(f.Form.Text)) {
			t.Errorf("%s: no Python form", f.Name)
		}
		status := ">not built yet</span>"
		switch {
		case f.Status == table.Core:
			status = ">built</span>"
		case f.Outside != nil:
			status = ">not part of the runtime</span>"
		}
		if !strings.Contains(text, status) {
			t.Errorf("%s: the page does not say %s", f.Name, status)
		}
		for _, p := range f.Products {
			if !strings.Contains(text, `<li class="has">`+p+"<") {
				t.Errorf("%s: no product %s", f.Name, p)
			}
		}
	}
	exported, err := os.ReadFile(filepath.Join(root, "tools/compat/go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^(\S+): (?:const|func|type|method) (?:\(\*?(\w+)[^)]*\) )?(?:[\w/]+\.)?(\w+)`)
	for _, m := range names.FindAllStringSubmatch(string(exported), -1) {
		id := strings.TrimPrefix(m[2]+"."+m[3], ".")
		if !bytes.Contains(s.files[goPath(m[1])], []byte(` id="`+id+`"`)) {
			t.Errorf("%s of %s is on no page", id, m[1])
		}
	}
	for _, c := range all.Codes() {
		if !bytes.Contains(s.files[codePath(c.Number)], []byte(c.Name)) {
			t.Errorf("%d %s has no page", c.Number, c.Name)
		}
	}
	for _, pattern := range []string{"docs/*.md", "docs/record/*.md", "*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range found {
			rel, _ := filepath.Rel(root, name)
			if s.files[htmlPath(filepath.ToSlash(rel))] == nil {
				t.Errorf("%s has no page", rel)
			}
		}
	}
}

// TestHome: the first page shows the finding that the README shows, which a test compares with what is printed.
func TestHome(t *testing.T) {
	block := regexp.MustCompile("(?s)```text\n(.*?)```")
	text, err := os.ReadFile(filepath.Join(root, homeSource))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	finding := block.FindSubmatch(text)
	shown := bytes.ReplaceAll(readme, []byte("capi/test/testdata/check/"), nil) // the page's columns are narrow
	if finding == nil || !bytes.Contains(shown, finding[1]) {
		t.Errorf("README.md does not show %q", finding)
	}
	for _, want := range []string{`href="docs/c.html"`, `href="docs/python.html"`, `href="docs/go.html"`,
		`src="docs/images/report.png"`} {
		if !bytes.Contains(mustBuild(t).files["index.html"], []byte(want)) {
			t.Errorf("the first page has no %s", want)
		}
	}
}

// escaped is text as templates write it.
func escaped(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(text)
}

// TestRulesInOrder: the checks of a page are those of the table, in their order, with their codes.
func TestRulesInOrder(t *testing.T) {
	s := mustBuild(t)
	f := mustLoad(t).Function("aclrtMemcpyAsync")
	text := string(s.files[functionPath(f.Name)])
	at := 0
	for _, r := range f.Rules {
		row := fmt.Sprintf(`<tr id="check-%s">`, r.Name)
		next := strings.Index(text[at:], row)
		if next < 0 {
			t.Fatalf("check %s is missing or out of order", r.Name)
		}
		at += next
		end := at + strings.Index(text[at:], "</tr>")
		if r.Code != nil && !strings.Contains(text[at:end], fmt.Sprintf("<td>%d ", *r.Code)) {
			t.Errorf("check %s does not show its code %d:\n%s", r.Name, *r.Code, text[at:end])
		}
	}
	if !strings.Contains(text, `aria-current="true">Functions</a>`) {
		t.Error("the list of pages does not show where the function is")
	}
}

// TestTables: tables can be sorted.
func TestTables(t *testing.T) {
	if !bytes.Contains(mustBuild(t).files["docs/coverage.html"], []byte(`<table class="sortable">`)) {
		t.Error("the coverage has no table that can be sorted")
	}
}

// TestSearchIndex: the script is JSON, and has pages, sections and functions.
func TestSearchIndex(t *testing.T) {
	s := mustBuild(t)
	text, ok := strings.CutPrefix(string(s.files[mark]), "window.ropewaySearch=")
	var all []struct{ P, T, S, X, A string }
	if err := json.Unmarshal([]byte(strings.TrimSuffix(text, ";\n")), &all); err != nil || !ok {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, e := range all {
		paths[e.P] = true
		name, place, _ := strings.Cut(e.P, "#")
		if place != "" && !bytes.Contains(s.files[name], []byte(`id="`+place+`"`)) {
			t.Errorf("%s is not there", e.P)
		}
	}
	for _, want := range []string{
		"functions/aclrtMemcpy.html", "codes/107002.html", "docs/check.html#stream-race", "index.html",
		"go/ropeway/check.html#With",
	} {
		if !paths[want] {
			t.Errorf("the search does not know %s", want)
		}
	}
}

// TestAnchors: headings get the names that code hosts give them.
func TestAnchors(t *testing.T) {
	i := &ids{used: map[string]int{}}
	for _, tt := range [][2]string{
		{"What is `not` faster?", "what-is-not-faster"}, {"libascendcl.so, from C", "libascendclso-from-c"},
		{"C and C++", "c-and-c"}, {"C and C++", "c-and-c-1"}, {"µs_x", "µs_x"},
	} {
		if got := string(i.Generate([]byte(tt[0]), 0)); got != tt[1] {
			t.Errorf("%q gets %q, want %q", tt[0], got, tt[1])
		}
	}
}

// TestBrokenLink: a link that leads nowhere stops the build.
func TestBrokenLink(t *testing.T) {
	s := &site{root: root, markdown: map[string]string{"docs/c.md": "docs/c.html"}, external: map[string][]string{}}
	p := &page{Path: "docs/x.html", Source: "docs/x.md"}
	s.convert(p, []byte("# T\n\n[good](c.md#threads) [out](https://example.com/)\n"))
	if s.errs != nil {
		t.Error(s.errs)
	}
	s.convert(p, []byte("# T\n\n[bad](no-such-page.md)\n"))
	s.convert(p, []byte("# T\n\n[bad](../../outside.md)\n"))
	if len(s.errs) != 2 {
		t.Error(s.errs)
	}
}

// TestOtherFilesStay: a directory that is no site is not deleted.
func TestOtherFilesStay(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := run(root, dir); err == nil {
		t.Error("it wrote over another directory")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestInBrowser reads the site from disk in Chromium: search, sorting, themes, a phone, the keyboard.
func TestInBrowser(t *testing.T) {
	for _, tool := range []string{"node", "chromium"} {
		testenv.Need(t, tool)
	}
	if _, err := os.Stat(filepath.Join(root, "web/report/node_modules/playwright-core")); err != nil {
		testenv.Missing(t, "web/report/node_modules is missing: run npm ci in web/report")
	}
	dir := filepath.Join(t.TempDir(), "site")
	if _, err := run(root, dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-concurrency=1", "site.test.mjs")
	cmd.Env = append(os.Environ(), "SITE="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
