package table

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// When is the condition of a rule as an expression:
//
//	stream != NULL && !live(stream)
//	mode < 0 || mode > 2
//	(flag & 0x40) != 0 && flag != 0x40
//	info.mode > 4
//	product(310B, 910)
//
// An operand is a parameter, a field of the struct that a parameter points to, a whole number or NULL. An operand may
// be masked, (a & 3), or cut to 32 bits, int32(a) and uint32(a). The operators are those of C: == != < <= > >= && ||
// and !, with parentheses. The predicates are
//
//	live(p)       the handle p names an object that exists
//	elsewhere(s)  the stream s belongs to another context than the current one
//	captured(s)   the stream s is being captured; a model or an event takes part in an open capture
//	bound(s)      the stream s is bound to a model
//	self(n)       n is the number of the calling process
//	usable(n)     n is the number of a usable device
//	physical(n)   n is the physical number of a usable device
//	open(n)       the process has device n set, or a context on it
//	context()     the calling thread has a current context
//	listed()      the documents of the product list the function
//	product(…)    the product is one of these
//	form(EP|RC)   the program runs there
//
// and those of WhenOfObject, about the object that a handle names.
type When struct {
	Op   string // "&&", "||", "!", a comparison, the name of a predicate, or a kind of operand
	Args []*When
	Name string   // of the parameter, with the field if there is one, where Op is WhenParam; of a number "" or "NULL"
	N    int64    // where Op is WhenNumber; NULL is 0. The mask where Op is WhenMask
	List []string // of product and form
}

// Kinds of operands.
const (
	WhenParam  = "param"
	WhenNumber = "number"
	WhenMask   = "&"
	WhenInt32  = "int32"
	WhenUint32 = "uint32"
)

// WhenOfParam are the predicates about a parameter.
var WhenOfParam = []string{"live", "elsewhere", "captured", "bound", "self", "usable", "physical", "open"}

// WhenOfObject are the predicates about an object, by the type of its handle. The core has a method for each: isIpc for
// ipc.
var WhenOfObject = map[string][]string{
	"aclrtEvent": {
		"deviceOnly", // made with ACL_EVENT_DEVICE_USE_ONLY
		"external",   // made with ACL_EVENT_EXTERNAL
		"ipc",        // made with ACL_EVENT_IPC
		"ex",         // made by aclrtCreateEventExWithFlag
		"waitable",   // streams can wait for it
		"recorded",   // it was, and not reset since
	},
	"aclrtStream": {
		"unwaited", // made with DEVICE_USE_ONLY, PERSISTENT or CPU_SCHEDULE: nothing waits for it
	},
	"aclrtNotify": {
		"imported", // from another process
	},
	"aclmdlRI": {
		"sub",   // it belongs to a condition task
		"built", // by hand
	},
}

// whenOfNothing are the predicates without arguments.
var whenOfNothing = []string{"context", "listed"}

var whenToken = regexp.MustCompile(
	`^\s*(&&|\|\||[=!<>]=|[<>!(),&]|0x[0-9A-Fa-f]+|-?[0-9]+[A-Z]?|[A-Za-z_][A-Za-z0-9_.]*)`)

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
		if p.masked() {
			break
		}
		p.next()
		w, err := p.or()
		if err == nil && p.next() != ")" {
			err = errors.New("a parenthesis is open")
		}
		return w, err
	}
	if len(p.tokens) > 1 && p.tokens[1] == "(" && !whenCast[p.peek()] && p.peek() != "(" {
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
	case OfParam(w.Op) && len(list) == 1:
		w.Args = []*When{{Op: WhenParam, Name: list[0]}}
	case slices.Contains(whenOfNothing, w.Op) && len(list) == 0:
	case (w.Op == "product" || w.Op == "form") && len(list) > 0:
		w.List = list
	default:
		return nil, fmt.Errorf("%s(%s) is no predicate", w.Op, strings.Join(list, ", "))
	}
	return w, nil
}

// OfParam reports whether a predicate has a parameter.
func OfParam(predicate string) bool {
	if slices.Contains(WhenOfParam, predicate) {
		return true
	}
	for _, names := range WhenOfObject {
		if slices.Contains(names, predicate) {
			return true
		}
	}
	return false
}

var whenCast = map[string]bool{WhenInt32: true, WhenUint32: true}

// masked reports whether (a & 3) comes next.
func (p *whenParser) masked() bool { return len(p.tokens) > 2 && p.tokens[2] == "&" }

func (p *whenParser) operand() (*When, error) {
	switch masked := p.masked(); {
	case p.peek() == "(" && masked:
		p.next()
		w, err := p.operand()
		p.next()
		mask, bad := strconv.ParseInt(p.next(), 0, 64)
		if err == nil && (bad != nil || p.next() != ")") {
			err = errors.New("a mask is (a & number)")
		}
		return &When{Op: WhenMask, Args: []*When{w}, N: mask}, err
	case whenCast[p.peek()]:
		w := &When{Op: p.next()}
		if p.next() != "(" {
			return nil, fmt.Errorf("%s needs an operand", w.Op)
		}
		of, err := p.operand()
		if err == nil && p.next() != ")" {
			err = fmt.Errorf("%s( is not closed", w.Op)
		}
		w.Args = []*When{of}
		return w, err
	}
	t := p.next()
	if t == "NULL" {
		return &When{Op: WhenNumber, Name: "NULL"}, nil
	}
	if n, err := strconv.ParseInt(t, 0, 64); err == nil {
		return &When{Op: WhenNumber, N: n}, nil
	}
	if t == "" || !regexp.MustCompile(`^[A-Za-z_]`).MatchString(t) {
		return nil, fmt.Errorf("%q is no operand", t)
	}
	return &When{Op: WhenParam, Name: t}, nil
}

