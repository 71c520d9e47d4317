package main

import (
	"bytes"
	"fmt"
	"html/template"
	"path"
	"regexp"
	"slices"
	"strings"

	"ropeway/spec/table"
)

// The lists of what the table has.
const (
	functionsPage = "functions/index.html"
	codesPage     = "codes/index.html"
	typesPage     = "types/index.html"
)

// names finds the page of a name: a function in C or Python, an error code or its name, a type, an enumerator.
func names(t *table.Table) map[string]string {
	all := map[string]string{}
	add := func(name, to string) {
		if _, there := all[name]; !there {
			all[name] = to
		}
	}
	for _, f := range t.Functions {
		to := functionPath(f.Name)
		add(f.Name, to)
		if f.Form != nil {
			add(f.Form.Module+"."+f.Form.Name, to)
		}
	}
	for _, c := range t.Codes() {
		if c.Number >= 100000 {
			add(fmt.Sprint(c.Number), codePath(c.Number))
		}
		add(c.Name, codePath(c.Number))
	}
	for _, y := range allTypes(t) {
		add(y.Name, typePath(y.Name))
		for _, m := range y.Members {
			if y.Kind == "enum" {
				add(m.Name, typePath(y.Name))
			}
		}
	}
	return all
}

func functionPath(name string) string { return "functions/" + name + ".html" }
func codePath(number int32) string    { return fmt.Sprintf("codes/%d.html", number) }
func typePath(name string) string     { return "types/" + name + ".html" }

// named is the page of a name, "" if there is none.
func (s *site) named(name string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(name), ";"), "()")
	return s.names[name]
}

// functionView is what the page of a function shows.
type functionView struct {
	*page
	*table.Function
	Prototype template.HTML
	Built     bool
	Checked   int // rules that a function checks that is not built
	DoesHTML  template.HTML
	Form      string
	Extra     bool // the form is ours, pyACL has none
	Products  []support
	Rules     []ruleView
	Notes     []template.HTML
	Examples  []exampleView
	Mentions  []*page
	Same      []*table.Function // of the same group
	Uses      []navLink         // types
}

type support struct {
	Product string
	Has     bool
}

type ruleView struct {
	Name     string
	If, Note template.HTML
	Code     *int32
	SuchAs   *int32
	CodePage string
	Ret      string
	Where    string
	Mark     string
	Why      template.HTML
	Quiet    bool
}

// RetHTML is the code's name, which may be broken at its underscores.
func (r ruleView) RetHTML() template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(r.Ret), "_", "_<wbr>")) //nolint:gosec // escaped
}

// reference makes the pages of the table.
func (s *site) reference() {
	for _, f := range s.table.Functions {
		s.functionPage(f)
	}
	s.functionList()
	s.codePages()
	s.typePages()
}

func (s *site) functionPage(f *table.Function) {
	p := &page{Title: f.Name, Path: functionPath(f.Name), Class: "api"}
	v := functionView{
		page: p, Function: f, Prototype: s.words(p, wrap(f.Proto)+";"), Built: f.Status == table.Core,
		DoesHTML: s.words(p, f.Does), Products: supports(f),
	}
	if f.Form != nil {
		v.Form, v.Extra = f.Form.Text, f.Python == nil
		p.also = f.Form.Module + "." + f.Form.Name
	}
	if !v.Built {
		for range f.Checks() {
			v.Checked++
		}
	}
	for _, r := range f.Rules {
		rule := ruleView{Name: r.Name, If: s.words(p, r.If), Note: s.words(p, r.Note), Code: r.Code, SuchAs: r.SuchAs,
			Ret: r.Ret, Where: r.Where(), Mark: r.Mark.Kind(), Why: s.words(p, r.Mark.Text()), Quiet: r.Quiet}
		if r.Code != nil {
			if to := s.named(r.Ret); to != "" {
				rule.CodePage = p.Rel(to)
			}
		}
		v.Rules = append(v.Rules, rule)
	}
	for _, n := range f.Notes {
		v.Notes = append(v.Notes, s.words(p, n))
	}
	v.Examples = s.exampleViews(p, f.Name)
	v.Mentions = s.mentions[p.Path]
	for _, other := range s.table.Functions {
		if other.Group == f.Group && other != f {
			v.Same = append(v.Same, other)
		}
	}
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(f.Proto, -1) {
		if to := s.named(word); strings.HasPrefix(to, "types/") && word != f.Name {
			if link := (navLink{word, p.Rel(to)}); !slices.Contains(v.Uses, link) {
				v.Uses = append(v.Uses, link)
			}
		}
	}
	s.fromTemplate(p, "function.tmpl", v)
	words := []string{f.Proto, v.Form, f.Does, strings.Join(f.Notes, " ")}
	for _, r := range f.Rules {
		words = append(words, r.If, r.Ret)
	}
	p.sections = []section{{text: strings.Join(words, " ")}}
	s.add(p)
}

