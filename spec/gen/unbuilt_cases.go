package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ropeway/spec/table"
)

const unbuiltCasesHead = `package conformance

import "ropeway/internal/abi"

// unbuiltCase is a call of a function that is not built, and the rule that decides it.
type unbuiltCase struct {
	function string
	rule     int // 0: none applies, and the function says that it is not built
	code     abi.Code
	quiet    bool
	product  string
	form     string   // "" or "RC"
	context  bool     // the thread has one
	args     []string // NULL, memory, live, elsewhere, dead, self or a number
}

var unbuiltCases = []unbuiltCase{
`

// writeUnbuiltCases writes, for each check of a function that is not built, arguments for which this rule decides and none
// before it applies. They are found by evaluating the expressions here, not by the Go code made of them.
func writeUnbuiltCases(t *table.Table, _ string) ([]byte, error) {
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(unbuiltCasesHead)
	for _, f := range unbuilt(t) {
		checks := f.Checks()
		numbers := slices.Sorted(maps.Keys(checks))
		for i, number := range append(numbers, 0) {
			s := newScene(t, f, checks)
			var before []*table.When
			for _, earlier := range numbers[:i] {
				before = append(before, checks[earlier])
			}
			if !s.arrange(before, checks[number]) {
				if slices.ContainsFunc(before, func(w *table.When) bool { return refusesAll(f, w) }) {
					continue // a handle of what cannot be made is always refused
				}
				return nil, fmt.Errorf("%s rule %d: no arguments found for which it decides; mark it shadowed", f.Name, number)
			}
			r := &table.Rule{Ret: "ACL_ERROR_RT_FEATURE_NOT_SUPPORT"}
			if number > 0 {
				r = &f.Rules[number-1]
			}
			fmt.Fprintf(&b, "{%q, %d, %s, %t, %q, %q, %t, []string{", f.Name, number, n.code(r), r.Quiet, s.product, s.form, s.context)
			for _, p := range f.C.Params {
				fmt.Fprintf(&b, "%q, ", s.args[p.Name])
			}
			b.WriteString("}},\n")
		}
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// refusesAll tells whether an expression asks for a handle of something that cannot be made yet.
func refusesAll(f *table.Function, w *table.When) bool {
	if w.Op == "captured" || w.Op == "bound" {
		return true
	}
	if w.Op == "live" {
		return slices.ContainsFunc(f.C.Params, func(p table.Param) bool { return p.Name == w.Args[0].Name && p.Type.Base != "aclrtStream" })
	}
	return slices.ContainsFunc(w.Args, func(a *table.When) bool { return refusesAll(f, a) })
}

// scene is a call that is being arranged: values for its arguments and a situation for the caller.
type scene struct {
	args          map[string]string
	choices       map[string][]string
	order         []string
	product, form string
	context       bool
}

// newScene starts with a call that looks right.
func newScene(t *table.Table, f *table.Function, checks map[int]*table.When) *scene {
	s := &scene{args: map[string]string{}, choices: map[string][]string{}, product: "A2", context: true}
	for _, p := range f.C.Params {
		typ := goType(t, p.Type)
		kind, _ := t.KindOf(p.Type.Base)
		var list []string
		switch {
		case p.Type.Base == "aclrtStream" && p.Type.Pointers == 0:
			list = []string{"live", "NULL", "dead", "elsewhere"}
		case isPointer(t, p.Type) && (kind == table.HandleType && p.Type.Pointers == 0 || kind == table.OpaqueType):
			list = []string{"dead", "NULL"}
		case isPointer(t, p.Type):
			list = []string{"memory", "NULL"}
		default:
			list = numbersFor(p.Name, typ, checks)
		}
		s.order = append(s.order, p.Name)
		s.choices[p.Name], s.args[p.Name] = list, list[0]
	}
	return s
}

// numbersFor are the values of a number that can make a difference: those it is compared with, and their neighbours.
func numbersFor(name, typ string, checks map[int]*table.When) []string {
	list := []string{"1", "0"}
	var look func(w *table.When)
	look = func(w *table.When) {
		if w.Op == "self" && w.Args[0].Name == name {
			list = append(list, "self")
		}
		if len(w.Args) == 2 && w.Args[0].Name == name && w.Args[1].Op == table.WhenNumber {
			for _, v := range []int64{w.Args[1].N - 1, w.Args[1].N, w.Args[1].N + 1} {
				text := strconv.FormatInt(v, 10)
				if !slices.Contains(list, text) && (v >= 0 || !strings.HasPrefix(typ, "u")) {
					list = append(list, text)
				}
			}
		}
		for _, a := range w.Args {
			look(a)
		}
	}
	for _, number := range slices.Sorted(maps.Keys(checks)) {
		look(checks[number])
	}
	return list
}

// arrange changes one thing at a time until none of before holds and want does; a nil want means that nothing is to hold.
func (s *scene) arrange(before []*table.When, want *table.When) bool {
	cost := func() (n int) {
		for _, w := range before {
			if w.Holds(s) {
				n++
			}
		}
		if want != nil && !want.Holds(s) {
			n++
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

// change makes a scene another one, and back takes it back.
type change struct{ do, back func() }

// changes are all that can be done to a scene in one step.
func (s *scene) changes() []change {
	var list []change
	for _, name := range s.order {
		old := s.args[name]
		for _, v := range s.choices[name] {
			list = append(list, change{func() { s.args[name] = v }, func() { s.args[name] = old }})
		}
	}
	product, form, context := s.product, s.form, s.context
	list = append(list, change{func() { s.context = !context }, func() { s.context = context }})
	back := func() { s.product, s.form = product, form }
	for _, p := range []string{"A2", "A3", "950", "310P", "310B", "910"} {
		list = append(list, change{func() { s.product, s.form = p, "" }, back})
	}
	return append(list, change{func() { s.product, s.form = "310B", "RC" }, back})
}

// improve makes the first change, or the first combination of so many, that makes the cost less than now; false if none does.
func (s *scene) improve(list []change, now int, cost func() int, together int) bool {
	for i, c := range list {
		c.do()
		if cost() < now || together > 1 && s.improve(list[i+1:], now, cost, together-1) {
			return true
		}
		c.back()
	}
	return false
}

const selfNumber = 4242 // stands for the calling process

// Value implements table.State.
func (s *scene) Value(param string) int64 {
	switch v := s.args[param]; v {
	case "NULL":
		return 0
	case "memory", "live", "dead", "elsewhere":
		return 1 << 40
	case "self":
		return selfNumber
	default:
		n, _ := strconv.ParseInt(v, 10, 64) //nolint:errcheck // it was written here
		return n
	}
}

// Is implements table.State.
func (s *scene) Is(predicate, param string) bool {
	switch v := s.args[param]; predicate {
	case "live":
		return v == "live" || v == "elsewhere"
	case "elsewhere":
		return v == "elsewhere" && s.context
	case "self":
		return v == "self"
	}
	return false // captured, bound: nothing is
}

// Context implements table.State.
func (s *scene) Context() bool { return s.context }

// Product implements table.State.
func (s *scene) Product() string { return s.product }

// Form implements table.State.
func (s *scene) Form() string {
	if s.form == "" {
		return "EP"
	}
	return s.form
}
