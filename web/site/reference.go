package main

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"ropeway/internal/explain"
)

// The lists of what the table has.
const (
	functionsPage = "functions/index.html"
	codesPage     = "codes/index.html"
	typesPage     = "types/index.html"
)

func functionPath(name string) string { return "functions/" + name + ".html" }
func codePath(number int32) string    { return fmt.Sprintf("codes/%d.html", number) }
func typePath(name string) string     { return "types/" + name + ".html" }

// entry is what "ropeway explain" knows of a function, a code, a type or a macro, and its page.
type entry struct {
	*page
	*explain.Answer
}

// entries makes an empty page for each thing that "ropeway explain" knows, in its order, and finds them by all names.
func (s *site) entries(book *explain.Book) error {
	for _, name := range slices.Concat(book.Names(), book.Numbers()) {
		answer, err := book.Find(name)
		if err != nil {
			return err
		}
		p := &page{Class: "api"}
		switch a := answer; {
		case a.Function != nil:
			p.Title, p.Path = a.Function.Name, functionPath(a.Function.Name)
		case a.Code != nil:
			p.Title, p.Path = fmt.Sprintf("%d %s", a.Code.Number, a.Code.Name), codePath(a.Code.Number)
		case a.Type != nil:
			_, bare, tagged := strings.Cut(a.Type.Name, " ")
			if !tagged {
				bare = a.Type.Name
			}
			p.Title, p.Path = bare, typePath(bare)
		case a.Macro != nil:
			bare, _, _ := strings.Cut(a.Macro.Name, "(")
			p.Title, p.Path = bare, typePath(bare)
		default:
			continue // an older name, which no header has
		}
		if len(name) > 1 { // a digit is not a code in a text
			s.names[name] = p.Path
		}
		if s.pages[p.Path] == nil {
			s.add(p)
			s.reference = append(s.reference, entry{p, answer})
		} else if strings.HasPrefix(name, "acl.") {
			s.pages[p.Path].also = name
		}
	}
	return nil
}

// named returns the page of a name, "" if there is none.
func (s *site) named(name string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(name), ";"), "()")
	return s.names[name]
}

// referencePages fills the pages of the table, and makes the lists of them.
func (s *site) referencePages() {
	type list struct {
		*page
		Rows []entry
	}
	functions := list{page: &page{Title: "Functions", Path: functionsPage, Class: "api wide"}}
	codes := list{page: &page{Title: "Error codes", Path: codesPage, Class: "api wide"}}
	types := list{page: &page{Title: "Types and macros", Path: typesPage, Class: "api wide"}}
	for _, e := range s.reference {
		switch {
		case e.Function != nil:
			functions.Rows = append(functions.Rows, e)
			s.fromTemplate(e.page, "function.tmpl", e)
		case e.Code != nil:
			codes.Rows = append(codes.Rows, e)
			s.fromTemplate(e.page, "code.tmpl", e)
		default:
			types.Rows = append(types.Rows, e)
			s.fromTemplate(e.page, "type.tmpl", e)
		}
		e.sections = []section{{text: e.search()}}
	}
	for name, l := range map[string]list{"functions.tmpl": functions, "codes.tmpl": codes, "types.tmpl": types} {
		s.fromTemplate(l.page, name, l)
		l.sections = []section{{}}
		s.add(l.page)
	}
}

// search returns the text by which the search finds the entry.
func (e entry) search() string {
	var words []string
	switch {
	case e.Function != nil:
		f := e.Function
		words = append(words, f.Prototype, f.Python, f.Does, strings.Join(f.Notes, " "))
		for _, r := range f.Rules {
			words = append(words, r.If, r.Ret)
		}
	case e.Code != nil:
		words = append(words, e.Title, e.Code.Meaning, e.Code.Do)
	case e.Type != nil:
		words = append(words, e.Type.Kind, e.Type.C)
		for _, m := range e.Type.Members {
			words = append(words, m.Name)
		}
	default:
		words = append(words, "macro", e.Macro.Text)
	}
	return strings.Join(words, " ")
}

// Wrapped breaks the prototype if it is too long for a line.
func (e entry) Wrapped() string {
	proto := e.Function.Prototype
	name, parameters, _ := strings.Cut(proto, "(")
	parameters = strings.TrimSuffix(parameters, ")")
	if len(proto) <= 90 || strings.Contains(parameters, "(") { // a parameter is a function
		return proto
	}
	return name + "(\n    " + strings.ReplaceAll(parameters, ", ", ",\n    ") + ")"
}

var anyWord = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_.]*[A-Za-z0-9_]|\d{6}`)

// Words returns a text as HTML, with links where it names something of the API.
func (p *page) Words(text string) template.HTML {
	var b strings.Builder
	at := 0
	for _, m := range anyWord.FindAllStringIndex(text, -1) {
		to := p.Site.named(text[m[0]:m[1]])
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
	p.Site = s
	var b bytes.Buffer
	if err := s.template.ExecuteTemplate(&b, name, view); err != nil {
		s.errorf("%s: %w", p.Path, err)
	}
	p.Body = template.HTML(b.String()) //nolint:gosec // by a template that escapes
}
