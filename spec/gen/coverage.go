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
	if err := p.ScanChecks(filepath.Join(root, "internal/core")); err != nil {
		return nil, err
	}
	for _, f := range t.Functions {
		if f.Status != table.Core {
			continue
		}
		for _, r := range breakable(f) { // by rule_cases_test.go
			p.Prove(f.Name, r.number)
		}
	}
	return coverage.Page(t, p)
}
