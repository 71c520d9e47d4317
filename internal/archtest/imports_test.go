package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

const root = "../.." // of the repository, seen from this package

// module is how the packages of the module begin.
var module = strings.TrimSuffix(reflect.TypeFor[crossing]().PkgPath(), "internal/archtest")

// allowed lists what may cross a border, by rule and file, with the reason. An entry that is no longer needed fails
// the test, so the list only ever holds what is true.
var allowed = map[crossing]string{}

// crossing is a file that breaks a rule.
type crossing struct{ rule, file string }

// source is what the rules look at in a Go file.
type source struct {
	file      string // slash separated, from the root
	imports   []string
	generated bool
}

func (s *source) test() bool            { return strings.HasSuffix(s.file, "_test.go") }
func (s *source) under(dir string) bool { return strings.HasPrefix(s.file, dir+"/") }

// forTests are packages that only tests import: they and the test files may use what the product may not.
var forTests = []string{"internal/testenv", "internal/core/coretest", "internal/driver/drivertest",
	"internal/driver/cuda/imitation", "internal/kernel/kerneltest", "internal/conformance", "internal/archtest",
	"internal/compat",
	"internal/randprog", "ropewaytest"}

// product reports whether the file is part of what users run: neither a test, nor for tests, nor a generator.
func (s *source) product() bool {
	return !s.test() && !s.under("spec") && !s.under("internal/memcopy/gen") && !s.under("web/site") &&
		!s.under("tools/packaging/release") && !slices.ContainsFunc(forTests, s.under)
}

// rules say when an import crosses a border.
var rules = []struct {
	name, why string
	broken    func(s *source, imported string) bool
}{
	{"cgo", "cgo lives in capi/ alone, so that everything else builds with CGO_ENABLED=0",
		func(s *source, i string) bool { return i == "C" && !s.under("capi") }},
	{"purego", "only internal/dl loads libraries",
		func(s *source, i string) bool {
			return in(i, "github.com/ebitengine/purego") && !s.under("internal/dl")
		}},
	{"spec", "the table is read by generators and tests; of the product only what explains it reads it at run time",
		func(s *source, i string) bool {
			return s.product() && !s.under("internal/explain") && (in(i, module+"spec") || strings.Contains(i, "yaml"))
		}},
	{"tests", "the product does not depend on what is there for tests",
		func(s *source, i string) bool {
			return s.product() && (in(i, "testing") || in(i, "pgregory.net/rapid") || in(i, "go.uber.org/goleak") ||
				slices.ContainsFunc(forTests, func(dir string) bool { return in(i, module+dir) }))
		}},
	{"core", "the core knows drivers through the interface; front ends choose and pass them in",
		func(s *source, i string) bool {
			return s.product() && s.under("internal/core") && strings.HasPrefix(i, module+"internal/driver/")
		}},
	{"watch", "the core does not know what watches it",
		func(s *source, i string) bool {
			return !s.test() && s.under("internal/core") && (in(i, module+"internal/check") ||
				in(i, module+"internal/finding"))
		}},
	{"observe", "the core and the drivers do not know what observes them, and programs carry no reports",
		func(s *source, i string) bool {
			watched := s.under("internal/core") || s.under("internal/driver") || s.under("internal/observe")
			shows := in(i, module+"internal/trace") || in(i, module+"internal/timeline") ||
				in(i, module+"internal/report")
			runs := watched || s.under("internal/recorder") || s.under("internal/setup") || s.under("internal/check") ||
				s.under("capi") || !strings.Contains(s.file, "/")
			return !s.test() && (watched && in(i, module+"internal/recorder") || runs && shows)
		}},
	{"driver", "a driver gets checked work and does not know what checked it",
		func(s *source, i string) bool { return s.under("internal/driver") && in(i, module+"internal/core") }},
	{"unsafe", "unsafe is confined to files named *_unsafe.go",
		func(s *source, i string) bool {
			return i == "unsafe" && !s.test() && !s.generated && !s.under("capi") &&
				!strings.HasSuffix(s.file, "_unsafe.go")
		}},
}

// in reports whether an imported path is a package or one below it.
func in(imported, pkg string) bool { return imported == pkg || strings.HasPrefix(imported, pkg+"/") }

