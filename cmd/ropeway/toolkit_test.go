package main

import (
	"path/filepath"
	"testing"
)

// TestDocs: reports link to the documentation that ROPEWAY_DOCS names, or else to that of the toolkit, if it has one.
func TestDocs(t *testing.T) {
	with, without := t.TempDir(), t.TempDir()
	write(t, filepath.Join(with, "share/doc/ropeway/html/index.html"), "", 0o644)
	for _, tt := range []struct{ given, root, want string }{
		{"", "", ""},
		{"", without, ""},
		{"", with, "file://" + with + "/share/doc/ropeway/html/"},
		{"https://example.com/docs", with, "https://example.com/docs/"},
		{"https://example.com/docs/", "", "https://example.com/docs/"},
	} {
		if got := docsAt(tt.given, tt.root); got != tt.want {
			t.Errorf("%q in %q: %q, want %q", tt.given, tt.root, got, tt.want)
		}
	}
}
