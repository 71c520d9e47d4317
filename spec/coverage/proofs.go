// Package coverage reports which rules of the API table are proven, and by which test.
package coverage

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"ropeway/spec/table"
)

// Proofs are the proofs registered in the sources of the conformance tests.
type Proofs struct {
	Rules     map[string]map[int]bool // function, then rule number from 1
	Behaviour map[string]bool         // function
	Checked   map[string]map[int]bool // rules that generated code checks, as Rules
}

// RuleTest returns the name of the test that proves a rule.
func RuleTest(function string, rule int) string {
	return fmt.Sprintf("TestRules/%s/%02d", function, rule)
}

// BehaviourTest returns the name of the test of a function as a whole.
func BehaviourTest(function string) string { return "TestBehaviour/" + function }

// Scan collects the calls
//
//	prove("aclrtMemcpy", 3, ...)
//	prove("aclrtMemcpy", 3, 4, ...)
//	behaves("aclrtGetRunMode", ...)
//
// in the _test.go files of dir. It parses and does not compile, so it sees
// only literals: a call with a name or a number in a variable is no proof.
func Scan(dir string) (*Proofs, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	p := &Proofs{map[string]map[int]bool{}, map[string]bool{}, map[string]map[int]bool{}}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				p.add(call)
			}
			return true
		})
	}
	return p, nil
}

var checkLine = regexp.MustCompile(`(?m)^\tconst api = "(\w+)"$|\{ // (\d+)$`)

// ScanChecks adds the rules that the checks.go files below dir, which are generated, name in their comments.
func (p *Proofs) ScanChecks(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "checks.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var function string
		for _, m := range checkLine.FindAllSubmatch(text, -1) {
			if len(m[1]) > 0 {
				function = string(m[1])
				p.Checked[function] = map[int]bool{}
			} else if n, err := strconv.Atoi(string(m[2])); err == nil {
				p.Checked[function][n] = true
			}
		}
		return nil
	})
}

func (p *Proofs) add(call *ast.CallExpr) {
	fn, ok := call.Fun.(*ast.Ident)
	if !ok || fn.Name != "prove" && fn.Name != "behaves" || len(call.Args) == 0 {
		return
	}
	text, ok := literal(call.Args[0], token.STRING)
	if !ok {
		return
	}
	name, err := strconv.Unquote(text)
	if err != nil {
		return
	}
	if fn.Name == "behaves" {
		p.Behaviour[name] = true
		return
	}
	for _, arg := range call.Args[1:] {
		text, ok := literal(arg, token.INT)
		if !ok {
			return
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return
		}
		p.Prove(name, n)
	}
}

// Prove counts a rule as proven.
func (p *Proofs) Prove(function string, rule int) {
	if p.Rules[function] == nil {
		p.Rules[function] = map[int]bool{}
	}
	p.Rules[function][rule] = true
}

func literal(e ast.Expr, kind token.Token) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != kind {
		return "", false
	}
	return lit.Value, true
}

// check reports a proof of something the table does not have or does not
// count as core.
func (p *Proofs) check(t *table.Table) error {
	known := func(name string) (*table.Function, error) {
		f := t.Function(name)
		switch {
		case f == nil:
			return nil, fmt.Errorf("a test proves %s, which is not in the table", name)
		case f.Status != table.Core:
			return nil, fmt.Errorf("a test proves %s, whose status is %s", name, f.Status)
		}
		return f, nil
	}
	for name, rules := range p.Rules {
		f, err := known(name)
		if err != nil {
			return err
		}
		for n := range rules {
			if n < 1 || n > len(f.Rules) {
				return fmt.Errorf("a test proves rule %d of %s, which has %d rules", n, name, len(f.Rules))
			}
		}
	}
	for name := range p.Behaviour {
		if _, err := known(name); err != nil {
			return err
		}
	}
	return nil
}
