package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// drawn returns what a test file uses of math/rand whose numbers differ from run to run: all functions but those that
// make a source, which has a seed.
func drawn(f *ast.File) (names []string) {
	if !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
		return i.Path.Value == `"math/rand"` || i.Path.Value == `"math/rand/v2"`
	}) {
		return nil
	}
	seeded := []string{"New", "NewPCG", "NewChaCha8", "NewSource", "Rand", "Source"}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "rand" && x.Obj == nil &&
				!slices.Contains(seeded, s.Sel.Name) {
				names = append(names, s.Sel.Name)
			}
		}
		return true
	})
	return names
}

// TestSeeds: every run of the tests does the same. Random numbers come from a source with a seed, and packages that
// use rapid import what fixes its seed.
func TestSeeds(t *testing.T) {
	seeded := module + "internal/testenv/seeded"
	rapid, fixed := map[string]bool{}, map[string]bool{}
	eachFile(t, func(file string) {
		if !strings.HasSuffix(file, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, 0)
		if err != nil {
			t.Error(err)
			return
		}
		for _, name := range drawn(f) {
			t.Errorf("%s: rand.%s draws other numbers in every run; take a source of testenv.Rand", file, name)
		}
		for _, i := range f.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			rapid[path.Dir(file)] = rapid[path.Dir(file)] || p == "pgregory.net/rapid"
			fixed[path.Dir(file)] = fixed[path.Dir(file)] || p == seeded || module+path.Dir(file) == seeded
		}
	})
	for _, dir := range slices.Sorted(maps.Keys(rapid)) {
		if rapid[dir] && !fixed[dir] {
			t.Errorf("%s uses rapid, and does not import %s", dir, seeded)
		}
	}
}

func TestDrawn(t *testing.T) {
	for text, want := range map[string]string{
		`import "math/rand/v2"; func f() { rand.New(rand.NewPCG(1, 2)).IntN(3) }`:                         "",
		`import "math/rand/v2"; func f() { rand.IntN(3); rand.Perm(3) }`:                                  "IntN Perm",
		`import "math/rand"; func f(r rand.Rand) { rand.Shuffle(2, nil) }`:                                "Shuffle",
		`import "math/rand/v2"; func f() { var rand interface{ IntN(int) }; rand.IntN(3); _ = 1 }`:        "",
		`import "crypto/rand"; func f() { rand.Read(nil) }`:                                               "",
		`import "math/rand/v2"; func f(s rand.Source) { rand.New(rand.NewChaCha8([32]byte{})).Uint64() }`: "",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x_test.go", "package x; "+text, 0)
		testenv.OK(t, err)
		if got := strings.Join(drawn(f), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
