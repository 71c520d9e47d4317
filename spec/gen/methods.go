package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"strings"

	"ropeway/spec/table"
)

// method is what does the work of a function of the API: a method of core.Thread, or a function of a package below
// core with a thread as its first parameter.
type method struct {
	pkg    string // "core", or the package below it
	name   string
	names  []string
	params []string // types as package core spells them
	result string
	checks bool            // the file calls its generated check
	beside map[string]bool // functions of the package, if that is not core

	// what checks of rules return beside the error: functions of the package, else methods of core.Thread, by their
	// names, and the type of their first result as the package spells it
	finders map[string]string
}

// call spells a call of the method in a thread.
func (m *method) call(thread string, args []string) string {
	if m.pkg == "core" {
		return fmt.Sprintf("t.%s(%s)", m.name, strings.Join(args, ", "))
	}
	return fmt.Sprintf("%s.%s(%s)", m.pkg, m.name, strings.Join(append([]string{thread}, args...), ", "))
}

// builtMethods are the methods by the C functions they are.
type builtMethods struct {
	methods map[string]*method
	// where a function stands that has the name of a C function, in lower case, but not the comment that says so; and
	// where one stands whose comment names a C function, but which is called something else
	uncommented, misnamed map[string]string
	finders               map[string]string // of package core, as the packages below it spell them
}

// of is the method of a function. The error says what to write, and where.
func (b *builtMethods) of(f *table.Function) (*method, error) {
	if m := b.methods[f.Name]; m != nil {
		return m, nil
	}
	name := upperFirst(bareName(f.Name))
	comment := fmt.Sprintf("// %s is %s.", name, f.Name)
	if at := b.misnamed[f.Name]; at != "" {
		return nil, fmt.Errorf("%s: the comment at %s says that it is this function, but it has another name; "+
			"call it %s", f.Name, at, name)
	}
	if at := b.uncommented[strings.ToLower(name)]; at != "" {
		return nil, fmt.Errorf("%s: the function at %s does not say which function of the API it is; "+
			"begin its comment with %q", f.Name, at, comment)
	}
	return nil, fmt.Errorf("%s: no function does it; write in a file of internal/core/%s\n\n\t%s\n\tfunc %s(t "+
		"*core.Thread, …) *core.Error\n\nwith a parameter for each of %s, or a method of *Thread in internal/core; "+
		"or set status: later in the table", f.Name, strings.Join(corePackages[1:], ", "), comment, name, f.Proto)
}

// bareName is the name of a C function without acl or aclrt.
func bareName(api string) string { return strings.TrimPrefix(strings.TrimPrefix(api, "acl"), "rt") }

// coreMethods finds the method for each C function: it has the function's name without acl or aclrt (or, where that is
// taken, with it), and its comment begins "Method is function".
func coreMethods(root string) (*builtMethods, error) {
	b := &builtMethods{methods: map[string]*method{}, uncommented: map[string]string{}, misnamed: map[string]string{}}
	shared := map[string]string{}
	for _, pkg := range corePackages {
		finders, err := b.add(root, corePath(pkg), pkg, shared)
		if err != nil {
			return nil, err
		}
		if pkg == "core" { // the first
			shared = finders
		}
		b.finders = finders // in the end those of the last, which has none of its own
	}
	return b, nil
}

// corePackages are core and the packages below it.
var corePackages = []string{"core", "launch", "memory", "model", "process", "signal", "transfer", "older"}

// corePath is the directory of one of them, from the root of the module.
func corePath(pkg string) string {
	if pkg == "core" {
		return "internal/core"
	}
	return "internal/core/" + pkg
}

// add adds the methods that one package has. It returns the finders of the package, and those of core in shared.
func (b *builtMethods) add(root, dir, pkg string, shared map[string]string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	beside, finders := map[string]bool{}, map[string]string{}
	for name, typ := range shared {
		finders[name] = coreType.ReplaceAllString(typ, "${1}core.$2")
	}
	fset := token.NewFileSet()
	verbatim := func(e ast.Expr) string {
		var b bytes.Buffer
		printer.Fprint(&b, fset, e) //nolint:errcheck // to memory
		return b.String()
	}
	spell := func(e ast.Expr) string { return strings.ReplaceAll(verbatim(e), "core.", "") }
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			receiver, params := fn.Recv, fn.Type.Params.List
			if pkg != "core" && fn.Recv == nil && len(params) > 0 {
				beside[fn.Name.Name] = true
				receiver, params = &ast.FieldList{List: params[:1]}, params[1:]
			}
			if receiver == nil || spell(receiver.List[0].Type) != "*Thread" {
				continue
			}
			if r := fn.Type.Results; r.NumFields() == 2 && spell(r.List[len(r.List)-1].Type) == "*Error" {
				finders[fn.Name.Name] = verbatim(r.List[0].Type)
			} else {
				delete(finders, fn.Name.Name)
			}
			if !fn.Name.IsExported() {
				continue
			}
			at := fmt.Sprintf("%s/%s:%d", dir, filepath.Base(path), fset.Position(fn.Pos()).Line)
			words := strings.Fields(fn.Doc.Text())
			if len(words) < 3 || words[1] != "is" || !isAPI(words[2]) {
				b.uncommented[strings.ToLower(fn.Name.Name)] = at
				continue
			}
			api := strings.TrimRight(words[2], ".,:;")
			if !strings.EqualFold(bareName(api), fn.Name.Name) && !strings.EqualFold(api, fn.Name.Name) {
				b.misnamed[api] = at
				continue
			}
			m := &method{pkg: pkg, name: fn.Name.Name, beside: beside, finders: finders}
			for _, p := range params {
				for _, name := range p.Names {
					m.names, m.params = append(m.names, name.Name), append(m.params, spell(p.Type))
				}
			}
			check := "check" + strings.ToUpper(fn.Name.Name[:1]) + fn.Name.Name[1:]
			m.checks = calls(file, check)
			if fn.Type.Results != nil {
				m.result = spell(fn.Type.Results.List[0].Type)
			}
			b.methods[api] = m
		}
	}
	return finders, nil
}

// isAPI reports whether a word begins like a C function of the API, or of the layer below it.
func isAPI(word string) bool { return strings.HasPrefix(word, "acl") || strings.HasPrefix(word, "rt") }

// calls reports whether a file calls a method or a function.
func calls(file *ast.File, name string) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == name
		case *ast.CallExpr:
			id, ok := n.Fun.(*ast.Ident)
			found = found || ok && id.Name == name
		}
		return !found
	})
	return found
}
