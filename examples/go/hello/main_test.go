package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Example runs the program.
func Example() {
	main()
	// Output: over the summit!
}

// TestChecked: the program makes no mistake that the checker finds, which would be printed to standard error.
func TestChecked(t *testing.T) {
	t.Setenv("ROPEWAY_CHECK", "1")
	errors, err := os.Create(filepath.Join(t.TempDir(), "errors"))
	if err != nil {
		t.Fatal(err)
	}
	defer errors.Close()
	defer func(was *os.File) { os.Stderr = was }(os.Stderr)
	os.Stderr = errors
	if err := run(t.Context()); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(errors.Name()); err != nil || len(text) > 0 {
		t.Errorf("%s%v", text, err)
	}
}
