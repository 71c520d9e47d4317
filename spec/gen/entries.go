package main

import (
	"bytes"
	"fmt"
	"strings"

	"ropeway/spec/table"
)

// writeEntries writes what the core does for each function number. How a slot becomes a parameter follows from the
// parameter's type in package core, which is read from its source.
func writeEntries(t *table.Table, root string) ([]byte, error) {
	built, err := coreMethods(root)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "// fingerprint is ROPEWAY_TABLE of the shim that goes with this core.\n"+
		"const fingerprint = 0x%08x\n\n", fingerprint(t))
	b.WriteString("// functionNames are the functions by their numbers.\nvar functionNames = [...]string{\n")
	for _, f := range t.Functions {
		fmt.Fprintf(&b, "%q,\n", f.Name)
	}
	b.WriteString("}\n\n// returnsCode reports which functions return an aclError.\nvar returnsCode = " +
		"[len(functionNames)]bool{\n")
	for i, f := range t.Functions {
		if f.ReturnsCode() {
			fmt.Fprintf(&b, "%d: true,\n", i)
		}
	}
	b.WriteString("}\n\n// functions carry calls out, by their numbers; nil where a function is not built yet.\n")
	b.WriteString("var functions = [len(functionNames)]func(*thread, *slots) uint64{\n")
	for i, f := range t.Functions {
		if f.Status == table.Core {
			fmt.Fprintf(&b, "%d: %s,\n", i, f.Name)
		}
	}
	b.WriteString("}\n")
	for _, f := range t.Functions {
		if f.Status != table.Core {
			continue
		}
		m, err := built.of(f)
		if err != nil {
			return nil, err
		}
		if err := writeEntry(&b, t, f, m); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return append([]byte("//go:build cgo\n\n"), withImports("main", b.String())...), nil
}

func writeEntry(b *bytes.Buffer, t *table.Table, f *table.Function, m *method) error {
	args, err := slotArguments(t, f, m)
	if err != nil {
		return err
	}
	slots := "a"
	if len(args) == 0 {
		slots = "_"
	}
	call := m.call("t.Thread", args)
	result, err := result(m.result, call, f.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\nfunc %s(t *thread, %s *slots) uint64 {\n%s\n}\n", f.Name, slots, result)
	return nil
}

// parameter spells slot i as a parameter of package core.
func parameter(typ string, i int) (string, error) {
	switch typ {
	case "uint64":
		return fmt.Sprintf("a[%d]", i), nil
	case "uint32", "int32", "int64", "uint16":
		return fmt.Sprintf("%s(a[%d])", typ, i), nil
	case "Addr":
		return fmt.Sprintf("core.Addr(a[%d])", i), nil
	case "Handle":
		return fmt.Sprintf("core.Handle(a[%d])", i), nil
	case "float32":
		return fmt.Sprintf("a.float(%d)", i), nil
	case "func(Addr)":
		return fmt.Sprintf("hostFunc(a[%d])", i), nil
	}
	if elem, ok := strings.CutPrefix(typ, "*"); ok {
		if strings.HasPrefix(elem, "*") {
			return "", fmt.Errorf("%s: a Go pointer must not be stored in C memory; make it *Addr", typ)
		}
		return fmt.Sprintf("pointer[%s](a[%d])", qualified(elem), i), nil
	}
	if name, ok := strings.CutPrefix(typ, "abi."); ok {
		return fmt.Sprintf("abi.%s(a[%d])", name, i), nil
	}
	if name, ok := strings.CutPrefix(typ, "Func["); ok {
		typ = strings.TrimSuffix(name, "]")
	}
	if strings.HasSuffix(typ, "Func") { // callbacks.go has one function for each
		return fmt.Sprintf("%s(a[%d])", lowerFirst(typ), i), nil
	}
	return "", fmt.Errorf("no way to make a %s of a slot", typ)
}

// structure spells slot i, which leads to a struct that the program passed by value. It is there for as long as the
// call is, so package core may take it by value or by its address.
func structure(typ string, i int) (string, error) {
	if strings.HasPrefix(typ, "*") {
		return parameter(typ, i)
	}
	a, err := parameter("*"+typ, i)
	return "*" + a, err
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// qualified spells a type of package core outside of it.
func qualified(typ string) string {
	switch typ {
	case "Addr", "Handle":
		return "core." + typ
	}
	return typ
}

// lasting are the functions whose text stays good for ever; other texts do until the thread's next one.
var lasting = map[string]bool{"aclrtGetSocName": true}

// result spells the result of a call as a slot.
func result(typ, call, api string) (string, error) {
	switch typ {
	case "*Error":
		return fmt.Sprintf("return uint64(t.Done(%s))", call), nil
	case "abi.Code", "uint16", "uint32", "uint64", "Addr", "Handle":
		return fmt.Sprintf("return uint64(%s)", call), nil
	case "float32":
		return fmt.Sprintf("return floatSlot(%s)", call), nil
	case "string":
		if lasting[api] {
			return fmt.Sprintf("return lastingText(%s)", call), nil
		}
		return fmt.Sprintf("return t.text(%s)", call), nil
	case "":
		return call + "\nreturn 0", nil
	}
	return "", fmt.Errorf("no way to return a %s", typ)
}
