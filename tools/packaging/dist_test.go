package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDist: the toolkit is built again if what it is made of has changed, or if a part is missing, and else not.
func TestDist(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "tools/packaging"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"capi/shim/", "capi/check/"} {
		write(dir+"a.c", "")
	}
	write("capi/include/acl/acl.h", "")
	write("python/build.sh", "#!/bin/sh\n")
	write("examples/c/copy.c", "")
	// A compiler and a go command that write the file after -o, and note that they did.
	const makes = `while [ $# -gt 0 ]; do if [ "$1" = -o ]; then echo made >"$2" && echo "$2" >>bin/log; fi; shift; done`
	write("bin/cc", "#!/bin/sh\n"+makes)
	write("bin/go", `#!/bin/sh
case "$*" in "env CC") echo bin/cc ;; "env GOARCH") echo arm64 ;; env*) ;; *) `+makes+"; esac")

	builds := 0
	for _, step := range []struct {
		name   string
		change func()
		env    string
		built  bool
	}{
		{"first", func() {}, "", true},
		{"again", func() {}, "", false},
		{"a source", func() { write("capi/shim/a.c", "int a;") }, "", true},
		{"a new source", func() { write("capi/shim/b.c", "") }, "", true},
		{"an example", func() { write("examples/c/copy.c", "int a;") }, "", false},
		{"a test", func() { write("capi/a_test.go", "") }, "", false},
		{"bytecode in the toolkit", func() { write("dist/python/__pycache__/a.pyc", "") }, "", false},
		{"a missing part", func() { os.Remove(filepath.Join(root, "dist/bin/ropeway")) }, "", true},
		{"a missing link", func() { os.Remove(filepath.Join(root, "dist/lib64/libruntime.so")) }, "", true},
		{"a setting", func() {}, "CFLAGS=-O0", true},
		{"the setting again", func() {}, "CFLAGS=-O0", false},
	} {
		step.change()
		cmd := exec.Command("tools/packaging/dist.sh", "dist")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GO="+filepath.Join(root, "bin/go"), "CFLAGS=-O2", step.env)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step.name, err, out)
		}
		log, err := os.ReadFile(filepath.Join(root, "bin/log"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(log), "\n"); (got > builds) != step.built {
			t.Errorf("%s: builds again: %v, want %v", step.name, got > builds, step.built)
		} else {
			builds = got
		}
		for _, name := range []string{"lib64/libascendcl.so", "lib64/libruntime.so", "aarch64-linux/lib64"} {
			if _, err := os.Stat(filepath.Join(root, "dist", name)); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(root, "dist/.new")); err == nil {
		t.Error("something is left")
	}
}
