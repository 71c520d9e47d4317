package lockcheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
)

// locks are the mutexes that are locked at some place.
type locks map[*types.Var]bool

// meet is what is locked in both.
func meet(a, b locks) locks {
	both := locks{}
	for v := range a {
		if b[v] {
			both[v] = true
		}
	}
	return both
}

// function judges a function and the literals in it.
func (c *checker) function(d *ast.FuncDecl) {
	l := locks{}
	if f, ok := c.Info.Defs[d.Name].(*types.Func); ok {
		for _, v := range c.needs[f] {
			l[v] = true
		}
	}
	c.own = map[*types.Var]bool{}
	ast.Inspect(d.Body, c.made)
	c.block(d.Body.List, l)
}

// made notes the variables that are set to a value made on the spot.
func (c *checker) made(n ast.Node) bool {
	mark := func(name, value ast.Expr) {
		id, ok := name.(*ast.Ident)
		if !ok {
			return
		}
		if u, ok := value.(*ast.UnaryExpr); ok && u.Op == token.AND {
			value = u.X
		}
		fresh := false
		switch v := value.(type) {
		case *ast.CompositeLit:
			fresh = true
		case *ast.CallExpr:
			f, ok := v.Fun.(*ast.Ident)
			fresh = ok && f.Name == "new"
		}
		if v, ok := c.Info.Defs[id].(*types.Var); ok && fresh {
			c.own[v] = true
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE && len(n.Lhs) == len(n.Rhs) {
			for i := range n.Lhs {
				mark(n.Lhs[i], n.Rhs[i])
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				mark(name, n.Values[i])
			} else if v, ok := c.Info.Defs[name].(*types.Var); ok && len(n.Values) == 0 {
				if _, pointer := v.Type().Underlying().(*types.Pointer); !pointer {
					c.own[v] = true
				}
			}
		}
	}
	return true
}

// block walks statements, with l locked before them, and returns what is locked after them, or nil if control does not
// come there.
func (c *checker) block(list []ast.Stmt, l locks) locks {
	for _, s := range list {
		if l == nil {
			l = locks{} // after a label
		}
		l = c.stmt(s, l)
	}
	return l
}

// join is what is locked after several branches.
func join(ends ...locks) (l locks) {
	for _, e := range ends {
		switch {
		case e == nil:
		case l == nil:
			l = e
		default:
			l = meet(l, e)
		}
	}
	return l
}

func (c *checker) stmt(s ast.Stmt, l locks) locks {
	switch s := s.(type) {
	case nil:
	case *ast.BlockStmt:
		return c.block(s.List, maps.Clone(l))
	case *ast.LabeledStmt:
		return c.stmt(s.Stmt, l)
	case *ast.IfStmt:
		l = c.stmt(s.Init, l)
		l = c.expr(s.Cond, l)
		then := c.block(s.Body.List, c.tried(s.Cond, true, l))
		other := c.tried(s.Cond, false, l)
		if s.Else != nil {
			other = c.stmt(s.Else, other)
		}
		return join(then, other)
	case *ast.ForStmt:
		l = c.stmt(s.Init, l)
		l = c.expr(s.Cond, l)
		body := c.block(s.Body.List, maps.Clone(l))
		if body != nil {
			c.stmt(s.Post, maps.Clone(body))
		}
		if s.Cond == nil {
			return l // by a break, where it is as it was, or not at all
		}
		return join(l, body)
	case *ast.RangeStmt:
		l = c.expr(s.X, l)
		c.touch(s.X, l)
		return join(l, c.block(s.Body.List, maps.Clone(l)))
	case *ast.SwitchStmt:
		l = c.stmt(s.Init, l)
		l = c.expr(s.Tag, l)
		return c.cases(s.Body, l)
	case *ast.TypeSwitchStmt:
		l = c.stmt(s.Init, l)
		l = c.stmt(s.Assign, l)
		return c.cases(s.Body, l)
	case *ast.SelectStmt:
		return c.cases(s.Body, l)
	case *ast.ReturnStmt:
		for _, e := range s.Results {
			c.result(e, l)
		}
		return nil
	case *ast.BranchStmt:
		return nil
	case *ast.DeferStmt:
		c.deferred(s.Call, l)
	case *ast.GoStmt:
		c.call(s.Call, l, true)
	case *ast.ExprStmt:
		l = c.expr(s.X, l)
		if call, ok := s.X.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "panic" {
				return nil
			}
		}
	case *ast.AssignStmt:
		for i, e := range s.Rhs {
			if f, ok := e.(*ast.FuncLit); ok && i < len(s.Lhs) {
				if _, stored := s.Lhs[i].(*ast.SelectorExpr); stored {
					c.literal(f, locks{})
					continue
				}
			}
			l = c.expr(e, l)
		}
		for _, e := range s.Lhs {
			l = c.expr(e, l)
		}
	default:
		ast.Inspect(s, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				l = c.expr(e, l)
				return false
			}
			return true
		})
	}
	return l
}

