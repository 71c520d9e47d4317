// Package explain reports what an error code, a function or a type of the API is, from the table.
package explain

import (
	"fmt"
	"slices"
	"strings"

	"ropeway/internal/product"
	"ropeway/spec/table"
)

// Answer is what there is to say about one name. Exactly one of the pointers is set.
type Answer struct {
	Code     *Code     `json:"code,omitempty"`
	Function *Function `json:"function,omitempty"`
	Type     *Type     `json:"type,omitempty"`
	Macro    *Macro    `json:"macro,omitempty"`
	Outside  *Outside  `json:"outside,omitempty"`
}

// Outside is a name of the vendor's toolkit that is not the runtime's.
type Outside struct {
	Name  string `json:"name"`
	What  string `json:"what"`  // the part it belongs to
	Scope string `json:"scope"` // what ropeway is
	Do    string `json:"do"`    // what one can do
}

// Code is an error code.
type Code struct {
	Number  int32    `json:"number"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"` // other names of the same number
	Meaning string   `json:"meaning"`
	Layer   string   `json:"layer"` // for example "Runtime: caller errors (107xxx)"
	Header  string   `json:"header"`
	Do      string   `json:"do"` // what to do about it
	Answers []Source `json:"answers"`
	NotYet  int      `json:"not_yet,omitempty"` // functions that return it because they are not built
}

// Source is a function that returns a code, and its rules that do.
type Source struct {
	Function string `json:"function"`
	Rules    []Rule `json:"rules"`
}

// Rule is a check of a function; the first that applies decides.
type Rule struct {
	Name   string `json:"name"` // unique in the function
	If     string `json:"if"`
	Code   *int32 `json:"code"`              // nil: passed on from elsewhere
	SuchAs *int32 `json:"such_as,omitempty"` // one of the errors passed on
	Ret    string `json:"ret"`               // name of the code, or from where
	Note   string `json:"note,omitempty"`
	Where  string `json:"where,omitempty"` // products that have it, and whether strict mode has; "": all
	Mark   string `json:"mark,omitempty"`  // "shadowed", "needs", "decided" or ""
	Why    string `json:"why,omitempty"`   // text of the mark
}

// Function is a function of the API.
type Function struct {
	Name        string    `json:"name"`
	Prototype   string    `json:"prototype"`
	Header      string    `json:"header"`
	Group       string    `json:"group"`
	Does        string    `json:"does,omitempty"`
	Outside     *Outside  `json:"outside,omitempty"` // the part that it belongs to, if that is not the runtime
	Calls       string    `json:"calls,omitempty"`   // below the API: the function of it that does the same
	Built       bool      `json:"built"`
	Checked     int       `json:"checked,omitempty"`      // if it is not built: rules that it checks all the same
	LastChecked string    `json:"last_checked,omitempty"` // the last of them
	Deprecated  bool      `json:"deprecated,omitempty"`
	ReplacedBy  string    `json:"replaced_by,omitempty"`
	Products    []Support `json:"products"` // nil: the documents do not say
	Python      string    `json:"python,omitempty"`
	Rules       []Rule    `json:"rules"`
	Notes       []string  `json:"notes,omitempty"`
}

// Support says whether a product has a function.
type Support struct {
	Product string `json:"product"`
	Has     bool   `json:"has"`
}

// Type is an enum, a struct, a union or another named type.
type Type struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"` // enum, struct, union, handle, opaque struct, function pointer, typedef
	Header  string   `json:"header"`
	C       string   `json:"c,omitempty"` // as C declares it, where that is one line
	Size    int64    `json:"size,omitempty"`
	Align   int64    `json:"align,omitempty"`
	Members []Member `json:"members,omitempty"`
	Asked   string   `json:"asked,omitempty"` // the member that was asked for
	UsedBy  []string `json:"used_by"`         // functions
}

// Member is an enumerator, or a field of a struct or union.
type Member struct {
	Name       string `json:"name"`
	Value      *int64 `json:"value,omitempty"` // of an enumerator
	Type       string `json:"type,omitempty"`  // of a field, with [n] for an array
	Offset     int64  `json:"offset,omitempty"`
	Size       int64  `json:"size,omitempty"`
	Deprecated bool   `json:"deprecated,omitempty"`
}

// Macro is a constant of the headers that is no error code.
type Macro struct {
	Name   string `json:"name"`
	Text   string `json:"text"`
	Header string `json:"header"`
}

func (b *Book) code(first table.Code, group *table.CodeGroup) *Code {
	c := &Code{Number: first.Number, Name: first.Name, Meaning: first.Meaning, Layer: group.Title, Header: first.Header,
		Do: b.t.AdviceFor(first.Name), Answers: []Source{}}
	for _, other := range b.t.Codes() {
		if other.Number == first.Number && other.Name != first.Name {
			c.Aliases = append(c.Aliases, other.Name)
		}
	}
	for _, f := range b.t.Functions {
		if f.Status == table.Later {
			if first.Name == notSupported {
				c.NotYet++
			}
			continue
		}
		var found []Rule
		for _, r := range rules(f) {
			if r.Code != nil && *r.Code == first.Number {
				found = append(found, r)
			}
		}
		if found != nil {
			c.Answers = append(c.Answers, Source{f.Name, found})
		}
	}
	return c
}

