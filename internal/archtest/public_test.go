package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// public are the packages that programs import.
var public = []string{
	".", "ascend", "check", "driver/cuda", "kernel", "metrics", "metrics/prom", "metrics/otelproducer", "pod",
	"ropewaytest",
}

// TestPublic: what programs see of the public packages is their own: no alias, no type of an internal package in a
// signature or a field, and a comment at every name, so that go doc shows what there is.
func TestPublic(t *testing.T) {
	for _, dir := range public {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		testenv.OK(t, err)
		seen := 0
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			seen++
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			testenv.OK(t, err)
			for _, problem := range leaks(f) {
				t.Errorf("%s: %s", set.Position(problem.at), problem.text)
			}
		}
		if seen == 0 {
			t.Errorf("%s: no files", dir)
		}
	}
}

// leak is something that programs should not see, or should see explained.
type leak struct {
	at   token.Pos
	text string
}

// leaks are what is wrong with what a file exports.
func leaks(f *ast.File) (all []leak) {
	internal := map[string]bool{} // names of internal packages
	for _, i := range f.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		if strings.Contains(p, "/internal/") {
			name := p[strings.LastIndex(p, "/")+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			internal[name] = true
		}
	}
	report := func(at token.Pos, text string) { all = append(all, leak{at, text}) }
	see := func(n ast.Node) { // types that programs see
		if n == nil {
			return
		}
		ast.Inspect(n, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && internal[x.Name] {
					report(s.Pos(), x.Name+"."+s.Sel.Name+" is a type of an internal package")
				}
			}
			return true
		})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(receiver(d.Recv.List[0].Type)) {
				continue
			}
			see(d.Type)
			if d.Doc == nil {
				report(d.Pos(), d.Name.Name+" has no comment")
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if !s.Name.IsExported() {
						continue
					}
					if s.Assign.IsValid() {
						report(s.Pos(), s.Name.Name+" is an alias")
					}
					if d.Doc == nil && s.Doc == nil {
						report(s.Pos(), s.Name.Name+" has no comment")
					}
					if st, ok := s.Type.(*ast.StructType); ok {
						for _, field := range st.Fields.List {
							if len(field.Names) == 0 || field.Names[0].IsExported() {
								see(field.Type)
							}
						}
					} else {
						see(s.Type)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() {
						see(s.Type)
						if s.Type == nil && len(s.Values) == 1 {
							see(s.Values[0]) // its type is the value's
						}
						if d.Doc == nil && s.Doc == nil && s.Comment == nil {
							report(s.Pos(), s.Names[0].Name+" has no comment")
						}
					}
				}
			}
		}
	}
	return all
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestLeaks proves that each kind of leak is seen.
func TestLeaks(t *testing.T) {
	for text, want := range map[string]string{
		"// E is.\ntype E = core.Error":                                         "alias",
		"// F does.\nfunc F() *core.Error { return nil }":                       "core.Error",
		"// S is.\ntype S struct{ E core.Error }":                               "core.Error",
		"// S is.\ntype S struct{ e core.Error }":                               "",
		"// S is.\ntype S struct{ core.Error }":                                 "core.Error",
		"// C is.\nconst C = core.X":                                            "core.X",
		"// C is.\nconst C int = int(core.X)":                                   "",
		"func F() {}":                                                           "no comment",
		"type t struct{}\nfunc (t) F() *core.Error { return nil }":              "",
		"// T is.\ntype T struct{}\nfunc (T) F() {}":                            "no comment",
		"// f does.\nfunc f() *core.Error { return nil }":                       "",
		"// T is.\ntype T[X any] struct{}\nfunc (T[X]) F() *int { return nil }": "no comment",
	} {
		text = "package x\nimport \"ropeway/internal/core\"\nvar _ core.Error\n" + text
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.ParseComments)
		testenv.OK(t, err)
		got := leaks(f)
		if want == "" && len(got) != 0 || want != "" && (len(got) == 0 || !strings.Contains(got[0].text, want)) {
			t.Errorf("%q: %v, want %q", text, got, want)
		}
	}
}
