package main

import (
	"bytes"
	"fmt"

	"ropeway/spec/table"
)

func writeEnums(t *table.Table, _ string) ([]byte, error) {
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("package abi\n\nimport \"strconv\"\n\n")
	for _, e := range t.Types.Enums {
		writeEnum(&b, n, e)
	}
	b.WriteString("// Macros of the C headers.\nconst (\n")
	for _, d := range t.Types.Defines {
		if d.Value != nil {
			fmt.Fprintf(&b, "\t%s = %#x // %s\n", n.consts[d.Name], *d.Value, d.Name)
		}
	}
	b.WriteString(")\n")
	return b.Bytes(), nil
}

func writeEnum(b *bytes.Buffer, n *names, e table.Enum) {
	name := n.types[bare(e.Name)]
	fmt.Fprintf(b, "// %s is the C enum %s.\ntype %s int32\n\nconst (\n", name, bare(e.Name), name)
	for _, m := range e.Members {
		fmt.Fprintf(b, "\t%s %s = %d // %s", n.consts[m.Name], name, m.Value, m.Name)
		if m.Deprecated {
			b.WriteString(", deprecated")
		}
		b.WriteString("\n")
	}
	b.WriteString(")\n\n")
	fmt.Fprintf(b, "// String returns the C name, or %s(n) for a value without one.\n", bare(e.Name))
	fmt.Fprintf(b, "func (v %s) String() string {\n\tswitch v {\n", name)
	for _, m := range e.Members {
		if preferred(e, m) {
			fmt.Fprintf(b, "\tcase %s:\n\t\treturn %q\n", n.consts[m.Name], m.Name)
		}
	}
	fmt.Fprintf(b, "\t}\n\treturn \"%s(\" + strconv.Itoa(int(v)) + \")\"\n}\n\n", bare(e.Name))
}

// preferred reports whether m is the name printed for its value: the last one
// that is not deprecated, since the headers add a correction after the mistake.
func preferred(e table.Enum, m table.Member) bool {
	best := m
	for _, o := range e.Members {
		if o.Value == m.Value && !o.Deprecated {
			best = o
		}
	}
	return best.Name == m.Name
}
