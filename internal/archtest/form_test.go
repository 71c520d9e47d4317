package archtest

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxColumns = 120 // of a line; a tab counts as 4
	maxLines   = 500 // of a file

	maxPackage = 6200 // lines of a package without tests and generated files
)

// notYet are packages whose files do not have this form yet. It only gets shorter: a package that has the form fails
// the test until its entry is deleted.
var notYet = map[string][]string{
	"columns": {},
	"lines":   {},
	"words":   {},
	"package": {},
}

// problem is a line that does not have the form.
type problem struct {
	rule string
	line int // 0 for the whole file
	text string
}

// words are those that comments, messages and pages do not use, with what to write. Code is not a person, and does not
// speak.
var words = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(?:tells|told|telling)\b`), "report, say, receive, distinguish"},
	{regexp.MustCompile(`\banswer(?:s|ed|ing)? \d{6}\b`), "return"},
	{regexp.MustCompile(`(?i)\b(?:giv(?:es?|en|ing)|gave) (?:[a-z]+ ){0,3}back\b`), "free, release, return"},
	{regexp.MustCompile(`(?:^|[.:;(] |, and )[Ww]ho [a-z]+s\b`), "the caller, the thread, a reader"},
	{regexp.MustCompile(`\b(?:for|to|of|by|from) who [a-z]+s\b`), "the caller, the thread, a reader"},
	{regexp.MustCompile(`\b(?:queued|ordered|submitted|recorded|comes|runs?) behind\b`), "after"},
	{regexp.MustCompile(`(?i)\bsomebody else\b|\bwho(?:m)?ever\b`), "another thread, the caller, a program"},
	{regexp.MustCompile(`\b[Hh]e (?:is|has|was|gets?|sleeps|waits|asks|writes|reads)\b`), "it"},
}

// form lists what is wrong with the form of a Go file.
func form(text []byte) (all []problem) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "x.go", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []problem{{"columns", 0, err.Error()}}
	}
	if ast.IsGenerated(f) {
		return nil
	}
	lines := strings.Split(string(text), "\n")
	if len(lines)-1 > maxLines {
		all = append(all, problem{"lines", 0, ""})
	}
	fixed := fixedLines(text)
	for i, line := range lines {
		columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
		if columns > maxColumns && !fixed[i+1] && !strings.HasPrefix(line, "//go:") {
			all = append(all, problem{"columns", i + 1, line})
		}
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			all = append(all, wording(c.Text, set.Position(c.Pos()).Line)...)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			all = append(all, wording(l.Value, set.Position(l.Pos()).Line)...)
		}
		return true
	})
	return all
}

// wording lists the words of a text that are not to be used. The text begins at a line of its file.
func wording(text string, first int) (all []problem) {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimLeft(line, "/*\"`# \t")
		for _, w := range words {
			if w.pattern.MatchString(line) {
				all = append(all, problem{"words", first + i, line + " (write: " + w.instead + ")"})
			}
		}
	}
	return all
}

// TestPages: what is not Go uses the same words: pages, C, Python and the scripts.
func TestPages(t *testing.T) {
	pages := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		base := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (base[0] == '.' || slices.Contains([]string{"bin", "dist", "node_modules",
			"archtest"}, base)):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".md", ".c", ".h", ".cpp", ".S", ".py", ".sh", ".yaml"},
			filepath.Ext(base)):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		pages++
		file, _ := filepath.Rel(root, name)
		for _, p := range wording(string(text), 1) {
			t.Errorf("%s:%d: %s", filepath.ToSlash(file), p.line, p.text)
		}
		return nil
	})
	if err != nil || pages < 100 {
		t.Errorf("%d files: %v", pages, err)
	}
}

// generated reports whether a file was written by a program.
func generated(text []byte) bool {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.PackageClauseOnly|parser.ParseComments)
	return err == nil && ast.IsGenerated(f)
}

