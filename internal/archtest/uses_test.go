package archtest

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// listed is what the go command says about a package.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, CgoFiles                  []string
	Imports, TestImports, XTestImports []string
}

// packages are all packages of the module, by their path from the root; "" is the root.
func packages(t *testing.T) map[string]*listed {
	t.Helper()
	list := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,CgoFiles,Imports,TestImports,XTestImports",
		"./...")
	list.Dir = root
	list.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := list.Output()
	testenv.OK(t, err)
	all := map[string]*listed{}
	for in := json.NewDecoder(strings.NewReader(string(out))); in.More(); {
		p := new(listed)
		testenv.OK(t, in.Decode(p))
		path, inside := strings.CutPrefix(p.ImportPath+"/", module)
		if !inside {
			t.Fatalf("%s is not a package of this module", p.ImportPath)
		}
		all[strings.TrimSuffix(path, "/")] = p
	}
	if len(all) < 40 {
		t.Fatalf("only %d packages", len(all))
	}
	return all
}

// testsAlone reports whether the package has nothing but tests, and a comment.
func (p *listed) testsAlone(t *testing.T) bool {
	t.Helper()
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		testenv.OK(t, err)
		imports := func(d ast.Decl) bool { g, ok := d.(*ast.GenDecl); return ok && g.Tok == token.IMPORT }
		if slices.ContainsFunc(f.Decls, func(d ast.Decl) bool { return !imports(d) }) {
			return false
		}
	}
	return true
}

// uses are the packages of the module that a package imports, as the table names them: those below internal/ by
// their path there, public ones in quotes. What only helps tests is left out.
func (p *listed) uses(t *testing.T) (names []string) {
	t.Helper()
	imports := p.Imports
	if p.testsAlone(t) {
		imports = slices.Concat(p.TestImports, p.XTestImports)
	}
	for _, i := range imports {
		path, inside := strings.CutPrefix(i+"/", module)
		path = strings.TrimSuffix(path, "/")
		below, internal := strings.CutPrefix(path, "internal/")
		switch {
		case !inside || strings.HasPrefix(below, "testenv") || i == p.ImportPath:
		case internal:
			names = append(names, below)
		case path == "":
			names = append(names, "`ropeway`")
		default:
			names = append(names, "`"+path+"`")
		}
	}
	return names
}

var (
	packageRow = regexp.MustCompile("(?m)^(\\| (`[^|]*) \\| [^|]* \\|)(.*)\\|$")
	quoted     = regexp.MustCompile("`([^`]+)`")
)

// rowPackages are the packages that the first column of the table names. "…/x" is beside the one before it.
func rowPackages(column string) (paths []string) {
	for _, m := range quoted.FindAllStringSubmatch(column, -1) {
		path := m[1]
		if rest, short := strings.CutPrefix(path, "…/"); short {
			path = paths[len(paths)-1]
			path = path[:strings.LastIndex(path, "/")+1] + rest
		}
		if path == "ropeway" {
			path = ""
		}
		paths = append(paths, path)
	}
	return paths
}

// TestUses: the table of packages in docs/architecture.md has every package, and its column "Uses" is what the packages
// import. ROPEWAY_UPDATE=1 writes the column.
func TestUses(t *testing.T) {
	page := filepath.Join(root, "docs/architecture.md")
	text, err := os.ReadFile(page)
	testenv.OK(t, err)
	before, after, _ := strings.Cut(string(text), "\n## Packages\n")
	table, after, found := strings.Cut(after, "\n## ")
	if !found {
		t.Fatal("the page has no section Packages")
	}
	all := packages(t)
	seen := map[string]bool{}
	fresh := packageRow.ReplaceAllStringFunc(table, func(row string) string {
		m := packageRow.FindStringSubmatch(row)
		var names []string
		goes := false
		paths := rowPackages(m[2])
		for _, path := range paths {
			seen[path] = true
			if p := all[path]; p != nil {
				names = append(names, p.uses(t)...)
				goes = true
			} else if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s is in the table and not in the repository", path)
			}
		}
		if !goes {
			return row
		}
		slices.Sort(names)
		names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
			return slices.Contains(paths, "internal/"+name) || slices.Contains(paths, strings.Trim(name, "`"))
		})
		want := " "
		if len(names) > 0 {
			want = " " + strings.Join(names, ", ") + " "
		}
		if m[3] != want && os.Getenv("ROPEWAY_UPDATE") == "" {
			t.Errorf("%s uses%swhere the table has%s", m[2], want, m[3])
		}
		return m[1] + want + "|"
	})
	for path := range all {
		if !seen[path] {
			t.Errorf("%q is not in the table", path)
		}
	}
	if os.Getenv("ROPEWAY_UPDATE") != "" {
		err := os.WriteFile(page, []byte(before+"\n## Packages\n"+fresh+"\n## "+after), 0o644)
		testenv.OK(t, err)
	}
}

// TestRowPackages proves that the first column is read as people read it.
func TestRowPackages(t *testing.T) {
	for column, want := range map[string]string{
		"`ropeway` (the root)":                             "",
		"`internal/setup/checker`, `…/cudadriver`":         "internal/setup/checker internal/setup/cudadriver",
		"`internal/reduce`, `internal/random`":             "internal/reduce internal/random",
		"`internal/timeline/advice`, `…/perfetto`, `spec`": "internal/timeline/advice internal/timeline/perfetto spec",
	} {
		if got := strings.Join(rowPackages(column), " "); got != want {
			t.Errorf("%s: %q, want %q", column, got, want)
		}
	}
}
