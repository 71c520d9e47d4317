package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ropeway/spec/table"
)

// unbuilt are the functions that are not built and have rules that can be checked all the same.
func unbuilt(t *table.Table) []*table.Function {
	return slices.DeleteFunc(slices.Clone(t.Functions), func(f *table.Function) bool {
		return f.Status != table.Later || len(f.Checks()) == 0
	})
}

// writeUnbuilt writes the checks of functions that are not built, as Go.
func writeUnbuilt(t *table.Table, _ string) ([]byte, error) {
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("package core\n\nimport \"ropeway/internal/abi\"\n\n// unbuiltRules are the leading rules of functions that are not built, in checking order.\nvar unbuiltRules = map[string][]unbuiltRule{\n")
	for _, f := range unbuilt(t) {
		fmt.Fprintf(&b, "%q: {\n", f.Name)
		checks := f.Checks()
		for _, number := range slices.Sorted(maps.Keys(checks)) {
			r := &f.Rules[number-1]
			g := whenGo{t, f}
			expr, err := g.expr(checks[number])
			if err != nil {
				return nil, fmt.Errorf("%s rule %d: when %q: %w", f.Name, number, r.When, err)
			}
			fmt.Fprintf(&b, "{code: %s, %s%sapplies: func(%s *unbuiltCall) bool { return %s }},\n",
				n.code(r), quiet(r), g.message(r), receiver(expr), expr)
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// quiet is the field of a rule that is not recorded as last error.
func quiet(r *table.Rule) string {
	if r.Quiet {
		return "quiet: true, "
	}
	return ""
}

// receiver is the name of the parameter of a check, which may not need it.
func receiver(expr string) string {
	if strings.Contains(expr, "c.") {
		return "c"
	}
	return "_"
}

// whenGo writes expressions of a function's rules as Go.
type whenGo struct {
	t *table.Table
	f *table.Function
}

func (g whenGo) param(name string) (int, table.Type) {
	i := slices.IndexFunc(g.f.C.Params, func(p table.Param) bool { return p.Name == name })
	return i, g.f.C.Params[i].Type
}

// message is what a rule says when it applies: whose fault it is, and why. A rule about the product alone needs no text.
func (g whenGo) message(r *table.Rule) string {
	params := r.Expr.Params()
	if strings.HasPrefix(strings.TrimPrefix(r.When, "!"), "product(") && len(params) == 0 {
		return ""
	}
	if len(params) != 1 {
		return fmt.Sprintf("text: %q, ", r.If)
	}
	text := fmt.Sprintf("arg: %q, text: %q, ", params[0], strings.TrimPrefix(r.If, params[0]+" "))
	i, ty := g.param(params[0])
	if isPointer(g.t, ty) || strings.HasSuffix(r.If, " is 0") {
		return text
	}
	shows := map[string]string{"int32": "showInt32", "int64": "showInt64"}[goType(g.t, ty)]
	return text + fmt.Sprintf("shows: %s, argument: %d, ", cmp.Or(shows, "showUnsigned"), i)
}

// expr writes an expression. Comparisons that cannot hold, of unsigned numbers with less than 0, are false.
func (g whenGo) expr(w *table.When) (string, error) {
	switch w.Op {
	case "&&", "||":
		left, err := g.expr(w.Args[0])
		if err != nil {
			return "", err
		}
		right, err := g.expr(w.Args[1])
		if w.Op == "||" && left == "false" {
			return right, err
		}
		return g.group(w.Op, w.Args[0], left) + " " + w.Op + " " + g.group(w.Op, w.Args[1], right), err
	case "!":
		e, err := g.expr(w.Args[0])
		if len(w.Args[0].Args) == 2 {
			e = "(" + e + ")"
		}
		return "!" + e, err
	case "context":
		return "c.context()", nil
	case "product", "form":
		return fmt.Sprintf("c.%s(\"%s\")", w.Op, strings.Join(w.List, `", "`)), nil
	case "live", "elsewhere", "captured", "bound", "self":
		return g.predicate(w)
	}
	return g.comparison(w)
}

// group puts parentheses around an alternative inside a conjunction.
func (g whenGo) group(op string, w *table.When, e string) string {
	if op == "&&" && w.Op == "||" && strings.Contains(e, "||") {
		return "(" + e + ")"
	}
	return e
}

func (g whenGo) predicate(w *table.When) (string, error) {
	i, ty := g.param(w.Args[0].Name)
	stream := ty.Base == "aclrtStream" && ty.Pointers == 0
	switch {
	case w.Op == "self":
		return fmt.Sprintf("c.self(%d)", i), nil
	case stream:
		return fmt.Sprintf("c.%s(%d)", w.Op, i), nil
	case w.Op == "live" && isPointer(g.t, ty) && !madeHere[ty.Base]:
		return fmt.Sprintf("c.made(%d)", i), nil
	}
	return "", fmt.Errorf("nothing can tell %s(%s)", w.Op, w.Args[0].Name)
}

// madeHere are the handles of what can be made; of all others nothing exists as long as the functions that make it are not built.
var madeHere = map[string]bool{"aclrtContext": true, "aclrtEvent": true, "aclrtNotify": true, "aclrtCntNotify": true, "aclrtDrvMemHandle": true, "aclrtMemPool": true}

func (g whenGo) comparison(w *table.When) (string, error) {
	side := func(o *table.When) (text, typ string, pointer bool) {
		if o.Op == table.WhenNumber {
			return fmt.Sprint(o.N), "", false
		}
		i, ty := g.param(o.Name)
		typ = goType(g.t, ty)
		if typ == "uint64" {
			return fmt.Sprintf("c.a[%d]", i), typ, isPointer(g.t, ty)
		}
		return fmt.Sprintf("%s(c.a[%d])", typ, i), typ, false
	}
	left, lt, pointer := side(w.Args[0])
	right, rt, also := side(w.Args[1])
	switch {
	case lt == "" && rt == "", lt != "" && rt != "" && lt != rt:
		return "", fmt.Errorf("%s and %s cannot be compared", left, right)
	case (pointer || also) && w.Op != "==" && w.Op != "!=":
		return "", fmt.Errorf("a pointer is compared with %s", w.Op)
	case strings.HasPrefix(lt, "u") && rt == "" && w.Args[1].N <= 0 && w.Op == "<":
		return "false", nil
	}
	return left + " " + w.Op + " " + right, nil
}

// goType is the type of package core that a slot is read as.
func goType(t *table.Table, ty table.Type) string {
	if isPointer(t, ty) {
		return "uint64"
	}
	if kind, _ := t.KindOf(ty.Base); kind == table.EnumType {
		return "int32"
	}
	base := ty.Base
	for _, d := range t.Types.Typedefs {
		if d.Name == base {
			base = d.C
		}
	}
	switch base {
	case "int", "int32_t":
		return "int32"
	case "int64_t", "uint32_t", "uint16_t", "uint8_t":
		return strings.TrimSuffix(base, "_t")
	case "bool", "char", "unsigned char":
		return "uint8"
	}
	return "uint64"
}
