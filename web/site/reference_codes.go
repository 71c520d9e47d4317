package main

import (
	"fmt"
	"html/template"
	"path"
	"strconv"
	"strings"

	"ropeway/spec/table"
)

// codeView is what the page of an error code shows.
type codeView struct {
	*page
	table.Code
	Layer string
	Names []string // other names of the number
	Do    template.HTML
	By    []returned
	Later int // functions that return it because they are not built
}

// returned is a function that returns a code, and the checks with which it does.
type returned struct {
	Name, Path string
	Rules      []ruleView
}

const notBuilt = "ACL_ERROR_RT_FEATURE_NOT_SUPPORT"

func (s *site) codePages() {
	list := &page{Title: "Error codes", Path: codesPage, Class: "api wide"}
	view := struct {
		*page
		Rows []codeView
	}{page: list}
	seen := map[int32]bool{}
	for _, g := range s.table.Errors.Groups {
		for _, c := range g.Codes {
			if seen[c.Number] {
				continue
			}
			seen[c.Number] = true
			p := &page{Title: fmt.Sprintf("%d %s", c.Number, c.Name), Path: codePath(c.Number), Class: "api"}
			v := s.codeView(p, c, g.Title)
			view.Rows = append(view.Rows, v)
			s.fromTemplate(p, "code.tmpl", v)
			p.sections = []section{{text: fmt.Sprintf("%d %s %s %s", c.Number, c.Name, c.Meaning,
				s.table.AdviceFor(c.Name))}}
			s.add(p)
		}
	}
	s.fromTemplate(list, "codes.tmpl", view)
	list.sections = []section{{}}
	s.add(list)
}

func (s *site) codeView(p *page, c table.Code, layer string) codeView {
	v := codeView{page: p, Code: c, Layer: layer, Do: s.words(p, s.table.AdviceFor(c.Name))}
	for _, other := range s.table.Codes() {
		if other.Number == c.Number && other.Name != c.Name {
			v.Names = append(v.Names, other.Name)
		}
	}
	for _, f := range s.table.Functions {
		if f.Status == table.Later {
			if c.Name == notBuilt {
				v.Later++
			}
			continue
		}
		by := returned{Name: f.Name, Path: p.Rel(functionPath(f.Name))}
		for _, r := range f.Rules {
			if r.Code != nil && *r.Code == c.Number {
				by.Rules = append(by.Rules, ruleView{Name: r.Name, If: s.words(p, r.If), Where: r.Where()})
			}
		}
		if by.Rules != nil {
			v.By = append(v.By, by)
		}
	}
	return v
}

// typeView is what the page of a type shows.
type typeView struct {
	*page
	Name, Kind, Header, C string
	Size, Align           int64
	Members               []memberView
	UsedBy                []navLink
}

type memberView struct {
	Name, Type   string
	Link         string // of Type
	Value        string // of an enumerator
	Offset, Size int64
	Deprecated   bool
}

// File is the name of the page beside the list.
func (v typeView) File() string { return path.Base(typePath(v.Name)) }

// Text is how many members there are, or the C declaration.
func (v typeView) Text() string {
	if v.C != "" {
		return v.C
	}
	return strconv.Itoa(len(v.Members)) + " members"
}

// tagless is a C name without "struct", "enum" or "union".
func tagless(name string) string {
	for _, tag := range []string{"struct ", "enum ", "union "} {
		name = strings.TrimPrefix(name, tag)
	}
	return name
}

// allTypes are the types of the headers and their macros, in the order of the table.
func allTypes(t *table.Table) (all []typeView) {
	for _, e := range t.Types.DeclaredEnums() {
		v := typeView{Name: tagless(e.Name), Kind: "enum", Header: e.Header, Size: 4, Align: 4}
		for _, m := range e.Members {
			value := strconv.FormatInt(m.Value, 10)
			v.Members = append(v.Members, memberView{Name: m.Name, Value: value, Deprecated: m.Deprecated})
		}
		all = append(all, v)
	}
	for _, st := range t.Types.Structs {
		all = append(all, typeView{Name: tagless(st.Name), Kind: st.Kind, Header: st.Header, Size: st.Size,
			Align:   st.Align,
			Members: fields(st.Fields, "")})
	}
	for _, list := range []struct {
		kind  string
		names []table.Named
	}{
		{"handle", t.Types.Handles}, {"typedef", t.Types.Typedefs}, {"opaque struct", t.Types.DeclaredOpaque()},
		{"function pointer", t.Types.FunctionPointers},
	} {
		for _, n := range list.names {
			all = append(all, typeView{Name: tagless(n.Name), Kind: list.kind, Header: n.Header, C: n.C})
		}
	}
	for _, d := range t.Types.Defines {
		name, _, _ := strings.Cut(d.Name, "(")
		text := strings.TrimSpace("#define " + d.Name + " " + d.Text)
		all = append(all, typeView{Name: name, Kind: "macro", Header: d.Header, C: text})
	}
	return all
}

func fields(list []table.Field, in string) (all []memberView) {
	for _, f := range list {
		if f.Type == table.AnonymousUnion {
			all = append(all, fields(f.Fields, in+f.Name)...)
			continue
		}
		ctype := f.Type
		if f.Array != "" {
			ctype += "[" + f.Array + "]"
		}
		all = append(all, memberView{Name: in + f.Name, Type: ctype, Offset: f.Offset, Size: f.Size})
	}
	return all
}

func (s *site) typePages() {
	list := &page{Title: "Types and macros", Path: typesPage, Class: "api wide"}
	view := struct {
		*page
		Rows []typeView
	}{page: list}
	users := map[string][]string{} // functions by the types that they name
	for _, f := range s.table.Functions {
		seen := map[string]bool{}
		for _, word := range anyWord.FindAllString(f.Proto, -1) {
			if !seen[word] {
				seen[word] = true
				users[word] = append(users[word], f.Name)
			}
		}
	}
	for _, v := range allTypes(s.table) {
		v.page = &page{Title: v.Name, Path: typePath(v.Name), Class: "api"}
		words := []string{v.Kind, v.C}
		for i, m := range v.Members {
			if to := s.named(strings.TrimRight(anyWord.FindString(tagless(m.Type)), "*")); to != "" && to != v.Path {
				v.Members[i].Link = v.Rel(to)
			}
			words = append(words, m.Name)
		}
		for _, name := range users[v.Name] {
			v.UsedBy = append(v.UsedBy, navLink{name, v.Rel(functionPath(name))})
		}
		view.Rows = append(view.Rows, v)
		s.fromTemplate(v.page, "type.tmpl", v)
		v.sections = []section{{text: strings.Join(words, " ")}}
		s.add(v.page)
	}
	s.fromTemplate(list, "types.tmpl", view)
	list.sections = []section{{}}
	s.add(list)
}
