package table

import (
	"regexp"
	"strings"
)

// Overload is a C++ call form: an inline function that calls a C function.
type Overload struct {
	About string `yaml:"about"` // above this form and those after it; "" after the first
	Form  string `yaml:"form"`
	Calls string `yaml:"calls"`

	Name   string          `yaml:"-"`
	Types  []string        `yaml:"-"` // T and U as far as the form has them
	Params []OverloadParam `yaml:"-"`
	Callee *Function       `yaml:"-"`
	Args   []OverloadArg   `yaml:"-"` // of the callee, in order
}

// OverloadParam is a parameter of a call form.
type OverloadParam struct {
	Type, Name, Default string // Default is "" if there is none
}

// OverloadArg is an argument of the C function that a form calls.
type OverloadArg struct {
	Text   string // a parameter's name or a constant
	Type   string // of the parameter as the form spells it; "" for a constant
	Wanted Param  // the parameter of the C function
	List   bool   // an array of this one element
	Addr   bool   // its address
}

var (
	formRE  = regexp.MustCompile(`^(\w+)\((.*)\)$`)
	paramRE = regexp.MustCompile(`^(.*?)(\w+)(?: = (\w+))?$`)
	constRE = regexp.MustCompile(`^(\d+|[A-Z][A-Z0-9_]*)$`)
	typeRE  = regexp.MustCompile(`\b[TU]\b`)
)

// checkOverload parses a call form and proves that its call fits the C function.
func (c *checker) checkOverload(o *Overload) {
	form, calls := formRE.FindStringSubmatch(o.Form), formRE.FindStringSubmatch(o.Calls)
	if form == nil || calls == nil {
		c.errorf("overloads.yaml: %q calls %q: not of the form name(…)", o.Form, o.Calls)
		return
	}
	where := "overloads.yaml: " + o.Form
	o.Name = form[1]
	types := map[string]string{}
	for _, text := range strings.Split(form[2], ", ") {
		m := paramRE.FindStringSubmatch(text)
		if m == nil || strings.TrimSpace(m[1]) == "" {
			c.errorf("%s: %q is no parameter", where, text)
			return
		}
		p := OverloadParam{strings.TrimSpace(m[1]), m[2], m[3]}
		types[p.Name] = p.Type
		o.Params = append(o.Params, p)
	}
	for _, name := range []string{"T", "U"} {
		if regexp.MustCompile(`\b` + name + `\b`).MatchString(form[2]) {
			o.Types = append(o.Types, name)
		}
	}
	if o.Callee = c.Function(calls[1]); o.Callee == nil {
		c.errorf("%s calls %s, which is no function", where, calls[1])
		return
	}
	var args []string
	if calls[2] != "" {
		args = strings.Split(calls[2], ", ")
	}
	if len(args) != len(o.Callee.C.Params) {
		c.errorf("%s: %d arguments, the function takes %d", where, len(args), len(o.Callee.C.Params))
		return
	}
	for i, text := range args {
		a := OverloadArg{Text: text, Wanted: o.Callee.C.Params[i]}
		if a.List = strings.HasPrefix(text, "{"); a.List {
			a.Text = strings.Trim(text, "{}")
		}
		if a.Addr = strings.HasPrefix(text, "&"); a.Addr {
			a.Text = text[1:]
		}
		a.Type = types[a.Text]
		if a.Type == "" && !constRE.MatchString(a.Text) {
			c.errorf("%s: %q is no parameter", where, a.Text)
		}
		if got := a.plain(); got != "" && got != a.Wanted.Type.C && (got != "size_t" || a.Wanted.Type.C != "uint64_t") {
			c.errorf("%s: %s is %s, %s is %s", where, a.Text, got, a.Wanted.Name, a.Wanted.Type.C)
		}
		o.Args = append(o.Args, a)
	}
}

// plain is the type of the argument for C, with void in the place of a template's type; "" for a constant.
func (a OverloadArg) plain() string {
	t := typeRE.ReplaceAllString(a.Type, "void")
	switch {
	case a.Type == "":
		return ""
	case a.List:
		return t + "*"
	case a.Addr:
		return strings.TrimSuffix(t, "&") + "*"
	}
	return t
}
