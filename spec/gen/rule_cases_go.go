package main

import (
	"bytes"
	"fmt"

	"ropeway/spec/table"
)

const ruleCasesHead = `package conformance

import "ropeway/internal/abi"

// ruleCase is a call, and the rule that decides it.
type ruleCase struct {
	function string
	rule     string // "": none applies; the call succeeds, or the function says that it is not built
	code     abi.Code
	at       string // the parameter that the rule is about, "" if there is none or several
	product  string
	form     string   // "" or "RC"
	context  bool     // the thread has one
	strict   bool     // what the documents forbid is refused
	args     []string // see argument
}

var ruleCases = []ruleCase{
`

// writeRuleCases writes the cases for the core.
func writeRuleCases(t *table.Table, _ string) ([]byte, error) {
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	cases, err := ruleCases(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(ruleCasesHead)
	for _, c := range cases {
		fmt.Fprintf(&b, "{%q, %q, %s, %q, %q, %q, %t, %t, []string{",
			c.f.Name, c.name(), n.code(c.decides()), c.at(), c.scene.product, c.scene.form,
			c.scene.context, c.scene.strict)
		for _, a := range c.arguments() {
			fmt.Fprintf(&b, "%q, ", a)
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// writeRuleCalls writes how the core is called with slots, for the functions that have cases.
func writeRuleCalls(t *table.Table, root string) ([]byte, error) {
	built, err := coreMethods(root)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("// ruleCalls are the functions of ruleCases, called with their arguments as slots.\n" +
		"var ruleCalls = map[string]func(*core.Thread, []uint64) *core.Error{\n")
	for _, f := range t.Functions {
		if f.Status != table.Core || len(breakable(f)) == 0 {
			continue
		}
		m, err := built.of(f)
		if err != nil {
			return nil, err
		}
		args, err := slotArguments(t, f, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		call := m.call("t", args)
		if m.result != "*Error" {
			return nil, fmt.Errorf("%s: its result is no error", f.Name)
		}
		slots := "a"
		if len(args) == 0 {
			slots = "_"
		}
		fmt.Fprintf(&b, "%q: func(t *core.Thread, %s []uint64) *core.Error { return %s },\n", f.Name, slots, call)
	}
	b.WriteString("}\n")
	return withImports("conformance", b.String()), nil
}

// slotArguments spells the arguments of a method of core.Thread as slots.
func slotArguments(t *table.Table, f *table.Function, m *method) ([]string, error) {
	if len(m.params) != len(f.C.Params) {
		return nil, fmt.Errorf("%s.%s has %d parameters, the prototype has %d", m.pkg, m.name, len(m.params),
			len(f.C.Params))
	}
	var args []string
	for i, p := range m.params {
		spell := parameter
		if byAddress(t, f.C.Params[i].Type) {
			spell = structure
		}
		a, err := spell(p, i)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", m.pkg, m.name, err)
		}
		args = append(args, a)
	}
	return args, nil
}
