package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"ropeway/spec/table"
)

const supportHead = `package product

import "slices"

// Has reports whether the documents list function for p. The 310 is in none of the lists and counts as a 310P. A
// function that is in no product's documents at all counts as present: nothing says which product lacks it.
func (p *Product) Has(function string) bool {
	list, some := onlyOn[function]
	if !some {
		return true
	}
	name := p.Name
	if name == "310" {
		name = "310P"
	}
	return slices.Contains(list, name)
}

// Hookable reports whether name is a function of the API that programs may replace.
func Hookable(name string) bool {
	_, found := slices.BinarySearch(hookable, name)
	return found
}

// onlyOn are the functions that some product lacks, with the products that have them.
var onlyOn = map[string][]string{
`

// writeSupport writes which functions can be hooked, and the products of each function that some product lacks.
func writeSupport(t *table.Table, _ string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(supportHead)
	for _, f := range t.Functions {
		have := slices.DeleteFunc(slices.Clone(table.Products),
			func(p string) bool { return !slices.Contains(f.Products, p) })
		if len(have) == 0 || len(have) == len(table.Products) {
			continue
		}
		fmt.Fprintf(&b, "\t%q: {\"%s\"},\n", f.Name, strings.Join(have, `", "`))
	}
	b.WriteString("}\n\n// hookable are the names of the functions that programs may replace, sorted.\n" +
		"var hookable = []string{\n")
	for _, f := range slices.SortedFunc(slices.Values(t.Functions), byName) {
		if hookable(f) {
			fmt.Fprintf(&b, "\t%q,\n", f.Name)
		}
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

func byName(a, b *table.Function) int { return strings.Compare(a.Name, b.Name) }
