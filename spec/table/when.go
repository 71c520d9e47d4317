package table

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// When is the condition of a rule as an expression, beside its prose:
//
//	stream != NULL && !live(stream)
//	mode < 0 || mode > 2
//	product(310B, 910)
//
// An operand is a parameter, a whole number or NULL. The operators are those of C: == != < <= > >= && || and !, with
// parentheses. The predicates are
//
//	live(p)       the handle p names an object that exists
//	elsewhere(s)  the stream s belongs to another context than the current one
//	captured(s)   the stream s is being captured
//	bound(s)      the stream s is bound to a model
//	self(n)       n is the number of the calling process
//	context()     the calling thread has a current context
//	product(…)    the product is one of these
//	form(EP|RC)   the program runs there
type When struct {
	Op   string // "&&", "||", "!", a comparison, or the name of a predicate
	Args []*When
	Name string   // of the parameter, where Op is "param"
	N    int64    // where Op is "number"; NULL is 0
	List []string // of product and form
}

// Kinds of leaves.
const (
	WhenParam  = "param"
	WhenNumber = "number"
)

// WhenOfParam are the predicates about a parameter.
var WhenOfParam = []string{"live", "elsewhere", "captured", "bound", "self"}

var whenToken = regexp.MustCompile(`^\s*(&&|\|\||[=!<>]=|[<>!(),]|-?[0-9]+[A-Z]?|[A-Za-z_][A-Za-z0-9_]*)`)

type whenParser struct{ tokens []string }

// ParseWhen parses an expression. Names are not resolved.
func ParseWhen(text string) (*When, error) {
	p := &whenParser{}
	for rest := text; strings.TrimSpace(rest) != ""; {
		m := whenToken.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("when %q: cannot read %q", text, rest)
		}
		p.tokens = append(p.tokens, m[1])
		rest = rest[len(m[0]):]
	}
	w, err := p.or()
	if err == nil && len(p.tokens) > 0 {
		err = fmt.Errorf("%q is left over", p.tokens[0])
	}
	if err != nil {
		return nil, fmt.Errorf("when %q: %w", text, err)
	}
	return w, nil
}

func (p *whenParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *whenParser) next() string {
	t := p.peek()
	if t != "" {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *whenParser) or() (*When, error)  { return p.chain("||", p.and) }
func (p *whenParser) and() (*When, error) { return p.chain("&&", p.unary) }

func (p *whenParser) chain(op string, part func() (*When, error)) (*When, error) {
	w, err := part()
	for err == nil && p.peek() == op {
		p.next()
		var right *When
		if right, err = part(); err == nil {
			w = &When{Op: op, Args: []*When{w, right}}
		}
	}
	return w, err
}

func (p *whenParser) unary() (*When, error) {
	switch p.peek() {
	case "!":
		p.next()
		w, err := p.unary()
		return &When{Op: "!", Args: []*When{w}}, err
	case "(":
		p.next()
		w, err := p.or()
		if err == nil && p.next() != ")" {
			err = errors.New("a parenthesis is open")
		}
		return w, err
	}
	if len(p.tokens) > 1 && p.tokens[1] == "(" {
		return p.predicate()
	}
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	op := p.next()
	if !slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, op) {
		return nil, fmt.Errorf("%q is no comparison", op)
	}
	right, err := p.operand()
	return &When{Op: op, Args: []*When{left, right}}, err
}

func (p *whenParser) predicate() (*When, error) {
	w := &When{Op: p.next()}
	p.next()
	var list []string
	for p.peek() != ")" {
		if p.peek() == "" {
			return nil, fmt.Errorf("%s( is not closed", w.Op)
		}
		if t := p.next(); t != "," {
			list = append(list, t)
		}
	}
	p.next()
	switch {
	case slices.Contains(WhenOfParam, w.Op) && len(list) == 1:
		w.Args = []*When{{Op: WhenParam, Name: list[0]}}
	case w.Op == "context" && len(list) == 0:
	case (w.Op == "product" || w.Op == "form") && len(list) > 0:
		w.List = list
	default:
		return nil, fmt.Errorf("%s(%s) is no predicate", w.Op, strings.Join(list, ", "))
	}
	return w, nil
}

