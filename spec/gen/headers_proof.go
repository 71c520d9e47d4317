package main

import (
	"fmt"
	"strings"

	"ropeway/spec/table"
)

// assertMacro holds a compile-time assertion, and the alignment of a type, for every standard. What is asserted is said
// as one identifier, since C99 has to make a type of it.
const assertMacro = `#ifndef ROPEWAY_ASSERT
#if defined(__cplusplus)
#define ROPEWAY_ASSERT(condition, holds) static_assert(condition, #holds)
#define ROPEWAY_ALIGN_OF(type) alignof(type)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define ROPEWAY_ASSERT(condition, holds) _Static_assert(condition, #holds)
#define ROPEWAY_ALIGN_OF(type) _Alignof(type)
#else
#define ROPEWAY_ASSERT(condition, holds) typedef char assert_##holds[(condition) ? 1 : -1]
#define ROPEWAY_ALIGN_OF(type) __alignof__(type)
#endif
#endif

`

func (w *cWriter) assert(condition, holds string) {
	w.printf("ROPEWAY_ASSERT(%s, %s);\n", condition, holds)
}

// proofHead starts a file of assertions over all headers.
func (w *cWriter) proofHead(about string) {
	w.comment(about)
	w.printf("#include <stddef.h>\n")
	for _, f := range cFiles {
		w.printf("#include \"%s\"\n", table.Included(f.name))
	}
	w.printf("\n%s", assertMacro)
}

// writeLayoutProof writes assertions on size, alignment and offsets of every struct and union.
func writeLayoutProof(t *table.Table, _ string) ([]byte, error) {
	w := newCWriter(t)
	w.proofHead("Size, alignment and offsets of every struct and union, on machines where long and pointers have 64 " +
		"bits.")
	for _, s := range t.Types.Structs {
		name := bare(s.Name)
		w.assert(fmt.Sprintf("sizeof(%s) == %d", s.Name, s.Size), "size_of_"+name)
		w.assert(fmt.Sprintf("ROPEWAY_ALIGN_OF(%s) == %d", s.Name, s.Align), "alignment_of_"+name)
		w.fieldAsserts(s, s.Fields, "")
		w.printf("\n")
	}
	return w.b.Bytes(), nil
}

func (w *cWriter) fieldAsserts(s table.Struct, fields []table.Field, prefix string) {
	for _, f := range fields {
		if f.Name == "" { // an unnamed union: its members are those of the struct
			w.fieldAsserts(s, f.Fields, prefix)
			continue
		}
		member := prefix + f.Name
		holds := bare(s.Name) + "_" + strings.ReplaceAll(member, ".", "_")
		w.assert(fmt.Sprintf("offsetof(%s, %s) == %d", s.Name, member, f.Offset), "offset_of_"+holds)
		w.assert(fmt.Sprintf("sizeof(((%s*)0)->%s) == %d", s.Name, member, f.Size), "size_of_"+holds)
		w.fieldAsserts(s, f.Fields, member+".")
	}
}

// writeNamesProof writes a use of every name of the table: values are asserted, types and functions are declared a
// second time from the table, which compiles only where both declarations agree, and every function's address is taken.
func writeNamesProof(t *table.Table, _ string) ([]byte, error) {
	w := newCWriter(t)
	w.proofHead("Every name of the API, with its value or its type.")
	for _, e := range t.Types.DeclaredEnums() {
		w.assert(fmt.Sprintf("sizeof(%s) == 4", enumSpelling(e)), "size_of_"+bare(e.Name))
		for _, m := range e.Members {
			w.assert(fmt.Sprintf("(int)%s == %d", m.Name, m.Value), "value_of_"+m.Name)
		}
	}
	for _, d := range t.Types.Defines {
		if d.Value != nil {
			w.assert(fmt.Sprintf("%s == %d", d.Name, *d.Value), "value_of_"+d.Name)
			continue
		}
		name, _, _ := strings.Cut(d.Name, "(")
		w.printf("#ifndef %s\n#error %s is missing\n#endif\n", name, name)
	}
	for _, c := range t.Codes() {
		w.assert(fmt.Sprintf("%s == %d", c.Name, c.Number), "value_of_"+c.Name)
		w.assert(fmt.Sprintf("sizeof(%s) == 4", c.Name), "size_of_"+c.Name)
	}
	w.printf("\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n")
	ty := &t.Types
	for _, n := range append(append([]table.Named{}, ty.Handles...), ty.Typedefs...) {
		w.printf("extern %s type_%s;\nextern %s type_%s;\n", n.Name, n.Name, n.C, n.Name)
	}
	for _, n := range ty.DeclaredOpaque() {
		w.printf("extern %s* type_%s;\nextern %s* type_%s;\n", n.Name, n.Name, n.C, n.Name)
	}
	for _, n := range ty.FunctionPointers {
		again := strings.Replace(strings.TrimPrefix(n.C, "typedef "), "(*"+n.Name+")", "(*type_"+n.Name+")", 1)
		w.printf("extern %s type_%s;\nextern %s\n", n.Name, n.Name, again)
	}
	w.functionTable()
	w.printf("#ifdef __cplusplus\n}\n#endif\n")
	return w.b.Bytes(), nil
}

// enumSpelling returns an enum as C code outside the headers may spell it.
func enumSpelling(e table.Enum) string {
	if typedefAnyway[bare(e.Name)] {
		return bare(e.Name)
	}
	return e.Name
}

func (w *cWriter) functionTable() {
	w.printf("\n")
	for _, f := range w.t.Functions {
		w.printf("%s;\n", prototype(f))
	}
	w.printf("\ntypedef void (*any_function)(void);\n")
	w.printf("extern const any_function all_functions[%d];\n", len(w.t.Functions))
	w.printf("const any_function all_functions[%d] = {\n", len(w.t.Functions))
	for _, f := range w.t.Functions {
		w.printf("    (any_function)%s,\n", f.Name)
	}
	w.printf("};\n\n")
}
