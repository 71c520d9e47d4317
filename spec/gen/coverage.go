package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ropeway/spec/coverage"
	"ropeway/spec/table"
)

func writeCoverage(t *table.Table, root string) ([]byte, error) {
	checked, err := coverage.ReadChecks(filepath.Join(root, "internal/core"))
	if err != nil {
		return nil, err
	}
	return coverage.Page(t, checked), nil
}

// numbers is the line of README.md before the one that the counts of docs/coverage.md make.
const numbers = "<!-- the next line is written by go run ./spec/gen -->\n"

func writeReadme(t *table.Table, root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return nil, err
	}
	before, after, found := strings.Cut(string(text), numbers)
	_, after, ends := strings.Cut(after, "\n")
	if !found || !ends {
		return nil, fmt.Errorf("there is no line after %q", numbers)
	}
	return []byte(before + numbers + coverage.Numbers(t) + "\n" + after), nil
}
