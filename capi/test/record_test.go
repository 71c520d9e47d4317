package capitest

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/compat"
	"ropeway/internal/testenv"
)

// TestRecordABI: programs that were built against the last release run: the library has its symbols, and the headers
// its prototypes, layouts, enumerators and macros.
func TestRecordABI(t *testing.T) {
	t.Parallel()
	kit := toolkit(t)
	lines, exported := symbolLines(t, kit+"/lib64/libascendcl.so")
	source := allHeaders(t, kit+"/include")
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("headers.c", source)
	plain := command(t, dir, nil, "gcc", "-E", "-P", "-I"+kit+"/include", "headers.c")
	declared := map[string]bool{}
	for _, m := range regexp.MustCompile(`\b(acl\w+|ropeway_\w+) ?\(`).FindAllStringSubmatch(plain, -1) {
		declared[m[1]] = true
	}
	for name := range declared {
		if exported[name] {
			source += fmt.Sprintf("__typeof__(%s) *record_%[1]s = %[1]s;\n", name)
		}
	}
	write("all.c", source)
	command(t, dir, nil, "gcc", "-std=gnu11", "-g", "-w", "-fno-eliminate-unused-debug-types", "-c",
		"-I"+kit+"/include", "all.c")
	lines = append(lines, typeLines(t, filepath.Join(dir, "all.o"), kit+"/include")...)
	macros := regexp.MustCompile(`(?m)^#define ((?:ACL|CANN|RT|GE|RUNTIME)_\w+) (.+)$`)
	for _, m := range macros.FindAllStringSubmatch(command(t, dir, nil, "gcc", "-dM", "-E", "-I"+kit+"/include",
		"headers.c"), -1) {
		lines = append(lines, "macro "+m[1]+" "+m[2])
	}
	if len(lines) < 2000 {
		t.Fatalf("only %d lines: the record would miss something", len(lines))
	}
	compat.Check(t, root, "abi", lines)
}

// allHeaders is a program that includes all headers of C.
func allHeaders(t *testing.T, include string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(tree(t, include))) {
		forCpp := name == "acl/acl_rt_api.h" || name == "ropeway/gtest.h"
		if strings.HasSuffix(name, ".h") && !forCpp {
			fmt.Fprintf(&text, "#include <%s>\n", name)
		}
	}
	return text.String()
}

// symbolLines lists what a library exports: kind, name, version, and the size of data. Names that begin with
// ropeway_ and are in no header are its own.
func symbolLines(t *testing.T, library string) (lines []string, exported map[string]bool) {
	t.Helper()
	f, err := elf.Open(library)
	testenv.OK(t, err)
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	testenv.OK(t, err)
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	lines, exported = []string{"soname " + names[0]}, map[string]bool{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || elf.ST_BIND(s.Info) == elf.STB_LOCAL {
			continue
		}
		exported[s.Name] = true
		line := fmt.Sprintf("symbol %v %s", elf.ST_TYPE(s.Info), s.Name)
		if s.Version != "" {
			line += "@" + s.Version
		}
		if elf.ST_TYPE(s.Info) == elf.STT_OBJECT {
			line += fmt.Sprintf(", %d bytes", s.Size)
		}
		if strings.HasPrefix(s.Name, "acl") || strings.HasPrefix(s.Name, "rt") {
			lines = append(lines, line)
		}
	}
	return lines, exported
}

// typeLines lists the types that the headers of a directory define, and the prototypes that variables named record_...
// point to.
func typeLines(t *testing.T, object, include string) (lines []string) {
	t.Helper()
	f, err := elf.Open(object)
	testenv.OK(t, err)
	defer f.Close()
	d, err := f.DWARF()
	testenv.OK(t, err)
	var files []*dwarf.LineFile
	r := d.Reader()
	for {
		e, err := r.Next()
		testenv.OK(t, err)
		if e == nil {
			return lines
		}
		if e.Tag == dwarf.TagCompileUnit {
			lr, err := d.LineReader(e)
			testenv.OK(t, err)
			files = lr.Files()
			continue
		}
		r.SkipChildren()
		name, _ := e.Val(dwarf.AttrName).(string)
		from, _ := e.Val(dwarf.AttrDeclFile).(int64)
		ours := int(from) < len(files) && files[from] != nil && strings.HasPrefix(files[from].Name, include)
		switch {
		case e.Tag == dwarf.TagVariable && strings.HasPrefix(name, "record_"):
			v, err := d.Type(e.Val(dwarf.AttrType).(dwarf.Offset))
			testenv.OK(t, err)
			lines = append(lines, "prototype "+strings.TrimPrefix(name,
				"record_")+strings.TrimPrefix(v.(*dwarf.PtrType).Type.String(), "func"))
		case ours && slices.Contains([]dwarf.Tag{dwarf.TagTypedef, dwarf.TagStructType, dwarf.TagUnionType,
			dwarf.TagEnumerationType}, e.Tag):
			typ, err := d.Type(e.Offset)
			testenv.OK(t, err)
			lines = append(lines, typeText(name, typ)...)
		}
	}
}

// typeText lists one type: fields with their places, enumerators with their values, or what it is another name of.
func typeText(name string, typ dwarf.Type) (lines []string) {
	switch typ := typ.(type) {
	case *dwarf.TypedefType:
		switch inner := typ.Type.(type) {
		case *dwarf.StructType, *dwarf.EnumType:
			if s, ok := inner.(*dwarf.StructType); !ok || s.StructName == "" {
				return typeText(name, inner)
			}
		}
		return []string{"type " + name + " is " + strings.TrimSpace(typ.Type.String())}
	case *dwarf.StructType:
		if name == "" || typ.Incomplete {
			return nil // part of another, or never seen by programs
		}
		lines = append(lines, fmt.Sprintf("%s %s, %d bytes", typ.Kind, name, typ.ByteSize))
		for _, field := range typ.Field {
			of := field.Type.String()
			if s, ok := field.Type.(*dwarf.StructType); ok && s.StructName == "" {
				of = fmt.Sprintf("%s of %d bytes", s.Kind, s.ByteSize)
				lines = append(lines, typeText(name+"."+field.Name, s)...)
			}
			lines = append(lines, fmt.Sprintf("%s %s, %s at %d: %s", typ.Kind, name, field.Name, field.ByteOffset, of))
		}
	case *dwarf.EnumType:
		if name == "" {
			name = "without a name"
		}
		for _, v := range typ.Val {
			lines = append(lines, fmt.Sprintf("enum %s, %s = %d", name, v.Name, v.Val))
		}
		lines = append(lines, fmt.Sprintf("enum %s, %d bytes", name, typ.ByteSize))
	}
	return lines
}

// TestRecordPython: the Python module has everything that the last release had: functions with their parameters, and
// constants with their values.
func TestRecordPython(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "python3")
	const script = `
import acl, acl.rt, acl.prof, acl.util, inspect
for module in (acl, acl.rt, acl.prof, acl.util):
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value):
            continue
        if isinstance(value, (int, str, float)):
            print("constant", module.__name__ + "." + name, "=", repr(value))
        elif callable(value):
            try:
                print("function", module.__name__ + "." + name + str(inspect.signature(value)))
            except ValueError:
                print("function", module.__name__ + "." + name)
`
	kit := toolkit(t)
	out := passes(t, []string{"PYTHONPATH=" + kit + "/python/site-packages"}, "python3", "-c", script)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) < 500 {
		t.Fatalf("only %d lines: the record would miss something\n%s", len(lines), out)
	}
	compat.Check(t, root, "python", lines)
}
