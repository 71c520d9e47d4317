package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ropeway/spec/table"
)

// ruleToBreak is a rule that has an expression.
type ruleToBreak struct{ *table.Rule }

// holds reports whether the rule applies: on this product, or in strict mode, and by its expression.
func (r ruleToBreak) holds(s *scene) bool {
	only := r.Products != nil || r.Strict
	if only && !(r.Strict && s.strict) && !slices.Contains(r.Products, s.product) {
		return false
	}
	return r.Expr.Holds(s)
}

// ruleCase is a call for which a rule decides.
type ruleCase struct {
	f     *table.Function
	rule  *table.Rule // nil: none applies
	built bool        // the function is
	order bool        // later rules apply too
	more  bool        // another value for what other cases prove; for the core only
	scene *scene
}

// breakable are the rules of f that can be broken on purpose, in their order: those of a function that is not built as
// far as it checks them, else all that have an expression and can apply.
func breakable(f *table.Function) []ruleToBreak {
	var list []ruleToBreak
	checks := f.Checks()
	for i := range f.Rules {
		r := &f.Rules[i]
		if f.Status == table.Later && !slices.Contains(checks, r) || r.Expr == nil || r.Code == nil {
			continue
		}
		if !r.Applies() || !f.ReturnsCode() {
			continue
		}
		list = append(list, ruleToBreak{r})
	}
	return list
}

// ruleCases finds calls that break each rule that has an expression: it alone, and it together with as many later ones
// as can be. They are found by evaluating the expressions here, not by the Go code made of them.
func ruleCases(t *table.Table) ([]ruleCase, error) {
	var cases []ruleCase
	var failed []error
	for _, f := range t.Functions {
		rules := breakable(f)
		if len(rules) == 0 {
			continue
		}
		built := f.Status == table.Core
		start, err := newScene(t, f, rules)
		if err != nil {
			return nil, err
		}
		good := start.clone()
		switch right := good.arrange(rules, nil); {
		case !right:
			good = start
		case !good.unknown && (good.ends == nil || good.ends.Code != nil):
			cases = append(cases, ruleCase{f: f, built: built, scene: good})
		}
		for i, r := range rules {
			s := good.clone()
			alone := s.arrange(slices.Concat(rules[:i], rules[i+1:]), rules[i:i+1])
			if !alone {
				s = good.clone()
			}
			if !alone && !s.arrange(rules[:i], rules[i:i+1]) {
				if !built && slices.ContainsFunc(rules[:i], func(w ruleToBreak) bool { return refusesAll(f, w.Expr) }) {
					continue // a handle of what cannot be made is always refused
				}
				failed = append(failed, fmt.Errorf("%s: rule %s: no arguments found for which it decides; mark it "+
					"shadowed", f.Name, r.Name))
				continue
			}
			cases = append(cases, ruleCase{f: f, rule: r.Rule, built: built, scene: s})
			if worst := s.worst(rules[:i], r, rules[i+1:]); worst != nil {
				cases = append(cases, ruleCase{f: f, rule: r.Rule, built: built, order: true, scene: worst})
			}
			if built {
				for _, o := range s.others(rules[:i], r) {
					cases = append(cases, ruleCase{f: f, rule: r.Rule, built: built, more: true, scene: o})
				}
			}
		}
	}
	return cases, errors.Join(failed...)
}

// worst is a call for which r decides although as many as possible of the later rules apply too; nil if that is s.
func (s *scene) worst(before []ruleToBreak, r ruleToBreak, later []ruleToBreak) *scene {
	worst, broken := s, []ruleToBreak{r}
	for _, l := range later {
		try := worst.clone()
		if wanted := append(slices.Clone(broken), l); try.arrange(before, wanted) {
			worst, broken = try, wanted
		}
	}
	if worst.alike(s) {
		return nil
	}
	return worst
}

// others are the calls that differ from s in one thing that r is about, and that r decides too: other values on the
// wrong side of a limit, other products, other handles that are none.
func (s *scene) others(before []ruleToBreak, r ruleToBreak) []*scene {
	var list []*scene
	add := func(o *scene) {
		known := slices.ContainsFunc(append(list, s), o.alike)
		if !known && o.possible() && r.holds(o) && !slices.ContainsFunc(before,
			func(b ruleToBreak) bool { return b.holds(o) }) {
			list = append(list, o)
		}
	}
	for _, operand := range r.Expr.Operands() {
		for _, v := range s.choices[operand] {
			o := s.clone()
			o.args[operand] = v
			add(o)
		}
	}
	if r.aboutProducts() {
		for _, p := range allProducts {
			o := s.clone()
			o.product, o.form = p, ""
			add(o)
		}
	}
	return list
}

// aboutProducts reports whether the product makes a difference.
func (r ruleToBreak) aboutProducts() bool {
	var about func(w *table.When) bool
	about = func(w *table.When) bool {
		return w.Op == "product" || w.Op == "listed" || slices.ContainsFunc(w.Args, about)
	}
	return r.Products != nil || about(r.Expr)
}

// refusesAll reports whether an expression asks for a handle of something that cannot be made yet.
func refusesAll(f *table.Function, w *table.When) bool {
	if w.Op == "live" {
		_, made := objectOf(f.Param(w.Args[0].Name))
		return !made
	}
	return slices.ContainsFunc(w.Args, func(a *table.When) bool { return refusesAll(f, a) })
}

// decides is the rule of the case; that no rule applies is success, or that the function is not built.
func (c *ruleCase) decides() *table.Rule {
	switch {
	case c.rule != nil:
		return c.rule
	case c.scene.ends != nil:
		return c.scene.ends
	case c.built:
		return &table.Rule{Ret: "ACL_SUCCESS", Code: new(int32)}
	}
	code := int32(207000)
	return &table.Rule{Ret: "ACL_ERROR_RT_FEATURE_NOT_SUPPORT", Code: &code}
}

// name is the name of its rule, "" if none applies.
func (c *ruleCase) name() string {
	if c.rule == nil {
		return ""
	}
	return c.rule.Name
}

// at is the parameter that the rule is about, "" if there is none or several.
func (c *ruleCase) at() string {
	if c.rule == nil || *c.decides().Code == noContextCode {
		return ""
	}
	if params := c.decides().Expr.Params(); len(params) == 1 {
		return params[0]
	}
	return ""
}

// arguments are the values in the order of C. What a pointer leads to comes after it: "memory 8:4:7" has the number 7
// in four bytes at offset 8.
func (c *ruleCase) arguments() []string {
	var list []string
	for _, p := range c.f.C.Params {
		v := c.scene.args[p.Name]
		for _, operand := range c.scene.order {
			if of, field, ok := strings.Cut(operand, "."); ok && of == p.Name && v != "NULL" {
				at := c.scene.t.Field(p.Type.Base, field)
				v += fmt.Sprintf(" %d:%d:%s", at.Offset, at.Size, c.scene.args[operand])
			}
		}
		list = append(list, v)
	}
	return list
}
