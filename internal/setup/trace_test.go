package setup

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestTrace: ROPEWAY_TRACE makes a file for the process; where it cannot, that is said and the program runs.
func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testenv.OK(t, os.WriteFile(file, nil, 0o666))
	for _, tt := range []struct {
		dir   string
		files int
		says  string
	}{
		{"", 0, ""},
		{filepath.Join(t.TempDir(), "made"), 1, ""},
		{filepath.Join(file, "below"), 0, "ROPEWAY_TRACE: nothing is recorded"},
	} {
		s, err := Read(environment("ROPEWAY_TRACE="+tt.dir, "ROPEWAY_DEVICE_MEMORY=64M", "ROPEWAY_DEVICES=1"))
		testenv.OK(t, err)
		var warn bytes.Buffer
		rt, err := s.Open(&warn)
		testenv.OK(t, err)
		if (rt.Tracer() != nil) != (tt.files > 0) {
			t.Errorf("%q: traced by %v", tt.dir, rt.Tracer())
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
		if files, _ := filepath.Glob(filepath.Join(tt.dir, "*.ropeway")); tt.dir != "" && len(files) != tt.files {
			t.Errorf("%q: files %v", tt.dir, files)
		}
		if text := warn.String(); !strings.Contains(text, tt.says) || tt.says == "" && text != "" {
			t.Errorf("%q: said %q", tt.dir, text)
		}
	}
}
