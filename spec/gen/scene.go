package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ropeway/spec/table"
)

// scene is a call that is being arranged: values for its arguments and a situation for the caller.
type scene struct {
	t             *table.Table
	f             *table.Function
	args          map[string]string // by operand: parameters, and the fields that rules look at
	choices       map[string][]string
	order         []string
	product, form string
	context       bool
	strict        bool
	ends          *table.Rule // that a call ends with to which no expression applies; nil: it succeeds
	unknown       bool        // how such a call ends
}

// newScene starts with a call that looks right.
func newScene(t *table.Table, f *table.Function, rules []ruleToBreak) (*scene, error) {
	s := &scene{t: t, f: f, args: map[string]string{}, choices: map[string][]string{}, product: "A2", context: true}
	if len(f.Products) > 0 && !slices.Contains(f.Products, "A2") {
		s.product = f.Products[0]
	}
	for i := range f.C.Params {
		p := &f.C.Params[i]
		s.offer(p.Name, s.valuesOf(p, rules))
	}
	for _, r := range rules {
		for _, name := range r.Expr.Operands() {
			if strings.Contains(name, ".") && s.choices[name] == nil {
				s.offer(name, numbersFor(name, "int64", rules))
			}
		}
	}
	for _, text := range f.Good {
		name, value, ok := strings.Cut(text, " ")
		switch {
		case text == "none":
			s.unknown = true
		case ok && name == "product":
			s.product = value
		case ok && name == "rule":
			if s.ends = f.Rule(value); s.ends == nil || s.ends.Expr != nil {
				return nil, fmt.Errorf("%s: good %q is no rule without an expression", f.Name, text)
			}
		case ok && s.choices[name] != nil:
			s.choices[name], s.args[name] = append([]string{value}, s.choices[name]...), value
		default:
			return nil, fmt.Errorf("%s: good %q is not about a parameter", f.Name, text)
		}
	}
	return s, nil
}

func (s *scene) offer(operand string, values []string) {
	s.order = append(s.order, operand)
	s.choices[operand], s.args[operand] = values, values[0]
}

// valuesOf are the values of an argument that can make a difference, the first one most likely to be right.
func (s *scene) valuesOf(p *table.Param, rules []ruleToBreak) []string {
	if o, ok := objectOf(p); ok {
		return o.values()
	}
	kind, _ := s.t.KindOf(p.Type.Base)
	switch {
	case p.Type.Func != nil || kind == table.FuncType:
		return []string{"function", "NULL"}
	case s.t.IsPointer(p) && (kind == table.HandleType && p.Type.Pointers == 0 || kind == table.OpaqueType):
		return []string{"unmade", "NULL"}
	case byAddress(s.t, p.Type):
		return []string{"memory"}
	case p.Type.Pointers == 1 && !p.Type.Const && (kind == table.Scalar || kind == table.EnumType ||
		kind == table.HandleType) && p.Type.Base != "char":
		return []string{"room", "NULL"}
	case s.t.IsPointer(p):
		return []string{"memory", "NULL"}
	}
	return numbersFor(p.Name, goType(s.t, p.Type), rules)
}

// numbersFor are the values of a number that can make a difference: those it is compared with, and their neighbours.
func numbersFor(name, typ string, rules []ruleToBreak) []string {
	var list []string
	add := func(values ...int64) {
		for _, v := range values {
			text := strconv.FormatInt(v, 10)
			if !slices.Contains(list, text) && (v >= 0 || !strings.HasPrefix(typ, "u")) {
				list = append(list, text)
			}
		}
	}
	add(1, 0)
	var look func(w *table.When)
	look = func(w *table.When) {
		about := slices.Contains(w.Operands(), name)
		switch {
		case !about:
			return
		case w.Op == "self":
			list = append(list, "self")
		case w.Op == "usable" || w.Op == "physical" || w.Op == "open":
			list = slices.Insert(slices.DeleteFunc(list, func(v string) bool { return v == "0" }), 0, "0")
			add(usableDevices, -1)
		case len(w.Args) == 2 && w.Args[1].Op == table.WhenNumber:
			add(w.Args[1].N-1, w.Args[1].N, w.Args[1].N+1)
		}
		if len(w.Args) == 2 && w.Args[0].Op == table.WhenParam && w.Args[1].Op == table.WhenParam {
			add(2) // one of them can be the larger one, and neither be 0
		}
		if w.Op == table.WhenMask {
			for bit := int64(1); bit <= w.N && bit > 0; bit <<= 1 {
				if w.N&bit != 0 {
					add(bit, bit|1, bit|2)
				}
			}
		}
		if w.Op == table.WhenUint32 || w.Op == table.WhenInt32 {
			add(1<<32, 1<<31)
		}
		for _, a := range w.Args {
			look(a)
		}
	}
	for _, r := range rules {
		look(r.Expr)
	}
	return list
}