// supports says which products have a function; nil if the documents do not say.
func supports(f *table.Function) (all []support) {
	if f.Products == nil {
		return nil
	}
	for _, name := range table.Products {
		all = append(all, support{name, slices.Contains(f.Products, name)})
	}
	return all
}

// wrap breaks a prototype that is too long for a line.
func wrap(proto string) string {
	if len(proto) <= 90 {
		return proto
	}
	name, parameters, _ := strings.Cut(proto, "(")
	parameters = strings.TrimSuffix(parameters, ")")
	if strings.Contains(parameters, "(") {
		return proto // a parameter is a function
	}
	return name + "(\n    " + strings.ReplaceAll(parameters, ", ", ",\n    ") + ")"
}

var anyWord = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_.]*[A-Za-z0-9_]|\d{6}`)

// words is text as HTML, with links where it names something of the API.
func (s *site) words(p *page, text string) template.HTML {
	var b strings.Builder
	at := 0
	for _, m := range anyWord.FindAllStringIndex(text, -1) {
		to := s.named(text[m[0]:m[1]])
		if to == "" || to == p.Path {
			continue
		}
		template.HTMLEscape(&b, []byte(text[at:m[0]]))
		fmt.Fprintf(&b, `<a href="%s">%s</a>`, p.Rel(to), text[m[0]:m[1]])
		at = m[1]
	}
	template.HTMLEscape(&b, []byte(text[at:]))
	return template.HTML(b.String()) //nolint:gosec // escaped above
}

func (s *site) fromTemplate(p *page, name string, view any) {
	var b bytes.Buffer
	if err := s.template.ExecuteTemplate(&b, name, view); err != nil {
		s.errorf("%s: %w", p.Path, err)
	}
	p.Body = template.HTML(b.String()) //nolint:gosec // by a template that escapes
}

// functionList is the page of all functions.
func (s *site) functionList() {
	p := &page{Title: "Functions", Path: functionsPage, Class: "api wide"}
	type row struct {
		Name, Path, Group, Form string
		Built, Deprecated       bool
		First                   bool // of its group
		Products                string
		Rules                   int
	}
	view := struct {
		*page
		Rows  []row
		Built int
	}{page: p}
	groups := map[string]bool{}
	for _, f := range s.table.Functions {
		r := row{Name: f.Name, Path: path.Base(functionPath(f.Name)), Group: f.Group, Built: f.Status == table.Core,
			Deprecated: f.Deprecated, Products: strings.Join(f.Products, ", "), Rules: len(f.Rules)}
		if f.Form != nil {
			r.Form = f.Form.Module + "." + f.Form.Name
		}
		if r.Built {
			view.Built++
		}
		r.First, groups[f.Group] = !groups[f.Group], true
		view.Rows = append(view.Rows, r)
	}
	s.fromTemplate(p, "functions.tmpl", view)
	p.sections = []section{{}}
	s.add(p)
}
