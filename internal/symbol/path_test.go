package symbol

import (
	"os"
	"path/filepath"
	"testing"

	"ropeway/internal/testenv"
)

// TestPathOfOtherFolder: a file that was compiled by a relative name, from a build folder, has its whole name, in every
// version of the debug information. A tool that reads a report elsewhere cannot know where the compiler ran.
func TestPathOfOtherFolder(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"src", "build"} {
		testenv.OK(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	source := filepath.Join(root, "src", "x.c")
	testenv.OK(t, os.WriteFile(source, []byte("int twice(int n)\n{\n\treturn 2 * n;\n}\n"), 0o644))
	for _, flag := range []string{"-gdwarf-4", "-gdwarf-5"} {
		out := filepath.Join(root, "build", "libx"+flag+".so")
		do(t, filepath.Join(root, "build"), "gcc", flag, "-shared", "-fPIC", "-o", out, "../src/x.c")
		offset, _ := find(t, out, "twice")
		frames := pretend(t, out).At(uintptr(base + offset))
		if len(frames) != 1 || frames[0].File != source || frames[0].Function != "twice" {
			t.Errorf("%s: %+v, want twice in %s", flag, frames, source)
		}
	}
}

// TestPlaceInModule: code without any symbols still has a place in its file.
func TestPlaceInModule(t *testing.T) {
	path := build(t, "small.c", "-g")
	offset, _ := find(t, path, "entry")
	do(t, ".", "strip", path)
	f := pretend(t, path).At(uintptr(base + offset + 4))[0]
	if f.Inside != offset+4 || f.Module != filepath.Base(path) {
		t.Errorf("%+v, want a place at %#x in %s", f, offset+4, filepath.Base(path))
	}
}