// allProducts are those that tests run on.
var allProducts = []string{"A2", "A3", "950", "310P", "310B", "910", "310"}

// usableDevices is how many devices tests run with. Device 0 is set.
const usableDevices = 4

// arrange changes as little as it can until none of never holds and all of always do.
func (s *scene) arrange(never, always []ruleToBreak) bool {
	cost := func() (n int) {
		if !s.possible() {
			n++
		}
		for _, r := range never {
			if r.holds(s) {
				n++
			}
		}
		for _, r := range always {
			if !r.holds(s) {
				n++
			}
		}
		return n
	}
	for now := cost(); now > 0; now = cost() {
		if !s.improve(s.changes(), now, cost, 1) && !s.improve(s.changes(), now, cost, 2) {
			return false
		}
	}
	return true
}

// possible reports whether the product has what the handles name.
func (s *scene) possible() bool {
	return !slices.ContainsFunc(s.f.C.Params, func(p table.Param) bool {
		o, ok := objectOf(&p)
		return ok && !o.existsOn(s.product, s.args[p.Name])
	})
}

// clone is another scene that is alike.
func (s *scene) clone() *scene {
	c := *s
	c.args = maps.Clone(s.args)
	return &c
}

// alike reports whether two scenes make the same call.
func (s *scene) alike(o *scene) bool {
	return maps.Equal(s.args, o.args) && s.product == o.product && s.form == o.form && s.context == o.context &&
		s.strict == o.strict
}

// change makes a scene another one.
type change func(s *scene)

// changes are all that can be done to a scene in one step.
func (s *scene) changes() []change {
	var list []change
	for _, name := range s.order {
		for _, v := range s.choices[name] {
			list = append(list, func(s *scene) { s.args[name] = v })
		}
	}
	list = append(list, func(s *scene) { s.context = !s.context }, func(s *scene) { s.strict = !s.strict })
	for _, p := range allProducts {
		list = append(list, func(s *scene) { s.product, s.form = p, "" })
	}
	return append(list, func(s *scene) { s.product, s.form = "310B", "RC" })
}

// improve makes the first change, or the first combination of so many, that makes the cost less than now; false if none
// does.
func (s *scene) improve(list []change, now int, cost func() int, together int) bool {
	before := s.clone()
	for i, change := range list {
		if change(s); cost() < now || together > 1 && s.improve(list[i+1:], now, cost, together-1) {
			return true
		}
		*s = *before.clone()
	}
	return false
}

const selfNumber = 4242 // stands for the calling process

// Value implements table.State.
func (s *scene) Value(operand string) int64 {
	switch v := s.args[operand]; v {
	case "NULL":
		return 0
	case "self":
		return selfNumber
	default:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
		return 1 << 40
	}
}

// Is implements table.State.
func (s *scene) Is(predicate, param string) bool {
	switch v := s.args[param]; predicate {
	case "context":
		return s.context
	case "listed":
		have := slices.DeleteFunc(slices.Clone(table.Products),
			func(p string) bool { return !slices.Contains(s.f.Products, p) })
		return len(have) == 0 || slices.Contains(have, s.Product())
	case "live":
		o, made := objectOf(s.f.Param(param))
		return made && strings.HasPrefix(v, o.symbol) && !strings.HasSuffix(v, ".dead")
	case "elsewhere":
		return strings.HasSuffix(v, ".elsewhere") && s.context
	case "self":
		return v == "self"
	case "usable", "physical": // tests see all devices, in their order
		n := s.Value(param)
		return n >= 0 && n < usableDevices
	case "open":
		return s.Value(param) == 0
	}
	p := s.f.Param(param)
	o, ok := objectOf(p)
	return ok && o.holds(predicate, s.args[param])
}

// Product implements table.State. The 310 counts as a 310P.
func (s *scene) Product() string {
	if s.product == "310" {
		return "310P"
	}
	return s.product
}

// Form implements table.State.
func (s *scene) Form() string {
	if s.form == "" {
		return "EP"
	}
	return s.form
}
