package compat

import (
	"encoding/json"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

const root = "../.."

// listed is a package as "go list -export" describes it.
type listed struct {
	ImportPath, Name, Export string
	DepOnly                  bool
	Module                   *struct{ Path string }
}

// public reports whether other modules can and should import a package of this one.
func (p *listed) public() bool {
	path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
	first, _, _ := strings.Cut(path, "/")
	return p.Name != "main" && !strings.Contains("/"+path+"/", "/internal/") &&
		!slices.Contains([]string{"capi", "examples", "spec", "tools"}, first)
}

// TestRecordGo: the Go API has everything that the last release had: packages, functions, methods, fields, constants.
func TestRecordGo(t *testing.T) {
	var names []string
	for _, p := range list(t, "./...") {
		if p.public() {
			names = append(names, p.ImportPath)
		}
	}
	exports := map[string]string{}
	var ours []listed
	for _, p := range list(t, append([]string{"-export", "-deps", "-trimpath"}, names...)...) {
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			ours = append(ours, p)
		}
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(filepath.Clean(exports[path]))
	})
	var lines []string
	for _, p := range ours {
		pkg, err := imports.Import(p.ImportPath)
		testenv.OK(t, err)
		lines = append(lines, surface(p.Module.Path, pkg)...)
	}
	if len(ours) < 5 || len(lines) < 200 {
		t.Fatalf("%d packages, %d lines: the record would miss something", len(ours), len(lines))
	}
	Check(t, root, "go", lines)
}

// list asks the go command about packages.
func list(t *testing.T, args ...string) (all []listed) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Name,Export,DepOnly,Module"}, args...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	testenv.OK(t, err)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// surface lists what a package exports. Names of parameters are left out: they may change.
func surface(module string, pkg *types.Package) (lines []string) {
	short := func(p *types.Package) string { return strings.TrimPrefix(strings.TrimPrefix(p.Path(), module), "/") }
	name := "ropeway"
	if below := short(pkg); below != "" {
		name += "/" + below
	}
	text := func(t types.Type) string { return types.TypeString(t, short) }
	add := func(format string, args ...any) { lines = append(lines, name+": "+fmt.Sprintf(format, args...)) }
	add("package %s", pkg.Name())
	for _, id := range pkg.Scope().Names() {
		switch o := pkg.Scope().Lookup(id).(type) {
		case *types.Const:
			if o.Exported() {
				add("const %s %s = %s", id, text(o.Type()), o.Val().ExactString())
			}
		case *types.Var:
			if o.Exported() {
				add("var %s %s", id, text(o.Type()))
			}
		case *types.Func:
			if o.Exported() {
				add("func %s%s", id, strings.TrimPrefix(text(unnamed(o.Signature())), "func"))
			}
		case *types.TypeName:
			if o.Exported() {
				typeSurface(o, text, add)
			}
		}
	}
	return lines
}

// typeSurface lists a type, its exported fields and its methods.
func typeSurface(o *types.TypeName, text func(types.Type) string, add func(string, ...any)) {
	if o.IsAlias() {
		add("type %s = %s", o.Name(), text(types.Unalias(o.Type())))
		return
	}
	named := o.Type().(*types.Named)
	switch u := named.Underlying().(type) {
	case *types.Struct:
		add("type %s struct", text(named))
		for f := range u.Fields() {
			if f.Exported() {
				add("type %s struct, %s %s", o.Name(), f.Name(), text(f.Type()))
			}
		}
	case *types.Interface:
		add("type %s %s", text(named), text(u)) // a method more breaks its implementations
	default:
		add("type %s %s", text(named), text(u))
	}
	set := types.NewMethodSet(types.NewPointer(named))
	for m := range set.Methods() {
		if f, ok := m.Obj().(*types.Func); ok && f.Exported() && !types.IsInterface(named) {
			add("method (%s) %s%s", o.Name(), f.Name(), strings.TrimPrefix(text(unnamed(m.Type().(*types.Signature))),
				"func"))
		}
	}
}

// unnamed is a signature without the names of its parameters.
func unnamed(s *types.Signature) types.Type {
	strip := func(t *types.Tuple) *types.Tuple {
		var vars []*types.Var
		for v := range t.Variables() {
			vars = append(vars, types.NewParam(token.NoPos, nil, "", v.Type()))
		}
		return types.NewTuple(vars...)
	}
	params := slices.Collect(s.TypeParams().TypeParams())
	if len(params) > 0 {
		return s // a type parameter belongs to one signature
	}
	return types.NewSignatureType(nil, nil, nil, strip(s.Params()), strip(s.Results()), s.Variadic())
}