// result judges what is returned: a function that is returned runs later.
func (c *checker) result(e ast.Expr, l locks) {
	if f, ok := e.(*ast.FuncLit); ok {
		c.literal(f, locks{})
		return
	}
	c.expr(e, l)
}

// tried is what is locked where a condition has come out as was: TryLock is understood.
func (c *checker) tried(cond ast.Expr, was bool, l locks) locks {
	l = maps.Clone(l)
	if u, ok := cond.(*ast.UnaryExpr); ok && u.Op == token.NOT {
		cond, was = u.X, !was
	}
	if call, ok := cond.(*ast.CallExpr); ok && was {
		if v, name := c.mutex(call); v != nil && (name == "TryLock" || name == "TryRLock") {
			l[v] = true
		}
	}
	return l
}

// cases walks the cases of a switch or select, each from l.
func (c *checker) cases(body *ast.BlockStmt, l locks) locks {
	ends, complete := []locks{}, false
	for _, s := range body.List {
		from := maps.Clone(l)
		var list []ast.Stmt
		switch s := s.(type) {
		case *ast.CaseClause:
			for _, e := range s.List {
				from = c.expr(e, from)
			}
			complete = complete || s.List == nil
			list = s.Body
		case *ast.CommClause:
			from = c.stmt(s.Comm, from)
			complete = true // one of them is taken
			list = s.Body
		}
		end := c.block(list, from)
		if n := len(list); end == nil && n > 0 {
			if b, ok := list[n-1].(*ast.BranchStmt); ok && b.Tok != token.CONTINUE && b.Tok != token.GOTO {
				end = c.block(list[:n-1], maps.Clone(l)) // break and fallthrough stay in here
			}
		}
		ends = append(ends, end)
	}
	if !complete {
		ends = append(ends, l)
	}
	return join(ends...)
}

// deferred judges a deferred call: unlocking happens at the end; functions are taken to run with what is locked here.
func (c *checker) deferred(call *ast.CallExpr, l locks) {
	if v, _ := c.mutex(call); v != nil {
		return
	}
	c.call(call, maps.Clone(l), false)
}

// mutex is the mutex that a call locks or unlocks, with the method's name; nil if it does neither.
func (c *checker) mutex(call *ast.CallExpr) (*types.Var, string) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, ""
	}
	switch sel.Sel.Name {
	case "Lock", "Unlock", "RLock", "RUnlock", "TryLock", "TryRLock":
	default:
		return nil, ""
	}
	if v := c.field(sel.X); isMutex(v) {
		return v, sel.Sel.Name
	}
	if s := c.Info.Selections[sel]; s != nil && len(s.Index()) > 1 { // of a mutex that is embedded
		t := s.Recv()
		var v *types.Var
		for _, i := range s.Index()[:len(s.Index())-1] {
			if p, ok := t.Underlying().(*types.Pointer); ok {
				t = p.Elem()
			}
			v = t.Underlying().(*types.Struct).Field(i)
			t = v.Type()
		}
		if isMutex(v) {
			return v, sel.Sel.Name
		}
	}
	return nil, ""
}

// field is the field or variable that an expression names, or nil.
func (c *checker) field(e ast.Expr) *types.Var {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.field(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return c.field(e.X)
		}
	case *ast.SelectorExpr:
		if s := c.Info.Selections[e]; s != nil {
			v, _ := s.Obj().(*types.Var)
			return origin(v)
		}
		v, _ := c.Info.Uses[e.Sel].(*types.Var)
		return v
	case *ast.Ident:
		v, _ := c.Info.Uses[e].(*types.Var)
		return v
	}
	return nil
}

// origin is the field of the generic type that v is an instance of.
func origin(v *types.Var) *types.Var {
	if v == nil {
		return nil
	}
	return v.Origin()
}

