package readfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/testenv"
)

// TestLimits: no more is read than the limit, also of a device without end, and a pipe that nobody writes is not waited
// for.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	name, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	testenv.OK(t, os.WriteFile(name, []byte("0123456789"), 0o600))
	testenv.OK(t, syscall.Mkfifo(pipe, 0o600))
	for _, c := range []struct {
		what  string
		read  func(string, int64) ([]byte, error)
		path  string
		limit int64
		want  string // part of the error; "": none
	}{
		{"exactly", Regular, name, 10, ""},
		{"exactly", Bounded, name, 10, ""},
		{"longer", Regular, name, 9, "has more than 9 bytes"},
		{"longer", Bounded, name, 9, "has more than 9 bytes"},
		{"endless", Regular, "/dev/zero", 1 << 20, "is not a regular file"},
		{"endless", Bounded, "/dev/zero", 1 << 20, "has more than 1048576 bytes"},
		{"empty device", Bounded, "/dev/null", 1, ""},
		{"pipe", Regular, pipe, 10, "is not a regular file"},
		{"folder", Regular, dir, 10, "is not a regular file"},
		{"missing", Regular, name + "s", 10, "no such file"},
	} {
		b, err := c.read(c.path, c.limit)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
		if err == nil && c.path == name && string(b) != "0123456789" {
			t.Errorf("%s: %q", c.what, b)
		}
	}
}
