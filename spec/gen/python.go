package main

import (
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"slices"
	"strings"

	"ropeway/spec/table"
)

// pyForm is one function of the Python module: its shape, and how the C call is made of it.
type pyForm struct {
	*table.PythonForm
	fn      *table.Function
	special bool      // written by hand: dictionaries, lists, texts, callbacks
	params  []pyValue // in the order of Python
	results []pyValue // in the order of Python, without ret
	args    []int     // in the order of C: a parameter's index, -1 minus a result's index, or pyNull
	ret     string    // "code": comes last; "none"; else the type of the value that C returns
	wait    string    // what the function waits for, see pyWaits
}

// pyNull is an argument of C that must be NULL although Python has a result of its name. That result is 0.
const pyNull = math.MinInt

// pyValue is a parameter or a result. Its type is a key of pyScalars or pyHints.
type pyValue struct{ name, typ string }

// pyWaits are the functions that may wait for long. They run in slices, so that Python can handle signals in between.
var pyWaits = map[string]string{
	"aclrtSynchronizeStream": "stream", "aclrtSynchronizeStreamWithTimeout": "stream",
	"aclrtSynchronizeEvent": "event", "aclrtSynchronizeEventWithTimeout": "event",
	"aclrtSynchronizeDevice": "device", "aclrtSynchronizeDeviceWithTimeout": "device",
	"aclrtProcessReport": "report",
}

// pyScalars are the types of what plain functions take and give, by the C types they stand for. All that is an address
// or a handle is an int in Python.
var pyScalars = map[string]string{
	"int": "int32", "int32_t": "int32", "uint32_t": "uint32", "uint16_t": "uint16",
	"int64_t": "int64", "uint64_t": "uint64", "size_t": "uint64", "float": "float",
}

// pyForms returns every form in the order of the table. It fails on a form that it cannot map to the C prototype.
func pyForms(t *table.Table) ([]*pyForm, error) {
	var forms []*pyForm
	for _, f := range t.Functions {
		if f.Form == nil {
			continue
		}
		form := &pyForm{PythonForm: f.Form, fn: f, wait: pyWaits[f.Name]}
		var err error
		if form.special = isSpecial(t, f); form.special {
			err = form.hints(t)
		} else {
			err = form.match(t)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", f.Name, f.Form.Text, err)
		}
		forms = append(forms, form)
	}
	return forms, nil
}

// pyFingerprint distinguishes tables from which different extensions would be made.
func pyFingerprint(forms []*pyForm) uint32 {
	h := fnv.New32a()
	for _, f := range forms {
		fmt.Fprintln(h, f.Text, f.fn.Proto)
	}
	return h.Sum32()
}

func (f *pyForm) path() string { return f.Module + "." + f.Name }

// id is the form's name where all modules share one name space: rt_memcpy, acl_init.
func (f *pyForm) id() string { return strings.TrimPrefix(f.Module, "acl.") + "_" + f.Name }

var plainName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// isSpecial reports whether a form takes or gives more than numbers.
func isSpecial(t *table.Table, f *table.Function) bool {
	for _, s := range append(slices.Clone(f.Form.Params), f.Form.Results...) {
		if !plainName.MatchString(s) || s == "dict" || s == "list" || strings.HasSuffix(s, "_dict") {
			return true
		}
	}
	if pyByValue[f.Name] {
		return true
	}
	types := []table.Type{f.C.Return}
	for _, p := range f.C.Params {
		types = append(types, p.Type)
	}
	return f.C.Variadic || slices.ContainsFunc(types, func(ty table.Type) bool {
		k, _ := t.KindOf(ty.Base)
		return ty.Func != nil || k == table.FuncType || k == table.StructType || k == table.UnionType ||
			ty.Base == "char"
	})
}

// scalar returns the Python type of a C value that is a number, an address or a handle, and "" for any other.
func scalar(t *table.Table, ty table.Type) string {
	kind, _ := t.KindOf(ty.Base)
	switch {
	case ty.Func != nil || kind == table.FuncType:
		return ""
	case ty.Pointers == 1 && (kind == table.VoidType || kind == table.OpaqueType):
		return "address"
	case ty.Pointers > 0:
		return ""
	case kind == table.HandleType:
		return "handle"
	case kind == table.EnumType:
		return "int32"
	}
	base := ty.Base
	for _, d := range t.Types.Typedefs {
		if d.Name == base {
			base = d.C
		}
	}
	return pyScalars[base]
}

