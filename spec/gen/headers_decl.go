package main

import (
	"fmt"
	"math"
	"strings"

	"ropeway/spec/table"
)

// logMacro is the one macro that is not copied from the table: its text there is a GNU extension.
const logMacro = "ACL_APP_LOG("

func (w *cWriter) defines(header string) {
	n := 0
	for _, d := range w.t.Types.Defines {
		if d.Header != header || strings.HasPrefix(d.Name, logMacro) {
			continue
		}
		line := strings.TrimSpace("#define " + d.Name + " " + d.Text)
		if d.Own {
			line = "#ifndef " + d.Name + " /* programs define it themselves */\n" + line + "\n#endif"
		}
		w.printf("%s\n", line)
		n++
	}
	if n > 0 {
		w.printf("\n")
	}
}

const codesNote = `/*
 * Error codes that are constants and not macros. In C++ they have the type the vendor gives them, int or uint32_t, and
 * can be bound to references. In C a "static const" is no constant expression and cannot label a case: there the int
 * ones are enumerators, which have type int, and the uint32_t ones macros with the suffix U.
 */
`

// codes writes the error codes of one header.
func (w *cWriter) codes(header string) {
	for _, g := range w.t.Errors.Groups {
		w.codeGroup(codesOf(g, header, "macro"), "#define %s %d%s\n")
	}
	consts := newCWriter(w.t) // as C++ sees them
	inC := newCWriter(w.t)
	for _, g := range w.t.Errors.Groups {
		g = codesOf(g, header, "const")
		if unsignedCodes(header) {
			consts.codeGroup(g, "static const uint32_t %s = %dU;%s\n")
			inC.codeLines(g, "#define %s %dU\n")
		} else {
			consts.codeGroup(g, "static const int %s = %d;%s\n")
			inC.codeLines(g, "    %s = %d,\n")
		}
	}
	if consts.b.Len() == 0 {
		return
	}
	list := inC.b.String()
	if !unsignedCodes(header) {
		list = "enum {\n" + list + "};\n"
	}
	w.printf("%s#ifdef __cplusplus\n%s#else\n%s#endif\n\n", codesNote, consts.b.String(), list)
}

// unsignedCodes reports whether the constants of a header are uint32_t instead of int: those of the graph engine.
func unsignedCodes(header string) bool { return header == "error_codes/ge_error_codes.h" }

// codesOf returns the codes of a group that belong to a header and are of a kind.
func codesOf(g table.CodeGroup, header, kind string) table.CodeGroup {
	var codes []table.Code
	for _, c := range g.Codes {
		if c.Header == header && c.Kind == kind {
			codes = append(codes, c)
		}
	}
	g.Codes = codes
	return g
}

// codeGroup writes the codes of a group with title and meanings; format takes name, number and comment. A meaning that
// does not fit after its code stands above it.
func (w *cWriter) codeGroup(g table.CodeGroup, format string) {
	if len(g.Codes) == 0 {
		return
	}
	w.comment(g.Title)
	for _, c := range g.Codes {
		line := fmt.Sprintf(format, c.Name, c.Number, " /* "+cText(c.Meaning)+" */")
		if len(line) > textWidth+1 {
			w.comment(c.Meaning)
			line = fmt.Sprintf(format, c.Name, c.Number, "")
		}
		w.printf("%s", line)
	}
	w.printf("\n")
}

// codeLines writes the same codes without comments; format takes name and number.
func (w *cWriter) codeLines(g table.CodeGroup, format string) {
	for _, c := range g.Codes {
		w.printf(format, c.Name, c.Number)
	}
}

// plainTypes writes typedefs, handles and opaque structs.
func (w *cWriter) plainTypes(header string) {
	ty := &w.t.Types
	for _, list := range []struct {
		about string
		named []table.Named
	}{
		{"", ty.Typedefs},
		{"Handles: made, understood and destroyed by the library alone.", ty.Handles},
		{"Structs that only the library sees inside of.", ty.DeclaredOpaque()},
	} {
		n := 0
		for _, d := range list.named {
			if d.Header != header {
				continue
			}
			if n++; n == 1 {
				w.comment(list.about)
			}
			w.printf("typedef %s %s;\n", d.C, d.Name)
		}
		if n > 0 {
			w.printf("\n")
		}
	}
}

// typedefAnyway are types the vendor's headers use in prototypes without the keyword that C asks for.
var typedefAnyway = map[string]bool{"acltdtTensorType": true}

// open writes the beginning of an enum, struct or union definition, and returns its end.
func (w *cWriter) open(keyword, name, tag string) string {
	typedef := bare(name) == name || typedefAnyway[bare(name)]
	if tag == "" && !typedef {
		tag = bare(name)
	}
	first := keyword
	if tag != "" {
		first += " " + tag
	}
	if !typedef {
		w.printf("%s {\n", first)
		return "};\n\n"
	}
	w.printf("typedef %s {\n", first)
	return "} " + bare(name) + ";\n\n"
}

