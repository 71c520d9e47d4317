package finding

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestSourceLines proves that a frame of the program is followed by its source line, and other frames are not.
func TestSourceLines(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("é", 200)
	text := "int main(void)\n{\n\t\tcopy(dst,\tsrc);\n\n" + long + "\n}\x1b[2J"
	for _, name := range []string{"app.c", "lib/python3.11/threading.py"} {
		file := filepath.Join(dir, name)
		testenv.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testenv.OK(t, os.WriteFile(file, []byte(text), 0o644))
	}
	app := filepath.Join(dir, "app.c")
	for _, tt := range []struct {
		name, dir string
		frame     Frame
		want      string // after the frame; "": nothing
	}{
		{"the program", "", Frame{File: app, Line: 3}, "       | copy(dst, src);\n"},
		{"a relative file", dir, Frame{File: "app.c", Line: 3}, "       | copy(dst, src);\n"},
		{"below an unknown directory", "", Frame{File: "app.c", Line: 3}, ""},
		{"a long line", "", Frame{File: app, Line: 5}, "       | " + long[:2*99] + "…\n"},
		{"what a terminal obeys", "", Frame{File: app, Line: 6}, "       | }?[2J\n"},
		{"an empty line", "", Frame{File: app, Line: 4}, ""},
		{"past the end", "", Frame{File: app, Line: 7}, ""},
		{"no line", "", Frame{File: app}, ""},
		{"the C library", "", Frame{File: app, Line: 3, Module: "/lib/libc.so.6"}, ""},
		{"Python's own", "", Frame{File: filepath.Join(dir, "lib/python3.11/threading.py"), Line: 3}, ""},
		{"no such file", "", Frame{File: "/nowhere/app.c", Line: 3}, ""},
		{"no regular file", "", Frame{File: "/dev/zero", Line: 3}, ""},
	} {
		l := Layout{Dir: tt.dir, Sources: &Sources{}}
		for range 2 { // first from the file, then from the cache
			text := l.Text(&Finding{Rule: "leak", Offence: Site{Stack: []Frame{tt.frame}}})
			_, after, _ := strings.Cut(text, "#0")
			_, after, _ = strings.Cut(after, "\n")
			if line := strings.TrimSuffix(after, "  seed 0\n"); line != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, line, tt.want)
			}
		}
	}
	text = Layout{}.Text(&Finding{Rule: "leak", Offence: Site{Stack: []Frame{{File: app, Line: 3}}}})
	if strings.Contains(text, "copy") {
		t.Errorf("without sources: %s", text)
	}
}
