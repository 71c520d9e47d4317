package table

import "fmt"

// Prose is the expression in words, "" where it takes a person to find them. A rule whose condition it gives has no
// other.
func (t *Table) Prose(f *Function, w *When) string {
	of := func(w *When) (name string, handle string) {
		name = w.Args[0].Name
		return name, f.Param(name).Type.Base
	}
	switch w.Op {
	case "==", "!=":
		if name := w.Args[0].Name; w.Args[1].Op == WhenNumber && w.Args[1].N == 0 && t.IsPointer(f.Param(name)) {
			return name + map[string]string{"==": " is NULL", "!=": " is not NULL"}[w.Op]
		}
		fallthrough
	case "<", "<=", ">", ">=":
		left, right := w.Args[0].operandText(), w.Args[1].operandText()
		if left != "" && right != "" {
			return fmt.Sprintf("%s %s %s", left, w.Op, right)
		}
	case "elsewhere":
		return w.Args[0].Name + " belongs to another context than the current one"
	case "!":
		switch w.Args[0].Op {
		case "live":
			name, handle := of(w.Args[0])
			return name + " is not " + liveHandle(handle)
		case "usable", "physical":
			name, _ := of(w.Args[0])
			return name + " is not a usable device"
		case "context":
			return "the calling thread has no current context"
		case "listed":
			return "product without the function"
		}
	case "&&":
		left, right := w.Args[0], w.Args[1]
		if left.Op != "!=" || left.Args[1].Op != WhenNumber || right.Op != "!" || right.Args[0].Op != "live" {
			return ""
		}
		if name, handle := of(right.Args[0]); left.Args[0].Name == name {
			return name + " is not NULL and not " + liveHandle(handle) + theDefault[handle]
		}
	}
	return ""
}

func liveHandle(handle string) string {
	if handle == "aclrtStream" {
		return "a live stream handle"
	}
	return "a live handle"
}

// operandText is an operand as it is written, "" for a mask or a cast, which need words.
func (w *When) operandText() string {
	switch w.Op {
	case WhenParam:
		return w.Name
	case WhenNumber:
		return fmt.Sprint(w.N)
	}
	return ""
}

// theDefault is what NULL means where it is accepted.
var theDefault = map[string]string{"aclrtStream": " (NULL means the default stream)"}

// IsPointer reports whether a parameter can be NULL.
func (t *Table) IsPointer(p *Param) bool {
	if p == nil {
		return false
	}
	k, _ := t.KindOf(p.Type.Base)
	return p.Type.Func != nil || p.Type.Pointers > 0 || k == HandleType || k == FuncType
}
