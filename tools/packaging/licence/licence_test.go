package licence

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ropeway/internal/testenv"
)

// TestIdentify: licences are distinguished, two in one file are both named, a grant counts, and a licence that is
// not known is an error.
func TestIdentify(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"Apache License\n   Version 2.0", "Apache-2.0"},
		{"Permission is hereby granted, free\nof charge", "MIT"},
		{"Redistributions in binary form must reproduce … Neither the name of X", "BSD-3-Clause"},
		{"Redistributions in binary form must reproduce", "BSD-2-Clause"},
		{"Permission to use, copy, modify, and/or distribute this software", "ISC"},
		{"Permission is hereby granted, free of charge … Licensed under the Apache License, Version 2.0",
			"Apache-2.0 AND MIT"},
		{"Do what you want", ""},
	} {
		got, err := Identify([]File{{"LICENSE", tt.text}})
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %q, %v; want %q", tt.text, got, err, tt.want)
		}
	}
}

// TestFiles: a module's licence is found whatever the file is called, and its absence is an error.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Files(dir); err == nil {
		t.Error("a module without a licence is accepted")
	}
	for _, name := range []string{"COPYING", "LICENCE.md", "NOTICE", "license.go", "README"} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	files, err := Files(dir)
	if want := []File{{"COPYING", "COPYING"}, {"LICENCE.md", "LICENCE.md"}, {"NOTICE", "NOTICE"}}; err != nil ||
		!slices.Equal(files, want) {
		t.Errorf("%v, %v; want %v", files, err, want)
	}
}

// TestScripts: what is for building, or optional, is not in the page.
func TestScripts(t *testing.T) {
	got, err := Scripts([]byte(`{"packages": {"": {}, "node_modules/b": {"version": "2", "license": "ISC"},
		"node_modules/a": {"version": "1", "license": "MIT"}, "node_modules/c": {"dev": true},
		"node_modules/d": {"optional": true}}}`))
	if want := []Script{{"a", "1", "MIT"}, {"b", "2", "ISC"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}
