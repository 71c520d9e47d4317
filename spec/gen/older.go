package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ropeway/spec/table"
)

// writeOlder writes the functions of the layer below the API that functions of the API do the work of.
func writeOlder(t *table.Table, root string) ([]byte, error) {
	built, err := coreMethods(root)
	if err != nil {
		return nil, err
	}
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, f := range t.Functions {
		if f.Same == nil {
			continue
		}
		if err := forward(&b, t, n, built, f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return withImports("older", b.String()), nil
}

// forward writes a function that calls another one, after its own check.
func forward(b *bytes.Buffer, t *table.Table, n *names, built *builtMethods, f *table.Function) error {
	to, err := built.of(f.Same.Function)
	if err != nil {
		return err
	}
	m := &method{pkg: "older", name: upperFirst(bareName(f.Name)), result: "*Error", finders: built.finders}
	for _, p := range f.C.Params {
		typ := goType(t, p.Type)
		if i := slices.Index(f.Same.Args, p.Name); i >= 0 {
			typ = to.params[i]
		} else if isPointer(t, p.Type) {
			typ = "Addr"
		}
		name := p.Name
		if name == "type" { // a keyword of Go
			name = "kind"
		}
		m.names, m.params = append(m.names, name), append(m.params, typ)
	}
	c := &check{n: n, f: f, m: m, bound: map[string]string{}, holds: map[string]string{}}
	c.whenGo = whenGo{t, f, c}
	guard := ""
	if len(ruled(f)) > 0 {
		if err := c.write(&bytes.Buffer{}); err != nil {
			return err
		}
		failed, results := "err != nil", strings.Repeat("_, ", len(c.types))
		if c.early {
			failed, results = "done", results+"done, "
		}
		guard = fmt.Sprintf("if %serr := check%s(t, %s); %s {\nreturn err\n}\n", results, m.name,
			strings.Join(m.names, ", "), failed)
	}
	var args, params []string
	for _, a := range f.Same.Args {
		text, err := argument(f, m, a)
		if err != nil {
			return err
		}
		args = append(args, text)
	}
	body := fmt.Sprintf("%sreturn renamed(%q, %s)", guard, f.Name, to.call("t", args))
	for i, name := range m.names {
		if !strings.Contains(notNamed.Replace(body), " "+name+" ") {
			name = "_"
		}
		params = append(params, name+" "+c.typed(m.params[i]))
	}
	fmt.Fprintf(b, "\n// %s is %s.\nfunc %s(t *core.Thread, %s) *core.Error {\n%s\n}\n", m.name, f.Name, m.name,
		strings.Join(params, ", "), body)
	return nil
}

// argument spells an argument of a call: a parameter of f, a number, or a function of these.
func argument(f *table.Function, m *method, text string) (string, error) {
	if i := slices.IndexFunc(f.C.Params, func(p table.Param) bool { return p.Name == text }); i >= 0 {
		return m.names[i], nil
	}
	if _, err := strconv.Atoi(text); err == nil {
		return text, nil
	}
	name, args := table.ParseCall(text)
	if name == "" {
		return "", fmt.Errorf("%q is no parameter, no number and no call", text)
	}
	for i, a := range args {
		var err error
		if args[i], err = argument(f, m, a); err != nil {
			return "", err
		}
	}
	return name + "(" + strings.Join(args, ", ") + ")", nil
}
