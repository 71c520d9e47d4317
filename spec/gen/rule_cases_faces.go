package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"ropeway/spec/table"
)

// outside reports whether a case is for programs: a call that is refused, in the simplest way and with later rules
// broken too. Calls with binaries and kernels are made by functions_kernel.c: they need a shared object.
func (c *ruleCase) outside() bool {
	return !c.more && (c.rule != nil || !c.built) && !(c.built && strings.HasSuffix(c.f.Group, "kernel"))
}

// fromC reports whether a program can make the call through a pointer to a function whose parameters are all slots.
func (c *ruleCase) fromC() bool {
	return c.outside() && !slices.ContainsFunc(c.f.C.Params, func(p table.Param) bool {
		return byAddress(c.scene.t, p.Type) || p.Type.Base == "float" && p.Type.Pointers == 0
	})
}

// writeCCases writes the cases for capi/test/testdata/cases.c.
func writeCCases(t *table.Table, _ string) ([]byte, error) {
	cases, err := ruleCases(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, h := range functionHeaders(t) {
		fmt.Fprintf(&b, "#include <%s>\n", table.Included(h))
	}
	b.WriteString("\n/* Calls that a rule refuses, or that say what is not built (without a rule). The arguments " +
		"are explained in cases.c. */\n")
	b.WriteString("static const struct call {\n\tvoid (*function)(void);\n\tconst char *name, *rule;\n\tint code, " +
		"quiet;\n")
	b.WriteString("\tconst char *product, *form;\n\tint strict, context, count;\n\tconst char *arguments[16];\n} " +
		"calls[] = {\n")
	for _, c := range cases {
		if !c.fromC() {
			continue
		}
		r, s := c.decides(), c.scene
		fmt.Fprintf(&b, "\t{(void (*)(void))%s, %q, %q, %d, %d, %q, %q, %d, %d, %d, {",
			c.f.Name, c.f.Name, c.name(), *r.Code, bit(r.Quiet), s.product, s.Form(), bit(s.strict), bit(s.context),
			len(c.f.C.Params))
		for i, a := range c.arguments() {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%q", a)
		}
		b.WriteString("}},\n")
	}
	b.WriteString("};\n")
	return b.Bytes(), nil
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// writePyCases writes the cases for python/tests/test_cases.py: those whose arguments Python can give.
func writePyCases(t *table.Table, _ string) ([]byte, error) {
	forms, err := pyForms(t)
	if err != nil {
		return nil, err
	}
	byName := map[string]*pyForm{}
	for _, f := range forms {
		if !f.special && f.ret == "code" {
			byName[f.fn.Name] = f
		}
	}
	cases, err := ruleCases(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(
		`"""Calls that a rule refuses, or that say what is not built (without a rule); test_cases.py explains the arguments.

Each is (function of Python, function of C, rule, code, quiet, product, form, strict, context, arguments).
"""

CALLS = (
`)
	for _, c := range cases {
		f := byName[c.f.Name]
		if f == nil || !c.outside() {
			continue
		}
		args, ok := c.fromPython(f)
		if !ok {
			continue
		}
		r, s := c.decides(), c.scene
		fmt.Fprintf(&b, "    (%q, %q, %q, %d, %s, %q, %q, %s, %s, (",
			f.path(), c.f.Name, c.name(), *r.Code, pyBool(r.Quiet), s.product, s.form, pyBool(s.strict),
			pyBool(s.context))
		for _, a := range args {
			fmt.Fprintf(&b, "%q, ", a)
		}
		text := strings.TrimSuffix(b.String(), " ")
		if len(args) > 1 {
			text = strings.TrimSuffix(text, ",")
		}
		b.Reset()
		b.WriteString(text + ")),\n")
	}
	b.WriteString(")\n")
	return b.Bytes(), nil
}

// fromPython are the arguments in the order of the form; false if it cannot give one: where the module passes room for
// a result, C never sees NULL.
func (c *ruleCase) fromPython(f *pyForm) ([]string, bool) {
	args := make([]string, len(f.params))
	for i, a := range c.arguments() {
		switch at := f.args[i]; {
		case at >= 0:
			args[at] = a
		case (a == "NULL") != (at == pyNull):
			return nil, false
		}
	}
	return args, true
}
