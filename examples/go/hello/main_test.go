package main

import (
	"os"
	"strings"
	"testing"
)

// Example runs the program.
func Example() {
	main()
	// Output: over the summit!
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
