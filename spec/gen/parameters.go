package main

import (
	"bytes"
	"fmt"
	"strings"

	"ropeway/spec/table"
)

// writeParameters writes, by number, what the parameters of each function are called and how their slots read.
func writeParameters(t *table.Table, _ string) ([]byte, error) {
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("//go:build cgo\n\npackage main\n\nimport \"ropeway/internal/abi\"\n\n")
	b.WriteString("// parameters are the parameters of the functions, by their numbers.\nvar parameters = [len(functionNames)][]parameter{\n")
	for _, f := range t.Functions {
		fmt.Fprintf(&b, "// %s\n{", f.Name)
		for i, p := range f.C.Params {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "{%q, %s}", p.Name, reading(t, n, p.Type))
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// reading is the function of package capi that makes a text of a slot.
func reading(t *table.Table, n *names, ty table.Type) string {
	kind, _ := t.KindOf(ty.Base)
	switch {
	case isPointer(t, ty), kind == table.StructType, kind == table.UnionType:
		return "asAddress"
	case kind == table.EnumType:
		return "asEnum[abi." + n.types[bare(ty.Base)] + "]"
	case ty.Base == "float":
		return "asFloat"
	case strings.HasPrefix(ty.Base, "u"), ty.Base == "size_t", ty.Base == "bool":
		return "asNumber"
	}
	return "asSigned"
}
