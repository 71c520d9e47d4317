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

// writeEntries writes what the core does for each function number. How a slot becomes a parameter follows from the
// parameter's type in package core, which is read from its source.
func writeEntries(t *table.Table, root string) ([]byte, error) {
	methods, err := coreMethods(root)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "// fingerprint is ROPEWAY_TABLE of the shim that goes with this core.\n"+
		"const fingerprint = 0x%08x\n\n", fingerprint(t))
	b.WriteString("// functionNames are the functions by their numbers.\nvar functionNames = [...]string{\n")
	for _, f := range t.Functions {
		fmt.Fprintf(&b, "%q,\n", f.Name)
	}
	b.WriteString("}\n\n// returnsCode reports which functions return an aclError.\nvar returnsCode = " +
		"[len(functionNames)]bool{\n")
	for i, f := range t.Functions {
		if returnsCode(f) {
			fmt.Fprintf(&b, "%d: true,\n", i)
		}
	}
	b.WriteString("}\n\n// functions carry calls out, by their numbers; nil where a function is not built yet.\n")
	b.WriteString("var functions = [len(functionNames)]func(*thread, *slots) uint64{\n")
	for i, f := range t.Functions {
		if f.Status == table.Core {
			fmt.Fprintf(&b, "%d: %s,\n", i, f.Name)
		}
	}
	b.WriteString("}\n")
	for _, f := range t.Functions {
		if f.Status != table.Core {
			continue
		}
		m := methods[f.Name]
		if m == nil {
			return nil, fmt.Errorf("%s: nothing in internal/core does it", f.Name)
		}
		if err := writeEntry(&b, t, f, m); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return append([]byte("//go:build cgo\n\n"), withImports("main", b.String())...), nil
}

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
}

// call spells a call of the method in a thread.
func (m *method) call(thread string, args []string) string {
	if m.pkg == "core" {
		return fmt.Sprintf("t.%s(%s)", m.name, strings.Join(args, ", "))
	}
	return fmt.Sprintf("%s.%s(%s)", m.pkg, m.name, strings.Join(append([]string{thread}, args...), ", "))
}

// coreMethods finds the method for each C function: it has the function's name without acl or aclrt (or, where that is
// taken, with it), and its comment begins "Method is function".
func coreMethods(root string) (map[string]*method, error) {
	methods := map[string]*method{}
	for _, pkg := range corePackages {
		if err := methodsOf(filepath.Join(root, corePath(pkg)), pkg, methods); err != nil {
			return nil, err
		}
	}
	return methods, nil
}

// corePackages are core and the packages below it.
var corePackages = []string{"core", "launch", "memory", "process", "signal", "transfer"}

// corePath is the directory of one of them, from the root of the module.
func corePath(pkg string) string {
	if pkg == "core" {
		return "internal/core"
	}
	return "internal/core/" + pkg
}

// methodsOf adds the methods that one package has.
func methodsOf(dir, pkg string, methods map[string]*method) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	beside := map[string]bool{}
	fset := token.NewFileSet()
	spell := func(e ast.Expr) string {
		var b bytes.Buffer
		printer.Fprint(&b, fset, e) //nolint:errcheck // to memory
		return strings.ReplaceAll(b.String(), "core.", "")
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
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
			if receiver == nil || spell(receiver.List[0].Type) != "*Thread" || !fn.Name.IsExported() {
				continue
			}
			words := strings.Fields(fn.Doc.Text())
			if len(words) < 3 || words[1] != "is" {
				continue
			}
			api := strings.TrimRight(words[2], ".,:;")
			if bare := strings.TrimPrefix(strings.TrimPrefix(api, "acl"), "rt"); !strings.EqualFold(bare,
				fn.Name.Name) && !strings.EqualFold(api, fn.Name.Name) {
				continue
			}
			m := &method{pkg: pkg, name: fn.Name.Name, beside: beside}
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
			methods[api] = m
		}
	}
	return nil
}

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

func writeEntry(b *bytes.Buffer, t *table.Table, f *table.Function, m *method) error {
	args, err := slotArguments(t, f, m)
	if err != nil {
		return err
	}
	slots := "a"
	if len(args) == 0 {
		slots = "_"
	}
	call := m.call("t.Thread", args)
	result, err := result(m.result, call, f.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\nfunc %s(t *thread, %s *slots) uint64 {\n%s\n}\n", f.Name, slots, result)
	return nil
}

// parameter spells slot i as a parameter of package core.
func parameter(typ string, i int) (string, error) {
	switch typ {
	case "uint64":
		return fmt.Sprintf("a[%d]", i), nil
	case "uint32", "int32", "int64", "uint16":
		return fmt.Sprintf("%s(a[%d])", typ, i), nil
	case "Addr":
		return fmt.Sprintf("core.Addr(a[%d])", i), nil
	case "Handle":
		return fmt.Sprintf("core.Handle(a[%d])", i), nil
	case "float32":
		return fmt.Sprintf("a.float(%d)", i), nil
	case "func(Addr)":
		return fmt.Sprintf("hostFunc(a[%d])", i), nil
	}
	if elem, ok := strings.CutPrefix(typ, "*"); ok {
		if strings.HasPrefix(elem, "*") {
			return "", fmt.Errorf("%s: a Go pointer must not be stored in C memory; make it *Addr", typ)
		}
		return fmt.Sprintf("pointer[%s](a[%d])", qualified(elem), i), nil
	}
	if name, ok := strings.CutPrefix(typ, "abi."); ok {
		return fmt.Sprintf("abi.%s(a[%d])", name, i), nil
	}
	if name, ok := strings.CutPrefix(typ, "Func["); ok {
		typ = strings.TrimSuffix(name, "]")
	}
	if strings.HasSuffix(typ, "Func") { // callbacks.go has one function for each
		return fmt.Sprintf("%s(a[%d])", lowerFirst(typ), i), nil
	}
	return "", fmt.Errorf("no way to make a %s of a slot", typ)
}

// structure spells slot i, which leads to a struct that the program passed by value. It is there for as long as the
// call is, so package core may take it by value or by its address.
func structure(typ string, i int) (string, error) {
	if strings.HasPrefix(typ, "*") {
		return parameter(typ, i)
	}
	a, err := parameter("*"+typ, i)
	return "*" + a, err
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// qualified spells a type of package core outside of it.
func qualified(typ string) string {
	switch typ {
	case "Addr", "Handle":
		return "core." + typ
	}
	return typ
}

// lasting are the functions whose text stays good for ever; other texts do until the thread's next one.
var lasting = map[string]bool{"aclrtGetSocName": true}

// result spells the result of a call as a slot.
func result(typ, call, api string) (string, error) {
	switch typ {
	case "*Error":
		return fmt.Sprintf("return uint64(t.Done(%s))", call), nil
	case "abi.Code", "uint16", "uint32", "uint64", "Addr", "Handle":
		return fmt.Sprintf("return uint64(%s)", call), nil
	case "float32":
		return fmt.Sprintf("return floatSlot(%s)", call), nil
	case "string":
		if lasting[api] {
			return fmt.Sprintf("return lastingText(%s)", call), nil
		}
		return fmt.Sprintf("return t.text(%s)", call), nil
	case "":
		return call + "\nreturn 0", nil
	}
	return "", fmt.Errorf("no way to return a %s", typ)
}
