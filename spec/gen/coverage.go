package main

import (
	"path/filepath"

	"ropeway/spec/coverage"
	"ropeway/spec/table"
)

func writeCoverage(t *table.Table, root string) ([]byte, error) {
	p, err := coverage.Scan(filepath.Join(root, "internal/conformance"))
	if err != nil {
		return nil, err
	}
	return coverage.Page(t, p)
}