// expr judges an expression and returns what is locked after it.
func (c *checker) expr(e ast.Expr, l locks) locks {
	switch e := e.(type) {
	case nil:
		return l
	case *ast.CallExpr:
		return c.call(e, l, false)
	case *ast.FuncLit:
		c.literal(e, l)
		return l
	case *ast.SelectorExpr:
		c.access(e, l)
		c.touch(e.X, l)
		return c.expr(e.X, l)
	case *ast.StarExpr:
		c.touch(e.X, l)
		return c.expr(e.X, l)
	case *ast.IndexExpr:
		c.touch(e.X, l)
	case *ast.UnaryExpr:
		if sel, ok := e.X.(*ast.SelectorExpr); ok && e.Op == token.AND {
			return c.expr(sel.X, l) // the address of a field is not its value
		}
	case *ast.CompositeLit:
		for _, x := range e.Elts {
			if kv, ok := x.(*ast.KeyValueExpr); ok {
				x = kv.Value
			}
			if f, ok := x.(*ast.FuncLit); ok {
				c.literal(f, locks{}) // it is stored
				continue
			}
			l = c.expr(x, l)
		}
		return l
	}
	ast.Inspect(e, func(n ast.Node) bool {
		if x, ok := n.(ast.Expr); ok && x != e {
			l = c.expr(x, l)
			return false
		}
		return true
	})
	return l
}

// literal judges a function literal that runs with l locked.
func (c *checker) literal(f *ast.FuncLit, l locks) { c.block(f.Body.List, maps.Clone(l)) }

// later are functions that run what they get at another time.
var later = map[string]bool{"AfterFunc": true, "AddCleanup": true, "Go": true, "SetFinalizer": true, "Cleanup": true,
	"OnceFunc": true, "OnceValue": true}

// call judges a call; apart says that it is made by a goroutine of its own.
func (c *checker) call(e *ast.CallExpr, l locks, apart bool) locks {
	if v, name := c.mutex(e); v != nil {
		sel := e.Fun.(*ast.SelectorExpr)
		if inner, ok := sel.X.(*ast.SelectorExpr); ok {
			c.expr(inner.X, l)
		}
		l = maps.Clone(l)
		switch name {
		case "Lock", "RLock":
			l[v] = true
		case "Unlock", "RUnlock":
			delete(l, v)
		}
		return l
	}
	name := ""
	if id := called(e); id != nil {
		name = id.Name
	}
	inside := l
	if apart || later[name] {
		inside = locks{}
	}
	for _, a := range e.Args {
		if u, ok := a.(*ast.UnaryExpr); ok && u.Op == token.AND { // as in locked(&mu, func() { ... })
			if v := c.field(u.X); isMutex(v) {
				inside = maps.Clone(inside)
				inside[v] = true
			}
		}
	}
	for _, a := range e.Args {
		if f, ok := a.(*ast.FuncLit); ok {
			c.literal(f, inside)
			continue
		}
		if _, array := c.Info.TypeOf(a).Underlying().(*types.Array); array && name == "len" {
			continue // a constant
		}
		if name == "copy" || name == "clear" || e.Ellipsis.IsValid() {
			c.touch(a, l)
		}
		l = c.expr(a, l)
	}
	if f, ok := e.Fun.(*ast.FuncLit); ok {
		c.literal(f, inside)
		return l
	}
	c.reach(e, l)
	c.callee(e, inside)
	if sel, ok := e.Fun.(*ast.SelectorExpr); ok {
		return c.expr(sel, l)
	}
	return l
}

// callee reports a call of a function whose callers lock something that is not locked.
func (c *checker) callee(e *ast.CallExpr, l locks) {
	var id *ast.Ident
	switch f := e.Fun.(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
		if c.fresh(f.X) {
			return
		}
	default:
		return
	}
	f, ok := c.Info.Uses[id].(*types.Func)
	if !ok {
		return
	}
	for _, v := range c.needs[f.Origin()] {
		if !l[v] {
			c.report(e.Pos(), "call of "+f.Name()+", and "+v.Name()+" is not held")
		}
	}
}

// fresh reports whether an expression is, or is in, a value that the function has made.
func (c *checker) fresh(e ast.Expr) bool {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.Ident:
			v, ok := c.Info.Uses[x].(*types.Var)
			return ok && c.own[v]
		default:
			return false
		}
	}
}

// access reports the use of a field whose mutex is not locked.
func (c *checker) access(e *ast.SelectorExpr, l locks) {
	v := c.field(e)
	mutex := c.guards[v]
	if mutex == nil || l[mutex] || c.fresh(e.X) {
		return
	}
	c.report(e.Sel.Pos(), v.Name()+" is guarded by "+mutex.Name()+", which is not held")
}
