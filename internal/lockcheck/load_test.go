package lockcheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Load reads the packages that patterns name, without their tests, as the go command builds them in dir.
func Load(dir string, patterns ...string) ([]*Package, error) {
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles, CgoFiles       []string
		DepOnly                 bool
	}
	cmd := exec.Command("go", append([]string{"list", "-trimpath", "-export", "-deps",
		"-json=ImportPath,Dir,Export,GoFiles,CgoFiles,DepOnly"}, patterns...)...)
	cmd.Dir = dir
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, failed.String())
	}
	exports := map[string]string{}
	var wanted []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && len(p.CgoFiles) == 0 {
			wanted = append(wanted, p)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser,
		error) {
		return os.Open(exports[path])
	})
	var all []*Package
	for _, w := range wanted {
		p := &Package{Fset: fset, Info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
			Uses:       map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{},
		}}
		for _, name := range w.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(w.Dir, name), nil,
				parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			p.Files = append(p.Files, f)
		}
		if p.Types, err = (&types.Config{Importer: imports}).Check(w.ImportPath, fset, p.Files, p.Info); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
