package finding

import (
	"path/filepath"
	"strings"

	"ropeway/internal/readfile"
)

// Sources caches the source files that frames name. The zero value is empty.
type Sources struct{ files map[string][]string }

// line returns the line of a frame of the program itself, without indentation; "" if the file cannot be read. A
// relative file is below dir.
func (s *Sources) line(f Frame, dir string) string {
	if s == nil || f.Line <= 0 || !f.own() {
		return ""
	}
	name := f.File
	if !filepath.IsAbs(name) {
		if dir == "" {
			return ""
		}
		name = filepath.Join(dir, name)
	}
	lines, known := s.files[name]
	if !known {
		if text, err := readfile.Regular(name, readfile.Text); err == nil {
			lines = strings.Split(string(text), "\n")
		}
		if s.files == nil {
			s.files = map[string][]string{}
		}
		s.files[name] = lines
	}
	if f.Line > len(lines) {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSpace(lines[f.Line-1]), "\t", " ")
}

// own reports whether a frame is of the program, rather than of a library of the system or of Python.
func (f *Frame) own() bool {
	if f.File == "" || SystemLibrary(f.Module) {
		return false
	}
	for _, part := range [...]string{"/usr/include/", "/usr/lib/", "/include/c++/", "/lib/python3", "/site-packages/"} {
		if strings.Contains(f.File, part) {
			return false
		}
	}
	return true
}