// fixedLines are the lines with a raw string, which cannot be broken.
func fixedLines(text []byte) map[int]bool {
	set := token.NewFileSet()
	file := set.AddFile("x.go", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	fixed := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return fixed
		}
		if tok == token.STRING && lit[0] == '`' {
			first := set.Position(pos).Line
			for i := range strings.Count(lit, "\n") + 1 {
				fixed[first+i] = true
			}
		}
	}
}

// TestForm: lines, files and packages are short enough to be read, and comments and messages use the words of Go's own
// library.
func TestForm(t *testing.T) {
	missing := map[string]map[string]bool{} // entries of notYet that something still needs, by rule
	for rule := range notYet {
		missing[rule] = map[string]bool{}
	}
	sizes := map[string]int{} // lines of each package
	eachFile(t, func(file string) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Error(err)
			return
		}
		if !strings.HasSuffix(file, "_test.go") && !generated(text) {
			sizes[path.Dir(file)] += strings.Count(string(text), "\n")
		}
		for _, p := range form(text) {
			if p.rule == "words" && file == "internal/archtest/form_test.go" {
				continue // it has examples
			}
			under := func(dir string) bool { return strings.HasPrefix(file, dir+"/") }
			if i := slices.IndexFunc(notYet[p.rule], under); i >= 0 {
				missing[p.rule][notYet[p.rule][i]] = true
				continue
			}
			switch p.rule {
			case "columns":
				t.Errorf("%s:%d: more than %d columns: %s", file, p.line, maxColumns, p.text)
			case "lines":
				t.Errorf("%s has more than %d lines", file, maxLines)
			case "words":
				t.Errorf("%s:%d: %s", file, p.line, p.text)
			}
		}
	})
	for dir, n := range sizes {
		switch {
		case n <= maxPackage:
		case slices.Contains(notYet["package"], dir):
			missing["package"][dir] = true
		default:
			t.Errorf("package %s has %d lines, more than %d", dir, n, maxPackage)
		}
	}
	for rule, dirs := range notYet {
		for _, dir := range dirs {
			if !missing[rule][dir] {
				t.Errorf("all %s of %s have their form: delete the entry of notYet", rule, dir)
			}
		}
	}
}

// TestFormSees proves that each rule sees what it forbids, and passes over what it cannot judge.
func TestFormSees(t *testing.T) {
	long := strings.Repeat("x", maxColumns)
	for text, want := range map[string]string{
		"// " + long:                            "columns",
		"var a = `" + long + "`":                "",
		"var a = `a\n" + long + "\n`":           "",
		"//go:embed " + long:                    "",
		"var a = \"" + long + "\"":              "columns",
		strings.Repeat("var _ = 0\n", maxLines): "lines",
		"// f tells whether it is so.":          "words",
		"// f reports whether it is so.":        "",
		"// It is told once.":                   "words",
		"// It answers 207000 then.":            "words",
		"// The answer is 42.":                  "",
		"// Memory is given back.":              "words",
		"// Who waits gets it.":                 "words",
		"// It is freed: who waits goes on.":    "words",
		"// It stays with those who wait.":      "",
		"// the user who runs it":               "",
		"// for who reads it":                   "words",
		"// queued behind it":                   "words",
		"// the numbers behind the plots":       "",
		"// then he sleeps":                     "words",
		"// Whoever waits is woken.":            "words",
		"// It is somebody else's.":             "words",
		"var a = \"it is told\"":                "words",
		"var a = `one\nit is told`":             "words",
		"var told = 1":                          "",
	} {
		var got []string
		for _, p := range form([]byte("package x\n\n" + text + "\n")) {
			got = append(got, p.rule)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%.60q: %q, want %q", text, s, want)
		}
	}
	if p := form([]byte("// Code generated by x. DO NOT EDIT.\n\npackage x\n\n// " + long + "\n")); p != nil {
		t.Errorf("a generated file: %v", p)
	}
}
