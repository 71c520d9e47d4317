package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestFile: what names a package changes, what is only called the same stays.
func TestFile(t *testing.T) {
	c := newChanger("ropeway", "example.com/r", []string{".", "check", "internal/core", "internal/driver/soft"})
	for _, tt := range []struct{ name, text, want string }{
		{"x.go", "package x\n\nimport \"ropeway\"\n", "package x\n\nimport \"example.com/r\"\n"},
		{"x.go", "package x\n\nimport (\n\t_ \"ropeway/anything\"\n)\n",
			"package x\n\nimport (\n\t_ \"example.com/r/anything\"\n)\n"},
		{"x.go", "package x\n\nimport (\n\t\"zoo\"\n\n\t\"golang.org/x\"\n\t\"ropeway\"\n)\n",
			"package x\n\nimport (\n\t\"zoo\"\n\n\t\"example.com/r\"\n\t\"golang.org/x\"\n)\n"},
		{"x.go", "package x\n\nconst a, b = \"ropeway\", \"ropeway/internal/core\"\n",
			"package x\n\nconst a, b = \"ropeway\", \"example.com/r/internal/core\"\n"},
		{"x.go", "package x\n\nconst a = \"import \\\"ropeway/internal/core\\\"\"\n",
			"package x\n\nconst a = \"import \\\"example.com/r/internal/core\\\"\"\n"},
		{"x.md", "`ropeway/check`, ropeway/internal/core.New, cmd/ropeway/check",
			"`example.com/r/check`, example.com/r/internal/core.New, cmd/ropeway/check"},
		{"x.md", "#include \"ropeway/check.h\" ropeway/checks $HOME/ropeway/check",
			"#include \"ropeway/check.h\" ropeway/checks $HOME/ropeway/check"},
		{"x.md", "\t\"ropeway\"\nimport \"ropeway\"\nrequire ropeway v0.0.0\nreplace ropeway => ../ropeway\ngo mod " +
			"edit -replace=ropeway=../ropeway -require=ropeway@v0.0.0",
			"\t\"example.com/r\"\nimport \"example.com/r\"\nrequire example.com/r v0.0.0\nreplace example.com/r => " +
				"../ropeway\ngo mod edit -replace=example.com/r=../ropeway -require=example.com/r@v0.0.0"},
		{"x.md", "ropeway check runs \"ropeway\" programs", "ropeway check runs \"ropeway\" programs"},
		{"go.mod", "module ropeway\n\nrequire ropeway/x v1\n", "module example.com/r\n\nrequire ropeway/x v1\n"},
		{"go.mod", "module ropeway/web/site\n\nrequire (\n\tropeway v0.0.0\n)\n\nreplace ropeway => ../..\n",
			"module example.com/r/web/site\n\nrequire (\n\texample.com/r v0.0.0\n)\n\n" +
				"replace example.com/r => ../..\n"},
		{"go.mod", "module ropeway/internal/memcopy/gen\n", "module example.com/r/internal/memcopy/gen\n"},
		{"Makefile", "go build ropeway/internal/driver/soft ropeway/check\n",
			"go build example.com/r/internal/driver/soft example.com/r/check\n"},
	} {
		got, err := c.file(tt.name, []byte(tt.text))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %q\ngives %q, %v\nwant  %q", tt.name, tt.text, got, err, tt.want)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, to := range []string{"", "a b", "/x", "x/", "a//b", "https://example.com/x"} {
		if n, err := change(t.TempDir(), to); err == nil || n != 0 {
			t.Errorf("%q is taken", to)
		}
	}
}

// TestTree: a copy of this tree with another path builds, and nothing in it imports the old one.
func TestTree(t *testing.T) {
	const to = "example.com/somewhere/ropeway"
	dir := t.TempDir()
	duplicate(t, "../..", dir)
	n, err := change(dir, to)
	if err != nil || n < 100 {
		t.Fatalf("%d files changed, %v", n, err)
	}
	command := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	for p := range strings.FieldsSeq(command("list", "-test", "-deps", "./...")) {
		if p == "ropeway" || strings.HasPrefix(p, "ropeway/") {
			t.Errorf("%s is imported", p)
		}
	}
	command("build", ".")
	if testing.Short() {
		return
	}
	// names in stacks, in messages
	command("test", "-count=1", "-run", "^(TestCheck|TestNotLinked|TestPublic)$", ".", "./internal/setup",
		"./internal/archtest")
	command("run", "./spec/gen")
	command("build", "./...") // what is generated has the new path, too
	if again, err := change(dir, to); err != nil || again != 0 {
		t.Errorf("a second time %d files change, %v", again, err)
	}
}

// duplicate copies a tree, without what is built.
func duplicate(t *testing.T, from, to string) {
	t.Helper()
	testenv.Need(t, "go")
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && slices.Contains(left, d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o777)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
}
