package main

import (
	"bytes"
	"fmt"

	"ropeway/spec/table"
)

const casesHead = `// Package conformance proves the rules of the API table against the core.
package conformance

import "ropeway/internal/abi"

// Case is one rule of a core function.
type Case struct {
	Func     string
	Rule     string
	If       string
	Code     abi.Code // one of them where errors are passed on; 0 is an early success, or the function returns none
	Quiet    bool     // not recorded as last error
	Products []string // that have the rule; nil is all, or none if it is Strict
	Strict   bool     // every product has it with ROPEWAY_STRICT=1
	Mark     string   // "", "shadowed", "needs" or "decided"
	MarkText string
	Group    string
}

// Function is one exported function.
type Function struct {
	Name     string
	Group    string
	Products []string // nil when the documents do not say
	Status   string   // "core" or "later"
}

`

func writeCases(t *table.Table, _ string) ([]byte, error) {
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(casesHead)
	b.WriteString("// Functions are all exported functions, in table order.\nvar Functions = []Function{\n")
	for _, f := range t.Functions {
		fmt.Fprintf(&b, "\t{%q, %q, %#v, %q},\n", f.Name, f.Group, f.Products, f.Status)
	}
	b.WriteString("}\n\n// Cases are the rules of every core function, in table order.\nvar Cases = []Case{\n")
	for _, f := range t.Functions {
		if f.Status != table.Core {
			continue
		}
		for i := range f.Rules {
			writeCase(&b, n, f, &f.Rules[i])
		}
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// code spells the code of a rule, which may be a raw value such as (aclError)0xFFFFFFFF.
func (n *names) code(r *table.Rule) string {
	if name := n.consts[r.Ret]; name != "" {
		return "abi." + name
	}
	return fmt.Sprintf("abi.Code(%d)", *r.Code)
}

func writeCase(b *bytes.Buffer, n *names, f *table.Function, r *table.Rule) {
	fmt.Fprintf(b, "\t{Func: %q, Rule: %q, If: %q", f.Name, r.Name, r.If)
	switch {
	case r.Code != nil:
		fmt.Fprintf(b, ", Code: %s", n.code(r))
	case r.SuchAs != nil:
		fmt.Fprintf(b, ", Code: %d", *r.SuchAs)
	}
	if r.Quiet {
		b.WriteString(", Quiet: true")
	}
	if r.Products != nil {
		fmt.Fprintf(b, ", Products: %#v", r.Products)
	}
	if r.Strict {
		b.WriteString(", Strict: true")
	}
	if r.Mark != nil {
		fmt.Fprintf(b, ", Mark: %q, MarkText: %q", r.Mark.Kind(), r.Mark.Text())
	}
	fmt.Fprintf(b, ", Group: %q},\n", f.Group)
}