// Params lists the parameters that the expression names, in order, each once, without fields.
func (w *When) Params() []string {
	var list []string
	for _, name := range w.Operands() {
		if name, _, _ = strings.Cut(name, "."); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// Operands is Params with the fields.
func (w *When) Operands() []string {
	var list []string
	if w.Op == WhenParam {
		list = append(list, w.Name)
	}
	for _, a := range w.Args {
		for _, name := range a.Operands() {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

// State is what an expression is about: arguments and the caller's situation.
type State interface {
	Value(operand string) int64      // of a number; of a pointer or handle 0 or not
	Is(predicate, param string) bool // param is "" where the predicate has none
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
	case "product":
		return slices.Contains(w.List, s.Product())
	case "form":
		return slices.Contains(w.List, s.Form())
	}
	switch len(w.Args) {
	case 0:
		return s.Is(w.Op, "")
	case 1:
		return s.Is(w.Op, w.Args[0].Name)
	}
	a, b := w.Args[0].value(s), w.Args[1].value(s)
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

// value evaluates an operand.
func (w *When) value(s State) int64 {
	switch w.Op {
	case WhenParam:
		return s.Value(w.Name)
	case WhenMask:
		return w.Args[0].value(s) & w.N
	case WhenInt32:
		return int64(int32(w.Args[0].value(s)))
	case WhenUint32:
		return int64(uint32(w.Args[0].value(s)))
	}
	return w.N
}

// Checks returns the rules that a function which is not built can check: those with an expression, up to the first that
// has none and may apply. One that needs what is not built cannot.
func (f *Function) Checks() []*Rule {
	if f.C.Return.Base != "aclError" || f.C.Return.Pointers > 0 {
		return nil
	}
	var checks []*Rule
	for i := range f.Rules {
		r := &f.Rules[i]
		if !r.Applies() {
			continue
		}
		if r.Expr == nil || r.Code == nil {
			break
		}
		checks = append(checks, r)
	}
	return checks
}

// checkWhen parses the expression of a rule and proves that it names parameters of f, fields, objects and products.
func (c *checker) checkWhen(f *Function, where string, r *Rule) {
	if r.When == "" {
		return
	}
	w, err := ParseWhen(r.When)
	if err == nil {
		err = c.resolve(f, w)
	}
	if err != nil {
		c.errorf("%s: when %q: %v", where, r.When, err)
		return
	}
	r.Expr = w
	if says := c.Prose(f, w); r.If == "" {
		r.If = says
	} else if r.If == says {
		c.errorf("%s: the condition follows from when %q; leave it out", where, r.When)
	}
}

// resolve finds what an expression names.
func (c *checker) resolve(f *Function, w *When) error {
	known := Products
	if w.Op == "form" {
		known = []string{"EP", "RC"}
	}
	for _, name := range w.List {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s is not known", name)
		}
	}
	if w.Op == WhenParam {
		name, field, _ := strings.Cut(w.Name, ".")
		p := f.Param(name)
		if p == nil {
			return fmt.Errorf("%s is no parameter", name)
		}
		if field != "" && c.Field(p.Type.Base, field) == nil {
			return fmt.Errorf("%s has no field %s", p.Type, field)
		}
	}
	for _, a := range w.Args {
		if err := c.resolve(f, a); err != nil {
			return err
		}
	}
	for handle, names := range WhenOfObject {
		if slices.Contains(names, w.Op) && f.Param(w.Args[0].Name).Type.Base != handle {
			return fmt.Errorf("%s is about an %s", w.Op, handle)
		}
	}
	return nil
}

// Param is the parameter with that name, or nil.
func (f *Function) Param(name string) *Param {
	i := slices.IndexFunc(f.C.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &f.C.Params[i]
}

// Field is a field of a struct, or nil.
func (t *Table) Field(structure, name string) *Field {
	for i := range t.Types.Structs {
		s := &t.Types.Structs[i]
		if s.Name != structure {
			continue
		}
		if k := slices.IndexFunc(s.Fields, func(f Field) bool { return f.Name == name }); k >= 0 {
			return &s.Fields[k]
		}
	}
	return nil
}

var whenBy = regexp.MustCompile(`^([a-z][A-Za-z0-9]*)\(([A-Za-z0-9_, ]*)\)$`)

// ByWork is the check of a rule that the work of the function makes itself, because it depends on what the work finds.
const ByWork = "work"

// checkBy parses the function that checks a rule. The argument context stands for the current context.
func (c *checker) checkBy(f *Function, where string, r *Rule) {
	if r.By == "" || r.By == ByWork && r.When != "" {
		return
	}
	m := whenBy.FindStringSubmatch(r.By)
	if m == nil {
		c.errorf("%s: by %q is not name(arguments)", where, r.By)
		return
	}
	r.Call = &When{Op: m[1]}
	for _, name := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' }) {
		if name != "context" && f.Param(name) == nil {
			c.errorf("%s: by %q: %s is no parameter", where, r.By, name)
		}
		r.Call.Args = append(r.Call.Args, &When{Op: WhenParam, Name: name})
	}
}