func (p *whenParser) operand() (*When, error) {
	t := p.next()
	if t == "NULL" {
		return &When{Op: WhenNumber}, nil
	}
	if n, err := strconv.ParseInt(t, 10, 64); err == nil {
		return &When{Op: WhenNumber, N: n}, nil
	}
	if t == "" || !regexp.MustCompile(`^[A-Za-z_]`).MatchString(t) {
		return nil, fmt.Errorf("%q is no operand", t)
	}
	return &When{Op: WhenParam, Name: t}, nil
}

// Params lists the parameters that the expression names, in order, each once.
func (w *When) Params() []string {
	var list []string
	if w.Op == WhenParam {
		list = append(list, w.Name)
	}
	for _, a := range w.Args {
		for _, name := range a.Params() {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

// State is what an expression is about: arguments and the caller's situation.
type State interface {
	Value(param string) int64        // of a number; of a pointer or handle 0 or not
	Is(predicate, param string) bool // for WhenOfParam
	Context() bool
	Product() string
	Form() string
}

// Holds evaluates the expression. The product does not: it has the same as Go code; this is for tests and generators.
func (w *When) Holds(s State) bool {
	switch w.Op {
	case "&&":
		return w.Args[0].Holds(s) && w.Args[1].Holds(s)
	case "||":
		return w.Args[0].Holds(s) || w.Args[1].Holds(s)
	case "!":
		return !w.Args[0].Holds(s)
	case "live", "elsewhere", "captured", "bound", "self":
		return s.Is(w.Op, w.Args[0].Name)
	case "context":
		return s.Context()
	case "product":
		return slices.Contains(w.List, s.Product())
	case "form":
		return slices.Contains(w.List, s.Form())
	}
	value := func(o *When) int64 {
		if o.Op == WhenParam {
			return s.Value(o.Name)
		}
		return o.N
	}
	a, b := value(w.Args[0]), value(w.Args[1])
	switch w.Op {
	case "==":
		return a == b
	case "!=":
		return a != b
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	}
	return a >= b
}

// Checks returns the rules that a function which is not built can check, with their numbers: those with an expression, up to
// the first that has none and may apply. One that needs what is not built cannot.
func (f *Function) Checks() map[int]*When {
	checks := map[int]*When{}
	if f.C.Return.Base != "aclError" || f.C.Return.Pointers > 0 {
		return checks
	}
	for i, r := range f.Rules {
		if kind := r.Mark.Kind(); kind == "needs" || kind == "shadowed" {
			continue
		}
		if r.Expr == nil || r.Code == nil {
			break
		}
		checks[i+1] = r.Expr
	}
	return checks
}

// checkWhen parses the expression of a rule and proves that it names parameters of f and products.
func (c *checker) checkWhen(f *Function, where string, r *Rule) {
	if r.When == "" {
		return
	}
	w, err := ParseWhen(r.When)
	if err != nil {
		c.errorf("%s: %v", where, err)
		return
	}
	for _, name := range w.Params() {
		if !slices.ContainsFunc(f.C.Params, func(p Param) bool { return p.Name == name }) {
			c.errorf("%s: when %q: %s is no parameter", where, r.When, name)
			return
		}
	}
	var products func(w *When)
	products = func(w *When) {
		known := Products
		if w.Op == "form" {
			known = []string{"EP", "RC"}
		}
		for _, name := range w.List {
			if !slices.Contains(known, name) {
				c.errorf("%s: when %q: %s is not known", where, r.When, name)
			}
		}
		for _, a := range w.Args {
			products(a)
		}
	}
	products(w)
	r.Expr = w
}
