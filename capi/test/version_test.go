package capitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/internal/version"
)

// TestVersions: the tools that read a toolkit get the version of ropeway from it, the same from each.
func TestVersions(t *testing.T) {
	t.Parallel()
	kit := toolkit(t)
	want := func(tool, got string) {
		t.Helper()
		if got = strings.TrimSpace(got); got != version.Ropeway {
			t.Errorf("%s: %q, want %s", tool, got, version.Ropeway)
		}
	}
	want("ropeway --version", strings.TrimPrefix(passes(t, nil, kit+"/bin/ropeway", "--version"), "ropeway "))
	want("ROPEWAY_VERSION", strings.Trim(lastLine(passes(t, nil, "sh", "-euc",
		`printf '#include <ropeway/version.h>\nROPEWAY_VERSION\n' | gcc -E -P -I"$1" -`, "sh", kit+"/include")), `"`))

	testenv.Need(t, "pkg-config")
	env := []string{"PKG_CONFIG_PATH=" + kit + "/lib64/pkgconfig"}
	want("pkg-config", passes(t, env, "pkg-config", "--modversion", "ropeway"))
	if got := passes(t, env, "pkg-config", "--libs", "ropeway"); !strings.Contains(got, "-lascendcl") {
		t.Errorf("pkg-config --libs ropeway: %s", got)
	}

	testenv.Need(t, "cmake")
	dir := t.TempDir()
	script := "cmake_minimum_required(VERSION 3.16)\nproject(x NONE)\nfind_package(AscendCL REQUIRED)\n" +
		"file(WRITE ${CMAKE_BINARY_DIR}/said \"${AscendCL_ROPEWAY_VERSION}\")\n"
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "CMakeLists.txt"), []byte(script), 0o644))
	command(t, dir, []string{"CMAKE_PREFIX_PATH=" + kit}, "cmake", "-S", ".", "-B", "build")
	said, err := os.ReadFile(filepath.Join(dir, "build", "said"))
	testenv.OK(t, err)
	want("CMake", string(said))

	testenv.Need(t, "python3")
	out := t.TempDir()
	wheel := passes(t, nil, "python3", root+"/python/backend.py", "wheel", "--toolkit", kit, "--out", out)
	env = []string{"PYTHONPATH=" + kit + "/python/site-packages", "PYTHONDONTWRITEBYTECODE=1"}
	want("acl.__version__", passes(t, env, "python3", "-c", "import acl; print(acl.__version__)"))
	want("the wheel", strings.Split(filepath.Base(wheel), "-")[1])
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
