package main

import (
	"os"
	"path/filepath"
	"strings"
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

// TestReadmeShowsThisProgram: the README's example is this program, to the letter.
func TestReadmeShowsThisProgram(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func run(ctx context.Context) error {\n")
	body = strings.TrimSuffix(body, "}\n")
	shown := strings.ReplaceAll(body, "\n\t", "\n")
	if !strings.Contains(string(readme), "```go\n"+strings.TrimPrefix(shown, "\t")) {
		t.Error("README.md does not show the body of run; copy it there, one tab less")
	}
}
