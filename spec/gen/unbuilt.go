package main

import (
	"bytes"
	"cmp"
	"fmt"
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
	b.WriteString("package core\n\nimport \"ropeway/internal/abi\"\n\n// unbuiltRules are the leading rules of " +
		"functions that are not built, in checking order.\nvar unbuiltRules = map[string][]unbuiltRule{\n")
	for _, f := range unbuilt(t) {
		fmt.Fprintf(&b, "%q: {\n", f.Name)
		for _, r := range f.Checks() {
			g := whenGo{t, f, unbuiltCall{t, f}}
			expr, err := g.expr(r.Expr)
			if err != nil {
				return nil, fmt.Errorf("%s: rule %s: when %q: %w", f.Name, r.Name, r.When, err)
			}
			fmt.Fprintf(&b, "{code: %s, %s%sapplies: func(%s *unbuiltCall) bool { return %s }},\n",
				n.code(r), quiet(r), unbuiltMessage(g, r), receiver(expr), expr)
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n\n// outside are the functions of other parts of the toolkit than the runtime.\n" +
		"var outside = map[string]bool{\n")
	for _, f := range t.Functions {
		if f.Outside != nil {
			fmt.Fprintf(&b, "%q: true,\n", f.Name)
		}
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

// unbuiltMessage is what a rule says when it applies: whose fault it is, and why. A rule about the product alone needs
// no text.
func unbuiltMessage(g whenGo, r *table.Rule) string {
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

// unbuiltCall spells what rules are about as slots of core.unbuiltCall.
type unbuiltCall struct {
	t *table.Table
	f *table.Function
}

func (u unbuiltCall) operand(name string) (text, typ string, err error) {
	p := u.f.Param(name)
	if p == nil {
		return "", "", fmt.Errorf("%s is in memory, which a function that is not built does not read", name)
	}
	i := slices.Index(u.f.C.Params, *p)
	typ = goType(u.t, p.Type)
	if typ == "uint64" {
		return fmt.Sprintf("c.a[%d]", i), typ, nil
	}
	return fmt.Sprintf("%s(c.a[%d])", typ, i), typ, nil
}

func (u unbuiltCall) predicate(w *table.When) (string, error) {
	switch w.Op {
	case "context":
		return "c.context()", nil
	case "product", "form":
		return fmt.Sprintf("c.%s(\"%s\")", w.Op, strings.Join(w.List, `", "`)), nil
	}
	if len(w.Args) == 1 {
		p := u.f.Param(w.Args[0].Name)
		i := slices.Index(u.f.C.Params, *p)
		_, made := objectOf(p)
		switch {
		case w.Op == "self":
			return fmt.Sprintf("c.self(%d)", i), nil
		case p.Type.Base == "aclrtStream" && p.Type.Pointers == 0 && slices.Contains(table.WhenOfParam, w.Op):
			return fmt.Sprintf("c.%s(%d)", w.Op, i), nil
		case w.Op == "live" && p.Type.Base == "aclmdlRI" && p.Type.Pointers == 0:
			return fmt.Sprintf("c.liveModel(%d)", i), nil
		case w.Op == "live" && u.t.IsPointer(p) && !made:
			return fmt.Sprintf("c.made(%d)", i), nil
		}
	}
	return "", fmt.Errorf("nothing decides %s", w.Op)
}
