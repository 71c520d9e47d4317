package table

import (
	"fmt"
	"regexp"
	"strings"
)

// nameRE matches the name of a rule: words of letters and digits, which may be those of parameters and fields.
var nameRE = regexp.MustCompile(`^[A-Za-z0-9]+([-.][A-Za-z0-9]+)*$`)

// maxName limits the length of a name that follows from an expression; a longer one is harder to read than a name that
// somebody gives.
const maxName = 40

// nameRules names the rules of f and refuses rules without a name and names that two have.
func (c *checker) nameRules(f *Function) {
	seen := map[string]bool{}
	for i := range f.Rules {
		r := &f.Rules[i]
		derived := ""
		if r.When != "" {
			if w, err := ParseWhen(r.When); err == nil {
				derived = w.name()
			}
		}
		which := r.Name
		switch {
		case r.Name == "":
			r.Name, which = derived, r.If+r.When
		case r.Name == derived:
			c.errorf("%s: rule %s: its name follows from when; leave it out", f.Name, r.Name)
		}
		switch {
		case r.Name == "":
			c.errorf("%s: rule %q has no name", f.Name, which)
		case !nameRE.MatchString(r.Name):
			c.errorf("%s: %q is no name of a rule", f.Name, r.Name)
		case seen[r.Name]:
			c.errorf("%s: two rules are called %s; name this one: %q", f.Name, r.Name, which)
		}
		seen[r.Name] = true
	}
}

// name returns the name of a rule with this expression, "" if it needs one of its own.
func (w *When) name() string {
	if n := w.words(); len(n) <= maxName {
		return n
	}
	return ""
}

// words returns the expression as words of a name, "" if it has none.
func (w *When) words() string {
	switch w.Op {
	case "&&", "||":
		return w.joined()
	case "!":
		return w.Args[0].not()
	case "product":
		return "on-" + strings.Join(w.List, "-")
	case "form":
		return "in-" + strings.Join(w.List, "-")
	case "elsewhere":
		return w.Args[0].Name + "-of-other-context"
	}
	switch len(w.Args) {
	case 0:
		return w.Op
	case 1:
		return w.Args[0].Name + "-" + w.Op
	}
	left, right := w.Args[0].operandName(), w.Args[1].operandName()
	if left == "" || right == "" {
		return ""
	}
	if w.Op == "==" && w.Args[1].Op == WhenParam {
		return left + "-is-" + right
	}
	return left + "-" + map[string]string{"==": "", "!=": "not-", "<": "below-", "<=": "at-most-", ">": "over-",
		">=": "at-least-"}[w.Op] + right
}

// not returns the words for an expression that does not hold.
func (w *When) not() string {
	switch w.Op {
	case "context":
		return "no-context"
	case "usable", "physical":
		return w.Args[0].Name + "-unusable"
	case "listed", "product", "form":
		return "not-" + w.words()
	}
	if len(w.Args) != 1 || w.Op == "!" {
		return ""
	}
	return w.Args[0].Name + "-not-" + w.Op
}

// joined returns the words for "&&" and "||". An operand that both sides are about is named once.
func (w *When) joined() string {
	a, b := w.Args[0], w.Args[1]
	left, right := a.words(), b.words()
	switch {
	case left == "" || right == "" || b.Op == "&&" || b.Op == "||":
		return ""
	case w.Op == "&&" && a.Op == "!=" && strings.HasPrefix(right, a.Args[0].Name+"-") && a.Args[1].Name == "NULL":
		return right
	case w.Op == "||" && a.Op == "<" && (b.Op == ">" || b.Op == ">=") && a.Args[0].Name == b.Args[0].Name &&
		b.Args[1].Op == WhenNumber:
		last := b.Args[1].N
		if b.Op == ">=" {
			last--
		}
		return fmt.Sprintf("%s-outside-%s-to-%d", a.Args[0].Name, a.Args[1].operandName(), last)
	}
	if names := w.Operands(); len(names) == 1 {
		right = strings.TrimPrefix(right, names[0]+"-")
	}
	return left + map[string]string{"&&": "-and-", "||": "-or-"}[w.Op] + right
}

// operandName returns an operand as words of a name, "" for a mask. A cast to 32 bits is left out.
func (w *When) operandName() string {
	switch {
	case w.Op == WhenInt32 || w.Op == WhenUint32:
		return w.Args[0].operandName()
	case w.Name == "NULL":
		return "null"
	case w.Op == WhenParam:
		return w.Name
	case w.Op == WhenNumber:
		return strings.Replace(fmt.Sprint(w.N), "-", "minus-", 1)
	}
	return ""
}
