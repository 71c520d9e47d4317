package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ropeway/spec/table"
)

// writeChecks writes, for each built function of a package whose method calls it, the check of its leading rules:
// those with an expression or a function of the package, up to the first that has neither and may apply.
func writeChecks(pkg string) func(t *table.Table, root string) ([]byte, error) {
	return func(t *table.Table, root string) ([]byte, error) { return checksOf(pkg, t, root) }
}

func checksOf(pkg string, t *table.Table, root string) ([]byte, error) {
	built, err := coreMethods(root)
	if err != nil {
		return nil, err
	}
	n, err := newNames(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("// Each of these checks the leading rules of one function of the API in the order of the table, " +
		"and returns what it has looked up on the way.\n")
	for _, f := range t.Functions {
		m := built.methods[f.Name]
		if f.Status != table.Core || m == nil || m.pkg != pkg || !m.checks {
			continue
		}
		c := &check{n: n, f: f, m: m, bound: map[string]string{}, holds: map[string]string{}}
		c.whenGo = whenGo{t, f, c}
		if err := c.write(&b); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return withImports(pkg, b.String()), nil
}

// withImports is a file of package name, which imports what body needs of the module.
func withImports(name, body string) []byte {
	head := "package " + name + "\n\nimport (\n"
	if strings.Contains(body, "abi.") {
		head += strconv.Quote("ropeway/internal/abi") + "\n"
	}
	for _, pkg := range corePackages {
		if pkg == name || !strings.Contains(notNamed.Replace(body), " "+pkg+" . ") {
			continue
		}
		if name == "main" && pkg == "process" { // capi has a type of that name
			head += "coreprocess "
			body = strings.ReplaceAll(body, "process.", "coreprocess.")
		}
		head += strconv.Quote("ropeway/internal/core"+strings.TrimPrefix(corePath(pkg), "internal/core")) + "\n"
	}
	return []byte(head + ")\n\n" + body)
}

// check is one such method while it is written. It spells what rules are about by the names of the parameters of the
// method.
type check struct {
	whenGo
	n     *names
	f     *table.Function
	m     *method
	body  bytes.Buffer
	bound map[string]string // parameter or "context": the result that holds what was looked up
	holds map[string]string // the same: its type
	types []string          // of the results, with their names: in the order of the parameters, the context last
	early bool              // a rule says that there is nothing to do
}

// ruled are the leading rules that are checked here.
func ruled(f *table.Function) []*table.Rule {
	var list []*table.Rule
	for i := range f.Rules {
		r := &f.Rules[i]
		if !r.Applies() {
			continue
		}
		if r.Call == nil && (r.Expr == nil || r.Code == nil) || r.By == table.ByWork {
			break
		}
		list = append(list, r)
	}
	return list
}

func (c *check) write(b *bytes.Buffer) error {
	if len(c.m.params) != len(c.f.C.Params) {
		return fmt.Errorf("%s.%s has %d parameters, the prototype has %d", c.m.pkg, c.m.name, len(c.m.params),
			len(c.f.C.Params))
	}
	rules := ruled(c.f)
	if len(rules) == 0 {
		return fmt.Errorf("%s.%s calls its check, and its first rule is neither an expression nor a function", c.m.pkg,
			c.m.name)
	}
	c.early = slices.ContainsFunc(rules, func(r *table.Rule) bool { return r.Code != nil && *r.Code == 0 })
	for i, r := range rules {
		if i > 0 && r.Call != nil && rules[i-1].By == r.By {
			continue // the function checks both
		}
		if err := c.rule(r); err != nil {
			return fmt.Errorf("rule %s: %w", r.Name, err)
		}
	}
	var params []string
	for i, name := range c.m.names {
		if !strings.Contains(" "+notNamed.Replace(c.body.String())+" ", " "+name+" ") {
			name = "_"
		}
		params = append(params, name+" "+c.typed(c.m.params[i]))
	}
	results := slices.Clone(c.types)
	if c.early {
		results = append(results, "done bool")
	}
	result := c.typed("*Error")
	if len(results) > 0 {
		result = "(" + strings.Join(append(results, "err "+result), ", ") + ")"
	}
	begins := "func (t *Thread) check%s(%s) %s {"
	if c.m.pkg != "core" {
		begins = "func check%s(t *core.Thread, %s) %s {"
	}
	fmt.Fprintf(b, "\n"+begins+"\nconst api = %q\n%s", upperFirst(c.m.name), strings.Join(params, ", "), result,
		c.f.Name, c.body.String())
	if len(results) > 0 {
		b.WriteString("return\n}\n")
	} else {
		b.WriteString("return nil\n}\n")
	}
	return nil
}

// of spells a name of package core.
func (c *check) of(name string) string {
	if c.m.pkg == "core" {
		return name
	}
	return "core." + name
}

// typed spells a type that package core spells so.
func (c *check) typed(typ string) string {
	if c.m.pkg == "core" {
		return typ
	}
	return coreType.ReplaceAllString(typ, "${1}core.$2")
}

// coreType matches a type of package core.
var coreType = regexp.MustCompile(`(^|[*(\[])(Addr|Handle|Error|Context|Device|Stream|Event|Func)\b`)

// notNamed makes a text in which a name stands alone between spaces.
var notNamed = strings.NewReplacer("(", " ", ")", " ", ",", " ", ".", " . ", "&", " ", "!", " ", "\n", " ", "\t",
	" ", `"`, `"" `)

// rule writes the check of one rule.
func (c *check) rule(r *table.Rule) error {
	if r.Call != nil {
		return c.byHand(r)
	}
	guard := c.guard(r)
	if done, err := c.lookUp(r, guard); done || err != nil {
		return err
	}
	expr, err := c.expr(r.Expr)
	if err != nil {
		return err
	}
	if guard != "" {
		if r.Expr.Op == "||" {
			expr = "(" + expr + ")"
		}
		expr = guard + " && " + expr
	}
	text, err := c.failure(r)
	if err != nil {
		return err
	}
	fmt.Fprintf(&c.body, "if %s { // %s\n%s\n}\n", expr, r.Name, c.returns(text))
	return nil
}

// guard is the condition that the product has the rule, or that the documents are followed to the letter; "" if all
// have it.
func (c *check) guard(r *table.Rule) string {
	var on []string
	if r.Strict {
		on = append(on, "t.Runtime.Strict")
	}
	if r.Products != nil {
		on = append(on, fmt.Sprintf("t.Product(\"%s\")", strings.Join(r.Products, `", "`)))
	}
	if len(on) == 2 {
		return "(" + on[0] + " || " + on[1] + ")"
	}
	return strings.Join(on, "")
}

// returns ends the check with an error, which may be in err already, or with success if that is "nil".
func (c *check) returns(err string) string {
	switch {
	case c.early && (err == "err" || err == "nil"):
		return "done = true\nreturn"
	case c.results() && err == "err":
		return "return"
	case c.early:
		return "done, err = true, " + err + "\nreturn"
	case c.results():
		return "err = " + err + "\nreturn"
	}
	return "return " + err
}

// results reports whether anything is looked up; only then results have names.
func (c *check) results() bool {
	return c.early || slices.ContainsFunc(ruled(c.f), func(r *table.Rule) bool {
		if r.Call != nil {
			return c.m.finders[r.Call.Op] != ""
		}
		return r.Expr != nil && (c.looksUp(r.Expr) != nil || c.orDefault(r) != "")
	})
}

// orDefault is the stream of a rule that refuses NULL, the default stream, where there is no context that has one; ""
// if the rule is another one. Its check finds the default stream.
func (c *check) orDefault(r *table.Rule) string {
	w := r.Expr
	if w.Op != "&&" || *r.Code != noContextCode || w.Args[0].Op != "==" || w.Args[1].Op != "!" ||
		w.Args[1].Args[0].Op != "context" || w.Args[0].Args[1].Op != table.WhenNumber {
		return ""
	}
	name := w.Args[0].Args[0].Name
	if p := c.f.Param(name); p == nil || p.Type.Base != "aclrtStream" {
		return ""
	}
	return name
}

// looksUp is the predicate of a rule whose check finds what a number or a handle names, else nil.
func (c *check) looksUp(w *table.When) *table.When {
	if w.Op == "&&" && w.Args[0].Op == "!=" && w.Args[0].Args[0].Op == table.WhenParam && w.Args[0].Args[1].N == 0 {
		if p := c.looksUp(w.Args[1]); p != nil && p.Op == "live" && p.Args[0].Name == w.Args[0].Args[0].Name {
			return p
		}
		return nil
	}
	switch {
	case w.Op == "elsewhere":
		return w
	case w.Op == "!" && slices.Contains([]string{"live", "usable", "physical", "context"}, w.Args[0].Op):
		return w.Args[0]
	}
	return nil
}

// bind names the result that holds what was looked up, and declares it when it is new.
func (c *check) bind(what, goType string) string {
	name := c.bound[what]
	if name == "" {
		if name = "the" + upperFirst(what); what == "context" {
			name = "ctx"
		}
		c.bound[what], c.holds[what] = name, goType
		c.types = nil
		for _, p := range append(slices.Clone(c.f.C.Params), table.Param{Name: "context"}) {
			if c.bound[p.Name] != "" {
				c.types = append(c.types, c.bound[p.Name]+" "+c.holds[p.Name])
			}
		}
	}
	return name
}

// lookUp writes the check of a rule that finds something; false if it is not of that kind.
func (c *check) lookUp(r *table.Rule, guard string) (bool, error) {
	quiet := ""
	if r.Quiet {
		quiet = ".NotRecorded()"
	}
	if param := c.orDefault(r); guard == "" && c.bound[param] != "" {
		fmt.Fprintf(&c.body, "if %[1]s, err = t.StreamOrDefault(api, %[1]s); err != nil { // %[2]s\n%[3]s\n}\n",
			c.bound[param], r.Name, c.returns("err"+quiet))
		return true, nil
	}
	w := c.looksUp(r.Expr)
	if w == nil {
		return false, nil
	}
	if w.Op == "context" {
		if guard != "" {
			return true, fmt.Errorf("a product or strict mode alone cannot ask for the context here; write " +
				"product(…) && !context()")
		}
		if err := c.mustBe(r, noContextCode); err != nil {
			return true, err
		}
		fmt.Fprintf(&c.body, "if %s = t.Current(); %s == nil { // %s\n%s\n}\n",
			c.bind("context", c.typed("*Context")), c.bound["context"], r.Name,
			c.returns(c.of("NoCurrentContext")+"(api)"+quiet))
		return true, nil
	}
	param := w.Args[0].Name
	p := c.f.Param(param)
	arg, typ, err := c.operand(param)
	if err != nil {
		return true, err
	}
	if typ == "uint32" && (w.Op == "usable" || w.Op == "physical") {
		arg = "int32(" + arg + ")" // enormous numbers turn negative, which no device is
	}
	o, made := objectOf(p)
	var find, name string
	optional := false
	switch {
	case guard != "":
		return true, fmt.Errorf("%s cannot depend on the product", w.Op)
	case w.Op == "elsewhere":
		if c.bound["context"] == "" || c.bound[param] == "" {
			return true, fmt.Errorf("elsewhere(%s) needs a rule about the context and one about live(%s) before it",
				param, param)
		}
		name = c.bound[param]
		find = fmt.Sprintf("ctx.On(api, %s)", name)
		err = c.mustBe(r, 107003)
	case w.Op == "usable", w.Op == "physical":
		name = c.bind(param, c.typed("*Device"))
		find = fmt.Sprintf("t.%s(api, %q, %s)", upperFirst(w.Op), param, arg)
		err = c.mustBe(r, noDeviceCode)
	case !made || o.find == "":
		return true, fmt.Errorf("nothing finds a %s", p.Type)
	default:
		name = c.bind(param, c.typed(o.goType))
		find = fmt.Sprintf(o.find, fmt.Sprintf("api, %q, %s", param, arg))
		optional = r.Expr.Op == "&&"
		err = c.mustBe(r, 107017)
	}
	if err != nil {
		return true, err
	}
	text := fmt.Sprintf("if %s, err = %s; err != nil { // %s\n%s\n}\n", name, find, r.Name, c.returns("err"+quiet))
	if optional && o.symbol != "stream" {
		text = fmt.Sprintf("if %s != 0 {\n%s}\n", arg, text)
	}
	c.body.WriteString(text)
	return true, nil
}

const (
	noDeviceCode      = 107001 // ACL_ERROR_RT_INVALID_DEVICEID
	noContextCode     = 107002 // ACL_ERROR_RT_CONTEXT_NULL: the fault of no argument
	capturedCode      = 107027 // ACL_ERROR_RT_STREAM_CAPTURED
	eventCapturedCode = 107028 // ACL_ERROR_RT_EVENT_CAPTURED
	notSetCode        = 507033 // ACL_ERROR_RT_DEV_SETUP_ERROR
	noFeatureCode     = 207000 // ACL_ERROR_RT_FEATURE_NOT_SUPPORT
)

// mustBe refuses a rule whose code is another one than that of the function that looks things up.
func (c *check) mustBe(r *table.Rule, code int32) error {
	if *r.Code != code {
		return fmt.Errorf("when %q ends with %d, not %d", r.When, code, *r.Code)
	}
	return nil
}

// byHand writes the call of a function of the package, or else of a method of core.Thread. One that returns something
// beside the error has found what its first argument names.
func (c *check) byHand(r *table.Rule) error {
	args := []string{"api"}
	for _, a := range r.Call.Args {
		text := c.bound[a.Name]
		if text == "" {
			if a.Name == "context" {
				return fmt.Errorf("by %q: no rule about the context comes before it", r.By)
			}
			var err error
			if text, _, err = c.operand(a.Name); err != nil {
				return err
			}
		}
		args = append(args, text)
	}
	guard := ""
	if guard = c.guard(r); guard != "" {
		return fmt.Errorf("by %q: the function looks at the product itself", r.By)
	}
	target := "err := "
	if c.results() {
		target = "err = "
	}
	if found := c.m.finders[r.Call.Op]; found != "" {
		if len(r.Call.Args) == 0 {
			return fmt.Errorf("by %q: what it finds has no name; its first argument gives it one", r.By)
		}
		target = c.bind(r.Call.Args[0].Name, found) + ", err = "
	}
	call := "t." + r.Call.Op + "("
	switch {
	case r.Call.Op == "aborting" && len(args) == 2 && args[1] == c.bound["context"]:
		call, args = "ctx.Aborting(", args[:1]
	case c.m.beside[r.Call.Op]:
		call = r.Call.Op + "(t, "
	}
	quiet := ""
	if r.Quiet {
		quiet = ".NotRecorded()"
	}
	fmt.Fprintf(&c.body, "if %s%s%s); err != nil { // %s\n%s\n}\n", target, call, strings.Join(args, ", "), r.Name,
		c.returns("err"+quiet))
	return nil
}