// notSupported is what functions that are not built return.
const notSupported = "ACL_ERROR_RT_FEATURE_NOT_SUPPORT"

func rules(f *table.Function) []Rule {
	list := []Rule{}
	for _, r := range f.Rules {
		list = append(list, Rule{r.Name, r.If, r.Code, r.SuchAs, r.Ret, r.Note, r.Where(), r.Mark.Kind(),
			r.Mark.Text()})
	}
	return list
}

func function(f *table.Function) *Function {
	a := &Function{Name: f.Name, Prototype: f.Proto, Header: f.Header, Group: f.Group, Does: f.Does,
		Built:      f.Status == table.Core,
		Deprecated: f.Deprecated, ReplacedBy: f.ReplacedBy, Rules: rules(f), Notes: f.Notes}
	if f.Outside != nil {
		a.Outside = &Outside{f.Name, f.Outside.What, table.Scope, f.Outside.Do}
	}
	if f.Same != nil {
		a.Calls = f.Same.Function.Name
	}
	if f.Form != nil {
		a.Python = f.Form.Text
	}
	if !a.Built {
		for _, r := range f.Checks() {
			a.Checked++
			a.LastChecked = r.Name
		}
	}
	if f.Products == nil {
		return a
	}
	for _, name := range product.Names() {
		has := name
		if name == "310" {
			has = "310P" // the documents do not list it; see product.Has
		}
		a.Products = append(a.Products, Support{name, slices.Contains(f.Products, has)})
	}
	return a
}

func (b *Book) enum(e *table.Enum, asked string) *Type {
	a := &Type{Name: e.Name, Kind: "enum", Header: e.Header, Size: 4, Align: 4, Asked: asked, UsedBy: b.usedBy(e.Name)}
	for _, m := range e.Members {
		a.Members = append(a.Members, Member{Name: m.Name, Value: &m.Value, Deprecated: m.Deprecated})
	}
	return a
}

func (b *Book) structure(s *table.Struct) *Type {
	a := &Type{Name: s.Name, Kind: s.Kind, Header: s.Header, Size: s.Size, Align: s.Align, UsedBy: b.usedBy(s.Name)}
	a.Members = fields(s.Fields, "")
	return a
}

// fields lists fields and, after a union without a name, what is in it.
func fields(list []table.Field, in string) (all []Member) {
	for _, f := range list {
		m := Member{Name: in + f.Name, Type: f.Type, Offset: f.Offset, Size: f.Size}
		if f.Array != "" {
			m.Type += "[" + f.Array + "]"
		}
		if f.Type != table.AnonymousUnion {
			all = append(all, m)
			continue
		}
		name := in
		if f.Name != "" {
			name += f.Name + "."
		}
		all = append(all, fields(f.Fields, name)...)
	}
	return all
}

func (b *Book) named(kind string, n table.Named) *Type {
	t := &Type{Name: n.Name, Kind: kind, Header: n.Header, C: n.C, UsedBy: b.usedBy(n.Name)}
	if size, ok := b.t.SizeOf(n.Name); ok {
		t.Size, t.Align = size.Size, size.Align
	}
	return t
}

// usedBy lists the functions that take or return the type.
func (b *Book) usedBy(name string) []string {
	name = withoutTag(name)
	list := []string{}
	for _, f := range b.t.Functions {
		if mentions(f.C, name) {
			list = append(list, f.Name)
		}
	}
	return list
}

// withoutTag takes "struct ", "enum " or "union " off.
func withoutTag(name string) string {
	for _, tag := range []string{"struct ", "enum ", "union "} {
		if bare, found := strings.CutPrefix(name, tag); found {
			return bare
		}
	}
	return name
}

func mentions(p table.Prototype, name string) bool {
	is := func(t table.Type) bool {
		if t.Func != nil {
			return mentions(*t.Func, name)
		}
		return withoutTag(t.Base) == name
	}
	return is(p.Return) || slices.ContainsFunc(p.Params, func(q table.Param) bool { return is(q.Type) })
}

// String names the kind and the name, for messages.
func (a *Answer) String() string {
	switch {
	case a.Code != nil:
		return fmt.Sprintf("code %d %s", a.Code.Number, a.Code.Name)
	case a.Function != nil:
		return "function " + a.Function.Name
	case a.Type != nil:
		return a.Type.Kind + " " + a.Type.Name
	case a.Outside != nil:
		return "not of the runtime: " + a.Outside.Name
	}
	return "macro " + a.Macro.Name
}
