package main

import (
	"bytes"
	"fmt"
	"slices"
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
	b.WriteString("// parameters are the parameters of the functions, by their numbers.\nvar parameters = " +
		"[len(functionNames)][]parameter{\n")
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
	b.WriteString("}\n\n")
	err = writePyArguments(&b, t)
	return b.Bytes(), err
}

// writePyArguments writes, by number, what the Python form of each function takes, in the order of Python: the name,
// and the slot of C that has the value; -1 where C has it in memory, as a list or a text.
func writePyArguments(b *bytes.Buffer, t *table.Table) error {
	forms, err := pyForms(t)
	if err != nil {
		return err
	}
	b.WriteString("// pythonArguments are the arguments of the Python forms, by the number of the function.\n")
	b.WriteString("var pythonArguments = [len(functionNames)][]pythonArgument{\n")
	for _, f := range forms {
		fmt.Fprintf(b, "%d: {", slices.Index(t.Functions, f.fn))
		for i, p := range f.params {
			fmt.Fprintf(b, "{%q, %d}, ", p.name, f.slot(t, i))
		}
		fmt.Fprintf(b, "}, // %s\n", f.path())
	}
	b.WriteString("}\n")
	return nil
}

// slot is the C parameter whose slot holds the value of a parameter of Python, -1 if none does.
func (f *pyForm) slot(t *table.Table, param int) int {
	if !f.special {
		return slices.Index(f.args, param)
	}
	return slices.IndexFunc(f.C().Params, func(p table.Param) bool {
		return snake(p.Name) == f.params[param].name && scalar(t, p.Type) != "" && !slices.Contains(inMemory,
			f.params[param].typ)
	})
}

// inMemory are the types of Python that C gets the address of.
var inMemory = []string{"str", "optional str", "dict", "list", "list of dict", "bytes", "int or bytes", "callable",
	"callable or None", "object"}

// writePyNames writes what Python calls the C functions, for findings.
func writePyNames(t *table.Table, _ string) ([]byte, error) {
	forms, err := pyForms(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("package finding\n\n// pythonNames are the Python forms of the C functions.\nvar pythonNames = " +
		"map[string]string{\n")
	for _, f := range forms {
		fmt.Fprintf(&b, "%q: %q,\n", f.fn.Name, f.path())
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
