package lockcheck

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"
)

var entryOf = regexp.MustCompile(`\bis acl\w+`)

// entry notes which parameters of a function of the API point to the program's memory.
func (c *checker) entry(d *ast.FuncDecl) {
	f, ok := c.Info.Defs[d.Name].(*types.Func)
	if !ok || !entryOf.MatchString(d.Doc.Text()) {
		return
	}
	for v := range f.Signature().Params().Variables() {
		if plain(v.Type()) {
			c.program[v] = true
		}
	}
}

// plain reports whether t points to memory as C has it: numbers, arrays, and the structs of package abi.
func plain(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Slice:
		return true
	case *types.Pointer:
		switch u.Elem().Underlying().(type) {
		case *types.Basic, *types.Array, *types.Pointer:
			return true
		case *types.Struct:
			n, ok := types.Unalias(u.Elem()).(*types.Named)
			return ok && n.Obj().Pkg() != nil && strings.HasSuffix(n.Obj().Pkg().Path(), "/abi")
		}
	}
	return false
}

// passOn marks the variables that hold the program's pointers: parameters of functions of the package, and what is
// assigned.
func (c *checker) passOn() {
	for marked := -1; marked != len(c.program); {
		marked = len(c.program)
		for _, f := range c.Files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					c.passed(n)
				case *ast.AssignStmt:
					c.assigned(n)
				}
				return true
			})
		}
	}
}

// passed marks the parameters of a function of the package that a call gives the program's pointers.
func (c *checker) passed(call *ast.CallExpr) {
	callee, ok := c.Info.Uses[called(call)].(*types.Func)
	if !ok || callee.Pkg() != c.Types {
		return
	}
	params := callee.Origin().Signature().Params()
	for i, a := range call.Args {
		if i < params.Len() && c.ofProgram(a) && plain(params.At(i).Type()) {
			c.program[params.At(i)] = true
		}
	}
}

// assigned marks the variables that a statement makes the program's pointers.
func (c *checker) assigned(s *ast.AssignStmt) {
	for i, to := range s.Lhs {
		id, ok := to.(*ast.Ident)
		if !ok || len(s.Lhs) != len(s.Rhs) || !c.ofProgram(s.Rhs[i]) {
			continue
		}
		v, _ := c.Info.ObjectOf(id).(*types.Var)
		if v != nil && plain(v.Type()) {
			c.program[v] = true
		}
	}
}

// ofProgram reports whether e is a pointer to the program's memory, or a part of what is there.
func (c *checker) ofProgram(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.ofProgram(e.X)
	case *ast.SliceExpr:
		return c.ofProgram(e.X)
	case *ast.UnaryExpr:
		x, ok := e.X.(*ast.IndexExpr)
		return ok && c.ofProgram(x.X)
	case *ast.CallExpr:
		return c.reaching(e) != nil
	}
	return c.program[c.field(e)]
}

// called is the name of the function that a call names, or nil.
func called(call *ast.CallExpr) *ast.Ident {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f
	case *ast.SelectorExpr:
		return f.Sel
	case *ast.IndexExpr:
		return called(&ast.CallExpr{Fun: f.X})
	}
	return nil
}

// reaches names the functions of package core that make memory of an address of the program.
var reaches = map[string]bool{"Pointer": true, "Array": true, "ArrayOf": true, "Element": true}

// reaching is the one of those that e calls, or nil.
func (c *checker) reaching(e *ast.CallExpr) *types.Func {
	f, ok := c.Info.Uses[called(e)].(*types.Func)
	if !ok || f.Pkg() == nil || f.Pkg().Name() != "core" || !reaches[f.Name()] {
		return nil
	}
	return f
}

// reach reports a call where a mutex is locked that makes memory of an address of the program, or gives such memory to
// a function that expects no lock.
func (c *checker) reach(e *ast.CallExpr, l locks) {
	for mutex := range l {
		if f := c.reaching(e); f != nil {
			c.report(e.Pos(), "access to the program's memory by "+f.Name()+", and "+mutex.Name()+" is held")
			return
		}
		f, ok := c.Info.Uses[called(e)].(*types.Func)
		if !ok || len(c.needs[f.Origin()]) > 0 {
			return
		}
		for _, a := range e.Args {
			if v := c.field(a); c.program[v] {
				c.report(a.Pos(), "call of "+f.Name()+" with the program's memory at "+v.Name()+", and "+mutex.Name()+
					" is held")
			}
		}
		return
	}
}

// touch reports an access through e if it points to the program's memory and a mutex is locked.
func (c *checker) touch(e ast.Expr, l locks) {
	v := c.field(e)
	if !c.program[v] {
		return
	}
	for mutex := range l {
		c.report(e.Pos(), "access to the program's memory at "+v.Name()+", and "+mutex.Name()+" is held")
		return
	}
}
