package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"ropeway/spec/table"
)

// fingerprint distinguishes tables: a shim and a core that differ in it number the functions differently.
func fingerprint(t *table.Table) uint32 {
	h := sha256.New()
	for _, f := range t.Functions {
		fmt.Fprintln(h, f.Status, f.Proto)
	}
	return binary.BigEndian.Uint32(h.Sum(nil))
}

// writeShimNumbers writes the numbers by which shim and core name functions.
func writeShimNumbers(t *table.Table, _ string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`#ifndef ROPEWAY_NUMBERS_H
#define ROPEWAY_NUMBERS_H

/* Distinguishes tables that number the functions differently. */
`)
	fmt.Fprintf(&b, "#define ROPEWAY_TABLE 0x%08xu\n\n/* One number for each function of the API. */\nenum {\n",
		fingerprint(t))
	for _, f := range t.Functions {
		fmt.Fprintf(&b, "\tROPEWAY_%s,\n", f.Name)
	}
	b.WriteString("\tROPEWAY_FUNCTIONS\n};\n\n#endif\n")
	return b.Bytes(), nil
}

// writeShimNames writes, by number, the names of the functions and whether they return an aclError.
func writeShimNames(t *table.Table, _ string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("#include \"shim.h\"\n\nconst struct ropeway_name ropeway_names[ROPEWAY_FUNCTIONS] = {\n")
	for _, f := range t.Functions {
		code := 0
		if f.ReturnsCode() {
			code = 1
		}
		fmt.Fprintf(&b, "\t{\"%s\", %d},\n", f.Name, code)
	}
	b.WriteString("};\n")
	return b.Bytes(), nil
}

// writeShimFunctions writes every exported function and, for those that can be hooked, the original behind it: its
// arguments become numbers, the core does the rest.
func writeShimFunctions(t *table.Table, _ string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("#include \"shim.h\"\n\n")
	for _, h := range functionHeaders(t) {
		fmt.Fprintf(&b, "#include \"%s\"\n", table.Included(h))
	}
	for _, f := range t.Functions {
		if f.C.Variadic {
			continue // written by hand in shim.c
		}
		if err := shimFunction(&b, t, f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	b.WriteString("\nconst aclrtApiFunc ropeway_originals[ROPEWAY_FUNCTIONS] = {\n")
	for _, f := range t.Functions {
		if hookable(f) {
			fmt.Fprintf(&b, "\t[ROPEWAY_%s] = (aclrtApiFunc)(void (*)(void))original_%s,\n", f.Name, f.Name)
		}
	}
	b.WriteString("};\n")
	return b.Bytes(), nil
}

// injection begins the names of the functions that set hooks and return them. hooks.c has their exported forms.
const injection = "aclrtApiInjection"

// hookable reports whether programs may put a function of theirs in place of f.
func hookable(f *table.Function) bool {
	return (strings.HasPrefix(f.Name, "aclrt") || strings.HasPrefix(f.Name, "aclmdlRI")) &&
		!strings.HasPrefix(f.Name, injection)
}

// functionHeaders are the headers that declare functions, in the order of the table.
func functionHeaders(t *table.Table) []string {
	var hs []string
	for _, f := range t.Functions {
		if !slices.Contains(hs, f.Header) {
			hs = append(hs, f.Header)
		}
	}
	return hs
}

// setup are the calls with which a program begins.
var setup = map[string]bool{"aclInit": true, "aclrtSetDevice": true, "rtSetDevice": true}

func shimFunction(b *bytes.Buffer, t *table.Table, f *table.Function) error {
	proto := strings.TrimSuffix(strings.TrimSpace(f.Proto), ";")
	if len(f.C.Params) == 0 {
		proto = proto[:strings.Index(proto, "(")] + "(void)"
	}
	linkage := "EXPORT "
	if f.Weak {
		linkage += "WEAK "
	}
	named := func(prefix string) string { return strings.Replace(proto, f.Name+"(", prefix+f.Name+"(", 1) }
	switch {
	case hookable(f):
		fmt.Fprintf(b, "\nINLINE %s\n{\n", named("do_"))
	case strings.HasPrefix(f.Name, injection):
		fmt.Fprintf(b, "\n%s\n{\n", named("refuse_"))
	default:
		fmt.Fprintf(b, "\n%s%s\n{\n", linkage, proto)
	}
	slots := "NULL"
	if len(f.C.Params) > 0 {
		var args []string
		for _, p := range f.C.Params {
			a, err := toSlot(t, p)
			if err != nil {
				return err
			}
			args = append(args, a)
		}
		fmt.Fprintf(b, "\tuint64_t a[] = {%s};\n", strings.Join(args, ", "))
		slots = "a"
	}
	call := "call"
	if setup[f.Name] {
		call = "call_setup"
	}
	ret, err := fromSlot(t, f.C.Return, fmt.Sprintf("%s(ROPEWAY_%s, %s)", call, f.Name, slots))
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\t%s;\n}\n", ret)
	if hookable(f) {
		args := make([]string, len(f.C.Params))
		for i, p := range f.C.Params {
			args[i] = p.Name
		}
		fmt.Fprintf(b, "\nstatic %s\n{\n\treturn do_%s(%s);\n}\n", named("original_"), f.Name, strings.Join(args, ", "))
		fmt.Fprintf(b, "\n%s%s\n{\n\tHOOKABLE(%s);\n}\n", linkage, proto,
			strings.Join(append([]string{f.Name}, args...), ", "))
	}
	return nil
}

// isPointer reports whether a C type is an address in a register.
func isPointer(t *table.Table, ty table.Type) bool {
	k, _ := t.KindOf(ty.Base)
	return ty.Func != nil || ty.Pointers > 0 || k == table.HandleType || k == table.FuncType
}

// toSlot spells an argument as a number of 64 bits.
func toSlot(t *table.Table, p table.Param) (string, error) {
	if isPointer(t, p.Type) {
		return "(uintptr_t)" + p.Name, nil
	}
	switch k, _ := t.KindOf(p.Type.Base); {
	case p.Type.Base == "float":
		return "float_bits(" + p.Name + ")", nil
	case k == table.Scalar || k == table.EnumType:
		return "(uint64_t)" + p.Name, nil
	case k == table.StructType || k == table.UnionType:
		return "(uintptr_t)&" + p.Name, nil
	}
	return "", fmt.Errorf("no way to pass %s %s", p.Type, p.Name)
}

// fromSlot spells the return of a number as a C type.
func fromSlot(t *table.Table, ty table.Type, call string) (string, error) {
	if isPointer(t, ty) {
		return fmt.Sprintf("return (%s)(uintptr_t)%s", ty, call), nil
	}
	switch k, _ := t.KindOf(ty.Base); {
	case k == table.VoidType:
		return "(void)" + call, nil
	case ty.Base == "float":
		return fmt.Sprintf("return bits_float((uint32_t)%s)", call), nil
	case k == table.Scalar || k == table.EnumType:
		return fmt.Sprintf("return (%s)%s", ty, call), nil
	}
	return "", fmt.Errorf("no way to return %s", ty)
}