func (w *cWriter) enum(e table.Enum) error {
	w.comment(w.usedBy(e.Name))
	end := w.open("enum", e.Name, e.Tag)
	names := map[int64]string{}
	for _, m := range e.Members {
		if m.Value < math.MinInt32 || m.Value > math.MaxInt32 {
			return fmt.Errorf("%s: %s = %d does not fit an int, which C99 asks for", e.Name, m.Name, m.Value)
		}
		var notes []string
		if m.Deprecated {
			notes = append(notes, "deprecated")
		}
		if first := names[m.Value]; first != "" {
			notes = append(notes, "same as "+first)
		} else {
			names[m.Value] = m.Name
		}
		w.printf("    %s = %d,", m.Name, m.Value)
		if len(notes) > 0 {
			w.printf(" /* %s */", strings.Join(notes, ", "))
		}
		w.printf("\n")
	}
	w.printf("%s", end)
	return nil
}

func (w *cWriter) structOrUnion(s table.Struct) {
	size := fmt.Sprintf("%d bytes.", s.Size)
	if s.Unless != "" {
		w.printf("#ifndef %s\n", s.Unless)
	}
	w.comment(strings.TrimSpace(size + " " + w.usedBy(s.Name)))
	end := w.open(s.Kind, s.Name, s.Tag)
	w.fields(s.Fields, "    ")
	if s.Default != "" {
		w.constructor(s)
	}
	w.printf("%s", end)
	if s.Unless != "" {
		w.printf("#endif /* %s */\n\n", s.Unless)
	}
}

// constructor writes the constructor that C++ has: every parameter has the default.
func (w *cWriter) constructor(s table.Struct) {
	var params, inits []string
	for _, f := range s.Fields {
		params = append(params, fmt.Sprintf("%s v%s = %s", f.Type, f.Name, s.Default))
		inits = append(inits, fmt.Sprintf("%s(v%s)", f.Name, f.Name))
	}
	head := s.Tag + "(" + strings.Join(params, ", ") + ")"
	w.printf("#ifdef __cplusplus\n#if __cplusplus >= 201103L\n    constexpr\n#endif\n")
	w.printf("    %s : %s {}\n#endif\n", head, strings.Join(inits, ", "))
}

func (w *cWriter) fields(fields []table.Field, indent string) {
	for _, f := range fields {
		switch {
		case f.Type == table.AnonymousUnion:
			extension, name := "", ""
			if f.Name == "" {
				extension = "ROPEWAY_EXTENSION "
			} else {
				name = " " + f.Name
			}
			w.printf("%s%sunion {\n", indent, extension)
			w.fields(f.Fields, indent+"    ")
			w.printf("%s}%s;\n", indent, name)
		case f.Len == 0:
			w.printf("%sROPEWAY_EXTENSION %s %s[0]; /* as many as the memory there holds */\n", indent, f.Type, f.Name)
		case f.Len > 0:
			w.printf("%s%s %s[%s];\n", indent, f.Type, f.Name, f.Array)
		default:
			w.printf("%s%s %s;\n", indent, f.Type, f.Name)
		}
	}
}

// functions writes the functions of a header, one group after the other.
func (w *cWriter) functions(header string) {
	var groups []string
	byGroup := map[string][]*table.Function{}
	for _, f := range w.t.Functions {
		if f.Header != header {
			continue
		}
		if byGroup[f.Group] == nil {
			groups = append(groups, f.Group)
		}
		byGroup[f.Group] = append(byGroup[f.Group], f)
	}
	for _, g := range groups {
		w.printf("/* ==== %s ==== */\n\n", strings.ReplaceAll(g, "-", " "))
		for _, f := range byGroup[g] {
			w.comment(w.functionComment(f)...)
			if f.Deprecated {
				w.printf("ROPEWAY_DEPRECATED(%q)\n", deprecation(f))
			}
			w.printf("%s;\n\n", wrapPrototype(attributes(f)+prototype(f)))
		}
	}
}

// prototype returns the C prototype; "()" means any arguments in C before C23, so it becomes "(void)".
func prototype(f *table.Function) string {
	p := strings.TrimSuffix(strings.TrimSpace(f.Proto), ";")
	return strings.ReplaceAll(p, "()", "(void)")
}

// attributes returns the macros in front of a prototype, as the table states them.
func attributes(f *table.Function) string {
	a := "ACL_FUNC_VISIBILITY "
	switch {
	case f.VisibilityMacro == "none":
		a = ""
	case f.VisibilityMacro != "":
		a = f.VisibilityMacro + " "
	case f.Header == "acl_prof.h":
		a = "MSVP_PROF_API "
	case f.Name == "acldumpRegCallback" || f.Name == "acldumpUnregCallback":
		a = "ACL_DUMP_API "
	}
	if f.Weak {
		a += "ACL_DUMP_WEAK "
	}
	return a
}

// wrapPrototype breaks a long prototype after commas, with the rest indented.
func wrapPrototype(p string) string {
	const indent = "\n    "
	var b strings.Builder
	column := 0
	for i, part := range strings.SplitAfter(p, ", ") {
		if i > 0 && column+len(strings.TrimSpace(part)) > textWidth {
			b.WriteString(indent)
			column = len(indent) - 1
		}
		b.WriteString(part)
		column += len(part)
	}
	return strings.ReplaceAll(b.String(), " "+indent, indent)
}
