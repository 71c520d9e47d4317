package main

import (
	"fmt"
	"slices"
	"strings"

	"ropeway/spec/table"
)

// whenGo writes expressions of a function's rules as Go.
type whenGo struct {
	t *table.Table
	f *table.Function
	speller
}

// speller spells what expressions are about.
type speller interface {
	operand(name string) (text, typ string, err error)
	predicate(w *table.When) (string, error)
}

func (g whenGo) param(name string) (int, table.Type) {
	i := slices.IndexFunc(g.f.C.Params, func(p table.Param) bool { return p.Name == name })
	return i, g.f.C.Params[i].Type
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
		if from, ok := strings.CutSuffix(e, " != nil"); ok && !strings.Contains(from, " ") {
			return from + " == nil", err
		}
		return "!" + e, err
	case "==", "!=", "<", "<=", ">", ">=":
		return g.comparison(w)
	}
	return g.predicate(w)
}

// group puts parentheses around an alternative inside a conjunction.
func (g whenGo) group(op string, w *table.When, e string) string {
	if op == "&&" && w.Op == "||" && strings.Contains(e, "||") {
		return "(" + e + ")"
	}
	return e
}

// side writes an operand; its type is "" if it is a number.
func (g whenGo) side(o *table.When) (text, typ string, err error) {
	switch o.Op {
	case table.WhenNumber:
		return fmt.Sprint(o.N), "", nil
	case table.WhenMask:
		text, typ, err = g.side(o.Args[0])
		return fmt.Sprintf("%s&%#x", text, o.N), typ, err
	case table.WhenInt32, table.WhenUint32:
		text, _, err = g.side(o.Args[0])
		return o.Op + "(" + text + ")", o.Op, err
	}
	return g.operand(o.Name)
}

func (g whenGo) comparison(w *table.When) (string, error) {
	left, lt, err := g.side(w.Args[0])
	if err != nil {
		return "", err
	}
	right, rt, err := g.side(w.Args[1])
	if err != nil {
		return "", err
	}
	null := w.Args[1].Op == table.WhenNumber && w.Args[1].N == 0
	switch p := g.f.Param(w.Args[0].Name); {
	case lt == "" && rt == "", lt != "" && rt != "" && lt != rt:
		return "", fmt.Errorf("%s and %s cannot be compared", left, right)
	case g.t.IsPointer(p) && w.Op != "==" && w.Op != "!=":
		return "", fmt.Errorf("a pointer is compared with %s", w.Op)
	case strings.HasPrefix(lt, "u") && rt == "" && w.Args[1].N <= 0 && w.Op == "<":
		return "false", nil
	case null && (strings.HasPrefix(lt, "*") || strings.HasPrefix(lt, "func")):
		right = "nil"
	case null && strings.HasPrefix(lt, "Func["):
		left += ".Key"
	case null && strings.HasSuffix(lt, "Func"):
		right = "nil"
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
