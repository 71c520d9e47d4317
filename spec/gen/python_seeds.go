package main

import (
	"bytes"
	"fmt"

	"ropeway/spec/table"
)

// writePySeeds writes which test each sentence of the seed documents has.
func writePySeeds(*table.Table, string) ([]byte, error) {
	documents, err := table.LoadSeeds()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(
		`"""The sentences of the documents that the project began with: document and number, and the test (spec/seeds.yaml)."""

SENTENCES = (
`)
	for _, d := range documents {
		for _, s := range d.Sentences {
			if s.Only == "" {
				fmt.Fprintf(&b, "    (\"%s/%02d\", %q),\n", d.ID, s.N, s.Test)
			}
		}
	}
	b.WriteString(")\n")
	return b.Bytes(), nil
}
