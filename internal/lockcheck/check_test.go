package lockcheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"
)

// Package is a package with its types.
type Package struct {
	Fset  *token.FileSet
	Files []*ast.File
	Types *types.Package
	Info  *types.Info
}

// Finding is a place where comment and code differ.
type Finding struct {
	Pos  token.Position
	Text string
}

// Check returns what differs in p, in the order of the files.
func Check(p *Package) []Finding {
	found, _ := check(p)
	return found
}

// check is Check, and counts the fields that say by what they are guarded.
func check(p *Package) (found []Finding, guards int) {
	c := &checker{Package: p, guards: map[*types.Var]*types.Var{}, needs: map[*types.Func][]*types.Var{},
		excused: map[string]map[int]bool{}, program: map[*types.Var]bool{}}
	for _, f := range p.Files {
		c.excuses(f)
	}
	for _, f := range p.Files {
		ast.Inspect(f, c.annotation)
	}
	for _, f := range p.Files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				c.requirement(d)
				c.entry(d)
			}
		}
	}
	c.passOn()
	for _, f := range p.Files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil && !strings.Contains(d.Doc.Text(), "lockcheck:") {
				c.function(d)
			}
		}
	}
	return c.found, len(c.guards)
}

type checker struct {
	*Package
	guards  map[*types.Var]*types.Var    // the mutex of a field
	needs   map[*types.Func][]*types.Var // what callers of a function have locked
	excused map[string]map[int]bool      // lines with "lockcheck:", by file
	program map[*types.Var]bool          // parameters that point to the program's memory
	found   []Finding

	own map[*types.Var]bool // variables whose value the function has made itself
}

func (c *checker) report(at token.Pos, text string) {
	pos := c.Fset.Position(at)
	if !c.excused[pos.Filename][pos.Line] {
		c.found = append(c.found, Finding{pos, text})
	}
}

// excuses notes which lines have a comment that says why they are right: the line itself, or the one before.
func (c *checker) excuses(f *ast.File) {
	for _, group := range f.Comments {
		for _, comment := range group.List {
			if !strings.Contains(comment.Text, "lockcheck:") {
				continue
			}
			pos := c.Fset.Position(comment.Pos())
			if c.excused[pos.Filename] == nil {
				c.excused[pos.Filename] = map[int]bool{}
			}
			c.excused[pos.Filename][pos.Line] = true
			c.excused[pos.Filename][c.Fset.Position(group.End()).Line+1] = true
		}
	}
}

var guardedBy = regexp.MustCompile(`guarded by ([A-Za-z]\w*(?:\.[A-Za-z]\w*)*)`)

// annotation notes the mutexes of the fields of a struct.
func (c *checker) annotation(n ast.Node) bool {
	s, ok := n.(*ast.StructType)
	if !ok {
		return true
	}
	siblings := map[string]*types.Var{}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			if v, ok := c.Info.Defs[name].(*types.Var); ok {
				siblings[name.Name] = v
			}
		}
		if len(f.Names) == 0 { // embedded
			if t, ok := c.Info.TypeOf(s).(*types.Struct); ok {
				for v := range t.Fields() {
					if v.Embedded() {
						siblings[v.Name()] = v
					}
				}
			}
		}
	}
	for _, f := range s.Fields.List {
		m := guardedBy.FindStringSubmatch(f.Comment.Text() + " " + f.Doc.Text())
		if m == nil {
			continue
		}
		mutex := siblings[m[1]]
		if owner, field, dotted := strings.Cut(m[1], "."); dotted && siblings[owner] != nil {
			mutex = mutexOf(siblings[owner].Type(), field)
		} else if !isMutex(mutex) {
			mutex = c.byName(m[1])
		}
		if mutex == nil {
			c.report(f.Pos(), "guarded by "+m[1]+": there is no such mutex in this package")
			continue
		}
		for _, name := range f.Names {
			if v, ok := c.Info.Defs[name].(*types.Var); ok {
				c.guards[v] = mutex
			}
		}
	}
	return true
}

// byName is the mutex that "Type.mu" or "variable.mu" means, or nil.
func (c *checker) byName(path string) *types.Var {
	owner, field, ok := strings.Cut(path, ".")
	if !ok || strings.Contains(field, ".") {
		return nil
	}
	o := c.Types.Scope().Lookup(owner)
	if o == nil {
		return nil
	}
	return mutexOf(o.Type(), field)
}

// mutexOf is the mutex in a field of a struct, or of one that it embeds, or nil.
func mutexOf(t types.Type, field string) *types.Var {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	for v := range s.Fields() {
		if v.Name() == field && isMutex(v) {
			return v
		}
	}
	for v := range s.Fields() {
		if v.Embedded() {
			if m := mutexOf(v.Type(), field); m != nil {
				return m
			}
		}
	}
	return nil
}

func isMutex(v *types.Var) bool {
	if v == nil {
		return false
	}
	t := v.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	switch types.Unalias(t).String() {
	case "sync.Mutex", "sync.RWMutex", "ropeway/internal/driver/hostqueue.Lock":
		return true
	}
	return false
}

const (
	mutexName  = `[A-Za-z]\w*(?:\.[A-Za-z]\w*)*`
	mutexNames = `(` + mutexName + `(?:(?:, | and )` + mutexName + `)*)`
)

// held are the ways in which comments say what callers have locked.
var (
	held = []*regexp.Regexp{
		regexp.MustCompile(mutexNames + ` (?:is|are) held`),
		regexp.MustCompile(`with ` + mutexNames + ` held`),
		regexp.MustCompile(`caller[^.]* holds ` + mutexNames),
	}
	between = regexp.MustCompile(`, | and `)
)

// requirement notes what the callers of a function have locked, by its comment.
func (c *checker) requirement(d *ast.FuncDecl) {
	f, ok := c.Info.Defs[d.Name].(*types.Func)
	if !ok {
		return
	}
	text := strings.ReplaceAll(d.Doc.Text(), "\n", " ")
	for _, way := range held {
		for _, m := range way.FindAllStringSubmatchIndex(text, -1) {
			if strings.HasPrefix(text[m[1]:], " or ") || strings.HasSuffix(text[:m[0]], "No ") {
				continue // it says that something else will do, or the opposite
			}
			for _, name := range between.Split(text[m[2]:m[3]], -1) {
				if v := c.resolve(f.Signature(), name); v != nil {
					c.needs[f] = append(c.needs[f], v)
				}
			}
		}
	}
}

// resolve is the mutex that a function's comment means: a field of its receiver, of a parameter, of a type, of a
// variable.
func (c *checker) resolve(s *types.Signature, name string) *types.Var {
	vars := []*types.Var{}
	if s.Recv() != nil {
		vars = append(vars, s.Recv())
	}
	for v := range s.Params().Variables() {
		vars = append(vars, v)
	}
	owner, field, dotted := strings.Cut(name, ".")
	if !dotted {
		for _, v := range vars {
			if m := mutexOf(v.Type(), name); m != nil {
				return m
			}
		}
		return nil
	}
	for _, v := range vars {
		if v.Name() == owner {
			return mutexOf(v.Type(), field)
		}
	}
	return c.byName(name)
}
