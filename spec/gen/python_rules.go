package main

import (
	"bytes"
	"fmt"

	"ropeway/spec/table"
)

// pyRuleGroup is the group of the table whose every rule is proven through Python.
const pyRuleGroup = "memory-copy"

// writePyRules writes the rules of the copy family for the tests of the Python module, which have no YAML to read.
func writePyRules(t *table.Table, _ string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`"""The rules of the copy family: C function: ((condition, code, quiet, mark), ...), rule 1 first.

The code is None where the error is passed on from somewhere else. Quiet: it does not become the last error. The mark is
"", "shadowed", "needs" or "decided".
"""

RULES = {
`)
	for _, f := range t.Functions {
		if f.Group != pyRuleGroup || f.Form == nil || f.Status != table.Core {
			continue
		}
		fmt.Fprintf(&b, "    %q: (\n", f.Name)
		for _, r := range f.Rules {
			code := "None"
			if r.Code != nil {
				code = fmt.Sprint(*r.Code)
			}
			fmt.Fprintf(&b, "        (%+q, %s, %s, %q),\n", r.If, code, pyBool(r.Quiet), r.Mark.Kind())
		}
		b.WriteString("    ),\n")
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

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
