package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestGoPage follows docs/go.md: a module of its own uses this one by replace, by vendor and by a workspace,
// and tests with ropewaytest. What the module needs is there, because it was built; but a workspace also reads the
// go.mod files of modules that only other systems need, so they are fetched where they are missing.
func TestGoPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "go.md"))
	testenv.OK(t, err)
	above, err := filepath.Abs(root)
	testenv.OK(t, err)
	work := t.TempDir()
	clone := filepath.Join(work, "clone")
	testenv.OK(t, os.Symlink(above, clone))
	environment := []string{"WORK=" + work, "HOME=" + os.Getenv("HOME"), "GOSUMDB=off", "GOFLAGS=", "GOWORK="}
	runPage(t, clone, work, read("docs/go.md", string(text)).steps(), environment...)

	// Of what this repository requires, the importer's go.mod gets x/sys for copies, and two more for the checker,
	// which its test has.
	mine := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = filepath.Join(work, "mine"), append(os.Environ(), environment...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %v: %v", args, err)
		}
		return string(out)
	}
	for pkg, want := range map[string]string{
		".": "example.com/mine golang.org/x/sys ropeway",
		"ropeway/ropewaytest": "github.com/ianlancetaylor/demangle github.com/tidwall/btree golang.org/x/arch " +
			"golang.org/x/sys ropeway",
	} {
		paths := strings.Fields(mine("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", pkg))
		slices.Sort(paths)
		if got := strings.Join(slices.Compact(paths), " "); got != want {
			t.Errorf("%s needs the modules %s, want %s", pkg, got, want)
		}
	}
	if text, err = os.ReadFile(filepath.Join(work, "mine", "go.mod")); err != nil || strings.Count(string(text),
		"// indirect") != 4 {
		t.Errorf("go.mod, %v: %s", err, text)
	}

	mine("mod", "vendor")
	testenv.OK(t, os.Remove(clone))
	mine("build", "-o", os.DevNull, ".") // without the clone
}