// parse reads what the rules need; text may be nil, then the file is opened.
func parse(dir, file string, text []byte) (*source, error) {
	var from any // a nil []byte would be read as an empty file
	if text != nil {
		from = text
	}
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), from,
		parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	s := &source{file: file, generated: ast.IsGenerated(f)}
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		s.imports = append(s.imports, p)
	}
	return s, nil
}

func (s *source) broken() (names []string) {
	for _, r := range rules {
		if slices.ContainsFunc(s.imports, func(i string) bool { return r.broken(s, i) }) {
			names = append(names, r.name)
		}
	}
	return names
}

// eachFile calls f for every Go file, by its name from the root.
func eachFile(t *testing.T, f func(file string)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			// What the go command does not build either, and what is built here.
			if name != root && (base == "testdata" || base == "bin" || base == "dist" || base[0] == '.' ||
				base[0] == '_') {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(base) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err == nil {
			files++
			f(filepath.ToSlash(rel))
		}
		return err
	})
	testenv.OK(t, err)
	if files < 10 {
		t.Errorf("only %d Go files found under %s", files, root)
	}
}

func TestImports(t *testing.T) {
	why := map[string]string{}
	for _, r := range rules {
		why[r.name] = r.why
	}
	used := map[crossing]bool{}
	eachFile(t, func(file string) {
		s, err := parse(root, file, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for _, rule := range s.broken() {
			c := crossing{rule, s.file}
			if used[c] = true; allowed[c] == "" {
				t.Errorf("%s: rule %q: %s", s.file, rule, why[rule])
			}
		}
	})
	for c := range allowed {
		if !used[c] {
			t.Errorf("%v is allowed but no longer happens: delete the entry", c)
		}
	}
}

// TestRules proves that each rule sees what it forbids and nothing else.
func TestRules(t *testing.T) {
	const mark = "// Code generated by x. DO NOT EDIT.\n\n"
	for _, tt := range []struct{ file, before, imported, want string }{
		{"x.go", "", "C", "cgo"},
		{"x_test.go", "", "C", "cgo"},
		{"capi/x.go", "", "C", ""},
		{"capital/x.go", "", "C", "cgo"},
		{"internal/driver/cuda/x.go", "", "github.com/ebitengine/purego", "purego"},
		{"internal/dl/x.go", "", "github.com/ebitengine/purego", ""},
		{"internal/core/x.go", "", "ropeway/spec/table", "spec"},
		{"internal/core/x.go", "", "ropeway/specimen", ""},
		{"internal/core/x_test.go", "", "ropeway/spec/table", ""},
		{"spec/gen/x.go", "", "ropeway/spec/table", ""},
		{"internal/explain/x.go", "", "ropeway/spec/table", ""},
		{"spec/table/x.go", "", "go.yaml.in/yaml/v3", ""},
		{"internal/product/x.go", "", "go.yaml.in/yaml/v3", "spec"},
		{"cmd/ropeway/x.go", "", "gopkg.in/yaml.v3", "spec"},
		{"x.go", "", "testing", "tests"},
		{"x.go", "", "testing/fstest", "tests"},
		{"x_test.go", "", "testing", ""},
		{"internal/core/x.go", "", "pgregory.net/rapid", "tests"},
		{"internal/core/x.go", "", "ropeway/internal/testenv", "tests"},
		{"internal/driver/drivertest/x.go", "", "testing", ""},
		{"internal/core/x.go", "", "ropeway/internal/driver", ""},
		{"internal/core/x.go", "", "ropeway/internal/driver/soft", "core"},
		{"internal/core/x_test.go", "", "ropeway/internal/driver/soft", ""},
		{"cmd/ropeway/x.go", "", "ropeway/internal/driver/soft", ""},
		{"internal/driver/soft/x.go", "", "ropeway/internal/core", "driver"},
		{"internal/driver/x.go", "", "ropeway/internal/core", "driver"},
		{"internal/driver/soft/x_test.go", "", "ropeway/internal/core", "driver"},
		{"internal/driver/soft/x.go", "", "ropeway/internal/abi", ""},
		{"internal/core/x.go", "", "ropeway/internal/observe", ""},
		{"internal/core/x.go", "", "ropeway/internal/recorder", "observe"},
		{"internal/driver/soft/x.go", "", "ropeway/internal/recorder", "observe"},
		{"internal/setup/x.go", "", "ropeway/internal/recorder", ""},
		{"internal/setup/x.go", "", "ropeway/internal/timeline", "observe"},
		{"internal/recorder/x.go", "", "ropeway/internal/trace", "observe"},
		{"capi/x.go", "", "ropeway/internal/report", "observe"},
		{"capi/test/x_test.go", "", "ropeway/internal/trace", ""},
		{"x.go", "", "ropeway/internal/timeline/advice", "observe"},
		{"cmd/ropeway/x.go", "", "ropeway/internal/trace", ""},
		{"internal/arena/x.go", "", "unsafe", "unsafe"},
		{"internal/arena/x_unsafe.go", "", "unsafe", ""},
		{"internal/arena/x_test.go", "", "unsafe", ""},
		{"internal/abi/x.go", mark, "unsafe", ""},
		{"capi/x.go", "", "unsafe", ""},
	} {
		t.Run(tt.file+" imports "+tt.imported, func(t *testing.T) {
			s, err := parse("", tt.file, []byte(tt.before+"package x\n\nimport _ "+strconv.Quote(tt.imported)+"\n"))
			testenv.OK(t, err)
			if got := strings.Join(s.broken(), " "); got != tt.want {
				t.Errorf("breaks %q, want %q", got, tt.want)
			}
		})
	}
}

// The patterns are put together from pieces, so that this file does not match itself.
var forbidden = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"an absolute path of one machine",
		regexp.MustCompile(`(?:^|[^A-Za-z0-9_.~})-])/(?:ro` + `ot/|wo` + `rk/|ho` + `me/[A-Za-z0-9_.-])`)},
	{"the name of a registry host",
		regexp.MustCompile(`\b(?:registry[a-z0-9-]*\.(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|cn|internal|local)` +
			`|(?:docker|ghcr|quay|gcr)\.i` + `o|proxy\.golang\.or` + `g|(?:test\.)?pypi\.or` +
			`g|files\.pythonhosted\.or` + `g)\b`)},
}

