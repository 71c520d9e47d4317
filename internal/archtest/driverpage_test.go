package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// TestDriverPage: docs/new-driver.md names every interface, capability and operation of internal/driver, and every
// method of the interfaces that all drivers implement.
func TestDriverPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/new-driver.md"))
	testenv.OK(t, err)
	page := string(text)
	interfaces, operations := driverNames(t)
	if len(interfaces) < 15 || len(operations) < 15 {
		t.Fatalf("only %d interfaces and %d operations", len(interfaces), len(operations))
	}
	named := func(name string) bool {
		return regexp.MustCompile("`" + name + `(\([a-z, ]*\))?` + "`").MatchString(page)
	}
	for _, name := range operations {
		if !named(name) {
			t.Errorf("docs/new-driver.md does not name operation %s", name)
		}
	}
	must := []string{"Driver", "Device", "Queue", "Flag"}
	for name, methods := range interfaces {
		if !slices.Contains(must, name) {
			if !named(name) {
				t.Errorf("docs/new-driver.md does not name interface %s", name)
			}
			continue
		}
		for _, m := range methods {
			if !named(m) {
				t.Errorf("docs/new-driver.md does not name %s.%s", name, m)
			}
		}
	}
	for _, c := range reflect.VisibleFields(reflect.TypeFor[driver.Caps]()) {
		if !named(c.Name) {
			t.Errorf("docs/new-driver.md does not name capability %s", c.Name)
		}
	}
}

// driverNames returns the exported interfaces of internal/driver with their methods, and its operations.
func driverNames(t *testing.T) (interfaces map[string][]string, operations []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "internal/driver/*.go"))
	testenv.OK(t, err)
	interfaces = map[string][]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		testenv.OK(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if i, ok := n.Type.(*ast.InterfaceType); ok && n.Name.IsExported() {
					interfaces[n.Name.Name] = nil
					for _, m := range i.Methods.List {
						for _, name := range m.Names {
							interfaces[n.Name.Name] = append(interfaces[n.Name.Name], name.Name)
						}
					}
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					if len(name.Name) > 2 && strings.HasPrefix(name.Name, "Op") {
						operations = append(operations, name.Name)
					}
				}
			}
			return true
		})
	}
	return interfaces, operations
}
