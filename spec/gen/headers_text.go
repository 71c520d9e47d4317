package main

import (
	"fmt"
	"slices"
	"strings"

	"ropeway/spec/table"
)

// textWidth is where comments and prototypes wrap.
const textWidth = 110

// comment writes one block comment. Each text starts on a line of its own; empty texts are left out.
func (w *cWriter) comment(texts ...string) {
	var lines []string
	for _, t := range texts {
		lines = append(lines, wrap(cText(t), textWidth-3)...)
	}
	switch {
	case len(lines) == 0:
	case len(lines) == 1:
		w.printf("/* %s */\n", lines[0])
	default:
		w.printf("/*\n * %s\n */\n", strings.Join(lines, "\n * "))
	}
}

// cText makes a text safe inside a C comment.
func cText(s string) string {
	return strings.NewReplacer("*/", "* /", "/*", "/ *", "??", "? ?").Replace(s)
}

// wrap breaks a text at spaces into lines of at most width bytes; a longer word has a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// trialBatch marks the batch copies; the table holds the functions, the vendor's documents the mark.
const trialBatch = "The vendor marks the batch copies a trial feature: they may change or go in a later version."

// functionComment returns the lines of the comment above a function.
func (w *cWriter) functionComment(f *table.Function) []string {
	does := f.Does
	if f.Status == table.Later {
		does = strings.TrimSpace(does + " " + w.notBuilt(f))
	}
	facts := productsText(f.Products)
	if f.Status == table.Core {
		facts += " " + errorsText(f)
	}
	lines := []string{does, facts}
	if strings.HasPrefix(f.Name, "aclrtMemcpyBatch") {
		lines = append(lines, trialBatch)
	}
	if f.Deprecated {
		lines = append(lines, "Deprecated: "+deprecation(f)+".")
	}
	return lines
}

// notBuilt says what a function that is not built does instead.
func (w *cWriter) notBuilt(f *table.Function) string {
	ret := f.C.Return
	kind, _ := w.t.KindOf(ret.Base)
	why := "Not yet built"
	if f.Outside != nil {
		why = "Not built, since ropeway is the runtime alone"
	}
	switch {
	case f.ReturnsCode():
		return why + ", returns 207000 (ACL_ERROR_RT_FEATURE_NOT_SUPPORT)."
	case ret.Pointers > 0 || kind == table.HandleType:
		return why + ", returns NULL."
	case ret.Base == "void":
		return why + ", does nothing."
	}
	return why + ", returns 0."
}

func productsText(products []string) string {
	switch {
	case products == nil:
		return "Products: the documents do not say."
	case len(products) == 0:
		return "Products: none listed."
	}
	return "Products: " + strings.Join(products, ", ") + "."
}

// errorsText lists the codes of a function's rules in checking order.
func errorsText(f *table.Function) string {
	var codes []string
	passed := false
	for _, r := range f.Rules {
		if r.Code == nil {
			passed = true
		} else if c := fmt.Sprint(*r.Code); *r.Code != 0 && !slices.Contains(codes, c) {
			codes = append(codes, c)
		}
	}
	if passed {
		codes = append(codes, "and others passed on")
	}
	if len(codes) == 0 {
		return ""
	}
	return "Errors: " + strings.Join(codes, ", ") + "."
}

// deprecation says what to do about a deprecated function.
func deprecation(f *table.Function) string {
	if f.ReplacedBy == "" {
		return "nothing replaces it"
	}
	return "use " + f.ReplacedBy
}

// usedBy names the first functions that take or return a type, or "".
func (w *cWriter) usedBy(name string) string {
	const shown = 3
	var users []string
	for _, f := range w.t.Functions {
		if mentions(f.C, bare(name)) {
			users = append(users, f.Name)
		}
	}
	switch n := len(users); {
	case n == 0:
		return ""
	case n > shown+1:
		return fmt.Sprintf("See %s and %d more.", strings.Join(users[:shown], ", "), n-shown)
	}
	return "See " + strings.Join(users, ", ") + "."
}

// mentions reports whether a prototype names a type.
func mentions(p table.Prototype, name string) bool {
	types := []table.Type{p.Return}
	for _, q := range p.Params {
		types = append(types, q.Type)
	}
	return slices.ContainsFunc(types, func(t table.Type) bool {
		if t.Func != nil {
			return mentions(*t.Func, name)
		}
		return bare(t.Base) == name
	})
}
