package main

import (
	"bytes"
	"go/ast"
	gobuild "go/build"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"html/template"
	"path/filepath"
	"strings"
)

// goPackages are the packages for programs, by their directories in the repository.
var goPackages = []string{".", "ascend", "kernel", "check", "driver/cuda", "metrics", "metrics/prom",
	"metrics/otelproducer", "pod", "ropewaytest"}

// goImport returns the import path of a package.
func goImport(dir string) string { return filepath.ToSlash(filepath.Join("ropeway", dir)) }

func goPath(importPath string) string { return "go/" + importPath + ".html" }

// goView is what the page of a Go package shows.
type goView struct {
	*page
	Import string
	Doc    template.HTML
	Parts  []goPart
}

// goPart is a declaration with its comment.
type goPart struct {
	ID, Title string // "Stream.Copy", "func (*Stream) Copy"; "" without a heading
	Level     int
	Names     []string // constants and variables that it declares
	Decl, Doc template.HTML
	Examples  []goExample
}

type goExample struct {
	Doc, Code template.HTML
	Output    string
}

// goPackagePages makes a page for each Go package.
func (s *site) goPackagePages() {
	for _, dir := range goPackages {
		if err := s.goPackagePage(dir); err != nil {
			s.errorf("%s: %w", dir, err)
		}
	}
}

func (s *site) goPackagePage(dir string) error {
	where := filepath.Join(s.root, filepath.FromSlash(dir))
	found, err := gobuild.ImportDir(where, 0)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, list := range [][]string{found.GoFiles, found.TestGoFiles, found.XTestGoFiles} {
		for _, name := range list {
			f, err := parser.ParseFile(fset, filepath.Join(where, name), nil, parser.ParseComments)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
	}
	d, err := doc.NewFromFiles(fset, files, goImport(dir))
	if err != nil {
		return err
	}
	p := &page{Title: "Package " + d.Name, Path: goPath(d.ImportPath), Source: strings.TrimPrefix(dir+"/", "./"),
		Class: "api go", also: d.ImportPath}
	w := &goWriter{site: s, page: p, doc: d, fset: fset}
	v := goView{page: p, Import: d.ImportPath, Doc: w.comment(d.Doc)}
	p.sections = []section{{text: d.Doc}}
	w.parts = append(w.parts, goPart{Examples: w.examples(d.Examples)})
	w.values("Constants", "constants", d.Consts)
	w.values("Variables", "variables", d.Vars)
	w.functions(2, d.Funcs)
	for _, t := range d.Types {
		w.add(goPart{ID: t.Name, Title: "type " + t.Name, Level: 2, Examples: w.examples(t.Examples)}, t.Decl, t.Doc)
		w.values("", "", t.Consts)
		w.values("", "", t.Vars)
		w.functions(3, t.Funcs)
		w.functions(3, t.Methods)
	}
	v.Parts = w.parts
	s.fromTemplate(p, "gopackage.tmpl", v)
	s.add(p)
	return nil
}

// goWriter collects the parts of a page.
type goWriter struct {
	site  *site
	page  *page
	doc   *doc.Package
	fset  *token.FileSet
	parts []goPart
}

func (w *goWriter) add(part goPart, decl ast.Node, text string) {
	part.Decl, part.Doc = w.code(decl), w.comment(text)
	if part.ID != "" {
		w.page.TOC = append(w.page.TOC, heading{part.Level, part.ID, part.ID[strings.LastIndexByte(part.ID, '.')+1:]})
		found := section{title: part.ID, anchor: part.ID, text: part.Title + " " + text}
		w.page.sections = append(w.page.sections, found)
	}
	w.parts = append(w.parts, part)
}

func (w *goWriter) values(title, id string, all []*doc.Value) {
	for _, v := range all {
		w.add(goPart{ID: id, Title: title, Level: 2, Names: v.Names}, v.Decl, v.Doc)
		title, id = "", ""
	}
}

func (w *goWriter) functions(level int, all []*doc.Func) {
	for _, f := range all {
		id, title := f.Name, "func "+f.Name
		if f.Recv != "" {
			id = strings.Trim(strings.Split(f.Recv, "[")[0], "*") + "." + f.Name
			title = "func (" + f.Recv + ") " + f.Name
		}
		w.add(goPart{ID: id, Title: title, Level: level, Examples: w.examples(f.Examples)}, f.Decl, f.Doc)
	}
}

// code returns a declaration, without its comment, or the code of an example.
func (w *goWriter) code(decl ast.Node) template.HTML {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		decl = &ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}
	case *ast.GenDecl:
		c := *d
		c.Doc, decl = nil, &c
	}
	var b bytes.Buffer
	if err := format.Node(&b, w.fset, decl); err != nil {
		w.site.errorf("%s: %w", w.page.Path, err)
	}
	return template.HTML(codeBlock("", b.String())) //nolint:gosec // escaped
}

// comment returns a comment as HTML. Names in brackets are links, if they have a page.
func (w *goWriter) comment(text string) template.HTML {
	printer := w.doc.Printer()
	printer.HeadingLevel = 3
	printer.DocLinkURL = func(link *comment.DocLink) string {
		to := w.page.Path
		if link.ImportPath != "" {
			to = goPath(link.ImportPath)
		}
		anchor := link.Name
		if link.Recv != "" {
			anchor = link.Recv + "." + link.Name
		}
		switch {
		case !strings.HasPrefix(to, "go/ropeway"):
			return ""
		case anchor == "":
			return w.page.Rel(to)
		}
		return w.page.Rel(to) + "#" + anchor
	}
	return template.HTML(printer.HTML(w.doc.Parser().Parse(text))) //nolint:gosec // escaped by the printer
}

func (w *goWriter) examples(all []*doc.Example) (views []goExample) {
	for _, e := range all {
		code := ast.Node(e.Code)
		if e.Play != nil {
			code = e.Play
		}
		views = append(views, goExample{Doc: w.comment(e.Doc), Code: w.code(code), Output: e.Output})
	}
	return views
}

// goNavigation lists the packages.
func goNavigation() navGroup {
	group := navGroup{Title: "Go packages"}
	for _, dir := range goPackages {
		group.Links = append(group.Links, navLink{strings.TrimPrefix(goImport(dir), "ropeway/"), goPath(goImport(dir))})
	}
	return group
}
