package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestCodes: package ropeway has a constant for every code that the core or its setup returns. A code that is new
// there fails here until the table's rules, or alsoReturned in spec/gen, have it. Codes that are only compared with,
// and those of functions that are not built, are not returned.
func TestCodes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "codes.go"))
	testenv.OK(t, err)
	constants := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(Err\w+) +Code = `).FindAllSubmatch(text, -1) {
		constants[string(m[1])] = true
	}
	if len(constants) < 20 || len(constants) > 90 {
		t.Errorf("%d constants", len(constants))
	}
	used := map[string]string{} // code: where
	code := regexp.MustCompile(`^Err[A-Z]`)
	for _, dir := range []string{"internal/core", "internal/setup"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		testenv.OK(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "unbuilt_rules.go" {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			testenv.OK(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CaseClause:
					n.List = nil // what codes are compared with
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "abi" && code.MatchString(n.Sel.Name) {
						used[n.Sel.Name] = filepath.Base(name)
					}
				}
				return true
			})
		}
	}
	var names []string
	for name := range used {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !constants[name] {
			t.Errorf("%s of %s is no constant of package ropeway", name, used[name])
		}
	}
	if len(names) < 20 {
		t.Errorf("only %v are returned", names)
	}
}