// matches reports what forbidden things a line holds.
func matches(line []byte) (what []string) {
	for _, f := range forbidden {
		if f.pattern.Match(line) {
			what = append(what, f.what)
		}
	}
	return what
}

// TestContents looks through every file that is or would be committed.
func TestContents(t *testing.T) {
	testenv.Need(t, "git")
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("not a git checkout: which files belong to the repository is not known")
	}
	// The checkout may belong to another user than the one that runs the tests, as in a container.
	dir, err := filepath.Abs(root)
	testenv.OK(t, err)
	cmd := exec.Command("git", "-c", "safe.directory="+dir, "ls-files", "-z", "--cached", "--others",
		"--exclude-standard")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	testenv.OK(t, err)
	names := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	if len(names) < 10 {
		t.Fatalf("git knows of %d files only", len(names))
	}
	for _, name := range names {
		full := filepath.Join(root, name)
		if info, err := os.Lstat(full); err != nil || !info.Mode().IsRegular() {
			continue // deleted but not yet committed, or a link
		}
		text, err := os.ReadFile(full)
		if err != nil {
			t.Error(err)
			continue
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			for _, what := range matches(line) {
				t.Errorf("%s:%d: %s: %.120q", name, i+1, what, line)
			}
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		line string
		want int
	}{
		{"cd /ro" + "ot/x", 1},
		{"/wo" + "rk/x", 1},
		{`"/ho` + `me/someone/x"`, 1},
		{"file:///wo" + "rk/x", 1},
		{"internal/wo" + "rk/x", 0},
		{"https://example.com/ho" + "me/page", 0},
		{"~/wo" + "rk/", 0},
		{"$(ROOT)/ro" + "ot/", 0},
		{"the /ho" + "me/ folder", 0},
		{"FROM docker.i" + "o/library/debian", 1},
		{"FROM registry.example" + ".com/debian", 1},
		{"https://proxy.golang.or" + "g", 1},
		{"registry.go and registry.mu.Lock()", 0},
	} {
		if got := matches([]byte(tt.line)); len(got) != tt.want {
			t.Errorf("%q: %q, want %d", tt.line, got, tt.want)
		}
	}
}

// TestReadme keeps the two commands a newcomer needs in the README.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	testenv.OK(t, err)
	for _, command := range []string{"make demo", "make test"} {
		if !bytes.Contains(text, []byte(command)) {
			t.Errorf("README.md does not name %q", command)
		}
	}
}
