package main

import (
	"bytes"
	"fmt"
	"strings"

	"ropeway/spec/table"
)

// layout knows how C fields are spelled in Go.
type layout struct {
	*names
	t *table.Table
}

func newLayout(t *table.Table) (*layout, error) {
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	return &layout{n, t}, nil
}

var goScalars = map[string]string{
	"char": "byte", "unsigned char": "byte", "bool": "bool", "int8_t": "int8", "uint8_t": "uint8",
	"int16_t": "int16", "uint16_t": "uint16", "int": "int32", "int32_t": "int32", "uint32_t": "uint32",
	"float": "float32", "int64_t": "int64", "uint64_t": "uint64", "size_t": "uint64",
	"aclError": "Code", "aclFloat16": "uint16",
}

// goType returns the Go type of a field of the struct with Go name owner.
func (l *layout) goType(owner string, f table.Field) (string, error) {
	array := ""
	if f.Len >= 0 {
		array = fmt.Sprintf("[%d]", f.Len)
	}
	if f.Type == table.AnonymousUnion {
		return unionName(owner, f), nil
	}
	if strings.HasSuffix(f.Type, "*") {
		return array + "uintptr", nil
	}
	k, _ := l.t.KindOf(f.Type)
	switch k {
	case table.Scalar:
		if g, ok := goScalars[f.Type]; ok {
			return array + g, nil
		}
	case table.EnumType, table.StructType, table.UnionType:
		return array + l.types[bare(f.Type)], nil
	case table.HandleType, table.FuncType:
		return array + "uintptr", nil
	}
	return "", fmt.Errorf("%s.%s: no Go type for %q", owner, f.Name, f.Type)
}

// unionName names the Go type of an anonymous union inside owner.
func unionName(owner string, f table.Field) string {
	return owner + unionField(f)
}

func unionField(f table.Field) string {
	if f.Name == "" {
		return "Union"
	}
	return fieldName(f.Name)
}

// union is a named or anonymous C union.
type union struct {
	name, c     string
	size, align int64
	fields      []table.Field
}

// unions returns every union in table order.
func (l *layout) unions() []union {
	var us []union
	for _, s := range l.t.Types.Structs {
		owner := l.types[bare(s.Name)]
		if s.Kind == "union" {
			us = append(us, union{owner, "the C union " + bare(s.Name), s.Size, s.Align, s.Fields})
			continue
		}
		for _, f := range s.Fields {
			if f.Type == table.AnonymousUnion {
				us = append(us, union{unionName(owner, f), "the union inside the C struct " + bare(s.Name), f.Size,
					f.Align, f.Fields})
			}
		}
	}
	return us
}

func writeStructs(t *table.Table, _ string) ([]byte, error) {
	l, err := newLayout(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("package abi\n\n")
	for _, s := range t.Types.Structs {
		if s.Kind == "union" {
			continue
		}
		if err := l.writeStruct(&b, s); err != nil {
			return nil, err
		}
	}
	for _, u := range l.unions() {
		fmt.Fprintf(&b, "// %s is %s. Its methods give typed views of Raw.\ntype %s struct {\n", u.name, u.c, u.name)
		if u.align > 1 {
			fmt.Fprintf(&b, "\t_ [0]uint%d // aligns Raw\n", 8*u.align)
		}
		fmt.Fprintf(&b, "\tRaw [%d]byte\n}\n\n", u.size)
	}
	return b.Bytes(), nil
}

func (l *layout) writeStruct(b *bytes.Buffer, s table.Struct) error {
	name := l.types[bare(s.Name)]
	fmt.Fprintf(b, "// %s is the C struct %s, %d bytes.\ntype %s struct {\n", name, bare(s.Name), s.Size, name)
	end := int64(0)
	pad := func(to int64) {
		if to > end {
			fmt.Fprintf(b, "\t_ [%d]byte\n", to-end)
		}
	}
	for _, f := range s.Fields {
		g, err := l.goType(name, f)
		if err != nil {
			return err
		}
		pad(f.Offset)
		fmt.Fprintf(b, "\t%s %s", unionField(f), g)
		if strings.HasSuffix(f.Type, "*") && f.Type != "void*" {
			fmt.Fprintf(b, " // %s", f.Type)
		} else if k, _ := l.t.KindOf(f.Type); k == table.HandleType {
			fmt.Fprintf(b, " // %s", f.Type)
		}
		b.WriteString("\n")
		end = f.Offset + f.Size
	}
	pad(s.Size)
	b.WriteString("}\n\n")
	return nil
}

func writeUnions(t *table.Table, _ string) ([]byte, error) {
	l, err := newLayout(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("package abi\n\nimport \"unsafe\"\n\n")
	for _, u := range l.unions() {
		for _, f := range u.fields {
			g, err := l.goType(u.name, f)
			if err != nil {
				return nil, err
			}
			m := fieldName(f.Name)
			fmt.Fprintf(&b, "// %s views the union as its member %s.\n", m, f.Name)
			fmt.Fprintf(&b, "func (u *%s) %s() *%s { return (*%s)(unsafe.Pointer(u)) }\n\n", u.name, m, g, g)
		}
	}
	return b.Bytes(), nil
}

func writeStructsTest(t *table.Table, _ string) ([]byte, error) {
	l, err := newLayout(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(structsTestHead)
	row := func(what, got string, want int64) {
		fmt.Fprintf(&b, "\t\t{%q, %s, %d},\n", what, got, want)
	}
	whole := func(name, c string, size, align int64) {
		row("sizeof "+c, fmt.Sprintf("unsafe.Sizeof(%s{})", name), size)
		row("alignof "+c, fmt.Sprintf("unsafe.Alignof(%s{})", name), align)
	}
	for _, s := range t.Types.Structs {
		name := l.types[bare(s.Name)]
		if s.Kind == "union" {
			continue
		}
		whole(name, bare(s.Name), s.Size, s.Align)
		for _, f := range s.Fields {
			field := unionField(f)
			row("offsetof "+bare(s.Name)+" "+field, fmt.Sprintf("unsafe.Offsetof(%s{}.%s)", name, field), f.Offset)
			row("sizeof "+bare(s.Name)+" "+field, fmt.Sprintf("unsafe.Sizeof(%s{}.%s)", name, field), f.Size)
		}
	}
	for _, u := range l.unions() {
		whole(u.name, u.name, u.size, u.align)
		for _, f := range u.fields {
			field := fieldName(f.Name)
			row("sizeof "+u.name+" "+field, fmt.Sprintf("unsafe.Sizeof(*(&%s{}).%s())", u.name, field), f.Size)
		}
	}
	b.WriteString("\t} {\n\t\tif tt.got != tt.want {\n\t\t\tt.Errorf(\"%s is %d, want %d\", tt.what, tt.got, " +
		"tt.want)\n\t\t}\n\t}\n}\n")
	return b.Bytes(), nil
}

const structsTestHead = `package abi

import (
	"testing"
	"unsafe"
)

func TestLayout(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the table holds the layout of 64-bit machines")
	}
	for _, tt := range []struct {
		what      string
		got, want uintptr
	}{
`