// pointee returns the Python type of what a pointer points to, "" if that is not one value that C may write.
func pointee(t *table.Table, ty table.Type) string {
	if ty.Func != nil || ty.Pointers == 0 || ty.Const {
		return ""
	}
	ty.Pointers--
	return scalar(t, ty)
}

// snake turns a C parameter's name into Python's style: dstDataOffset, dst_data_offset.
func snake(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
}

// match finds out which C parameter each parameter and result of a plain form is.
func (f *pyForm) match(t *table.Table) error {
	if err := f.matchReturn(t); err != nil {
		return err
	}
	results := f.Results
	if f.ret == "code" {
		results = results[:len(results)-1]
	} else if f.ret != "none" {
		results = nil
	}
	var in, out []int // C parameters
	for i, p := range f.C().Params {
		name := snake(p.Name)
		if pointee(t, p.Type) != "" && !slices.Contains(f.Params, name) {
			out = append(out, i)
		} else {
			in = append(in, i)
		}
	}
	f.args = make([]int, len(f.C().Params))
	assigned, err := f.assign(f.Params, in)
	if err != nil {
		return err
	}
	for i, c := range assigned {
		ty := scalar(t, f.C().Params[c].Type)
		if ty == "" && f.C().Params[c].Type.Pointers == 2 {
			ty = "address" // of a cell that holds an address
		}
		if ty == "" {
			return fmt.Errorf("parameter %s cannot be passed as a number", f.C().Params[c].Name)
		}
		f.params = append(f.params, pyValue{f.Params[i], ty})
		f.args[c] = i
	}
	back := slices.DeleteFunc(slices.Clone(results), func(r string) bool { return slices.Contains(f.Params, r) })
	assigned, err = f.assign(back, out)
	if err != nil {
		return err
	}
	for _, r := range results {
		if i := slices.Index(f.Params, r); i >= 0 { // handed back as it came
			f.results = append(f.results, f.params[i])
			continue
		}
		c := assigned[slices.Index(back, r)]
		f.args[c] = -1 - len(f.results)
		if f.mustBeNull(c) {
			f.args[c] = pyNull
		}
		f.results = append(f.results, pyValue{r, pointee(t, f.C().Params[c].Type)})
	}
	return nil
}

// C is the prototype.
func (f *pyForm) C() table.Prototype { return f.fn.C }

// mustBeNull reports whether C refuses every other value of a parameter.
func (f *pyForm) mustBeNull(c int) bool {
	refused := f.C().Params[c].Name + " is not NULL"
	return slices.ContainsFunc(f.fn.Rules, func(r table.Rule) bool { return r.If == refused })
}

func (f *pyForm) matchReturn(t *table.Table) error {
	c := f.C().Return
	n := len(f.Results)
	switch ret := scalar(t, c); {
	case c.Base == "void" && c.Pointers == 0 && n == 0:
		f.ret = "none"
	case c.Base == "aclError" && n > 0 && (f.Results[n-1] == "ret" || n == 1 && f.Results[0] == "error"):
		f.ret = "code"
	case c.Base != "aclError" && ret != "" && n == 1 && f.Results[0] != "ret":
		f.ret = ret
	default:
		return fmt.Errorf("the result does not fit %s", c)
	}
	return nil
}

// assign maps Python names to C parameters: names that agree first, the rest in order. Where the order alone decides
// between several, each pair has to share a word.
func (f *pyForm) assign(names []string, params []int) ([]int, error) {
	if len(names) != len(params) {
		return nil, fmt.Errorf("%d names (%s) for %d parameters of C", len(names), strings.Join(names,
			", "), len(params))
	}
	assigned := make([]int, len(names))
	var open []int
	rest := slices.Clone(params)
	for i, name := range names {
		at := slices.IndexFunc(rest, func(c int) bool { return snake(f.C().Params[c].Name) == name })
		if at < 0 {
			open = append(open, i)
			continue
		}
		assigned[i] = rest[at]
		rest = slices.Delete(rest, at, at+1)
	}
	for k, i := range open {
		assigned[i] = rest[k]
		if len(open) > 1 && !shareWord(names[i], snake(f.C().Params[rest[k]].Name)) {
			return nil, fmt.Errorf("is %s the parameter %s?", names[i], f.C().Params[rest[k]].Name)
		}
	}
	return assigned, nil
}

func shareWord(a, b string) bool {
	return slices.ContainsFunc(strings.Split(a, "_"),
		func(w string) bool { return slices.Contains(strings.Split(b, "_"), w) })
}
