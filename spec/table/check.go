package table

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind is what a named C type is.
type Kind int

const (
	Scalar Kind = iota + 1 // arithmetic C types and typedefs of them
	EnumType
	StructType
	UnionType
	HandleType // a typedef of void*
	OpaqueType // declared, never defined
	FuncType   // a typedef of a function pointer
	VoidType
)

// Size is a size and an alignment in bytes.
type Size struct{ Size, Align int64 }

var scalars = map[string]int64{
	"char": 1, "unsigned char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1,
	"int16_t": 2, "uint16_t": 2, "int": 4, "int32_t": 4, "uint32_t": 4, "float": 4,
	"int64_t": 8, "uint64_t": 8, "size_t": 8, "uintptr_t": 8,
}

// Products are the product names the table may use.
var Products = []string{"950", "A3", "A2", "310B", "310P", "910"}

// RuleProducts are those that a rule may be limited to: also the 310, which the lists of functions do not have.
var RuleProducts = append(slices.Clone(Products), "310")

// KindOf returns the kind of a named C type; "struct X" and "enum X" find X.
func (t *Table) KindOf(name string) (Kind, bool) {
	k, ok := t.kinds[bare(name)]
	return k, ok
}

// SizeOf returns the size of a C type as a field spells it, on LP64.
func (t *Table) SizeOf(ctype string) (Size, bool) {
	if strings.HasSuffix(ctype, "*") {
		return Size{8, 8}, true
	}
	s, ok := t.sizes[bare(ctype)]
	return s, ok
}

// bare strips "struct ", "enum " and "union ".
func bare(name string) string {
	for _, p := range []string{"struct ", "enum ", "union "} {
		if s, ok := strings.CutPrefix(name, p); ok {
			return s
		}
	}
	return name
}

// checker collects mistakes so that one run names them all.
type checker struct {
	*Table
	errs []error
}

func (c *checker) errorf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// check fills the indexes of t and reports every mistake in it.
func (t *Table) check() error {
	c := &checker{Table: t}
	c.checkErrors()
	c.checkAdvice()
	c.checkTypes()
	c.checkFunctions()
	for i := range c.Overloads {
		c.checkOverload(&c.Overloads[i])
	}
	c.checkOutside()
	return errors.Join(c.errs...)
}

func (c *checker) checkErrors() {
	c.codes = map[string]Code{}
	numbers := map[int32]string{}
	for _, code := range c.Codes() {
		if _, dup := c.codes[code.Name]; dup {
			c.errorf("errors.yaml: %s appears twice", code.Name)
		}
		c.codes[code.Name] = code
		if first, dup := numbers[code.Number]; dup && code.Number != 0 {
			c.errorf("errors.yaml: %s and %s are both %d", first, code.Name, code.Number)
		}
		numbers[code.Number] = code.Name
		if code.Meaning == "" || code.Header == "" || code.Kind != "const" && code.Kind != "macro" {
			c.errorf("errors.yaml: %s: meaning, header or kind is missing or wrong", code.Name)
		}
	}
}

func (c *checker) define(name string, k Kind, s Size) {
	name = bare(name)
	if _, dup := c.kinds[name]; dup {
		c.errorf("types.yaml: type %s appears twice", name)
	}
	c.kinds[name] = k
	if s.Size > 0 {
		c.sizes[name] = s
	}
}

func (c *checker) checkTypes() {
	c.kinds, c.sizes, c.macro = map[string]Kind{}, map[string]Size{}, map[string]int64{}
	c.kinds["void"] = VoidType
	for name, n := range scalars {
		c.define(name, Scalar, Size{n, n})
	}
	ty := &c.Types
	for _, n := range ty.Typedefs {
		c.define(n.Name, Scalar, c.sizes[n.C])
	}
	for _, n := range ty.Handles {
		c.define(n.Name, HandleType, Size{8, 8})
	}
	for _, n := range ty.DeclaredOpaque() {
		c.define(n.Name, OpaqueType, Size{})
	}
	for _, n := range ty.FunctionPointers {
		c.define(n.Name, FuncType, Size{8, 8})
	}
	consts := map[string]bool{}
	for _, d := range ty.Defines {
		if consts[d.Name] {
			c.errorf("types.yaml: macro %s appears twice", d.Name)
		}
		consts[d.Name] = true
		if d.Value != nil {
			c.macro[d.Name] = *d.Value
		}
	}
	if !releaseRE.MatchString(ty.Release) {
		c.errorf("types.yaml: release %q is not major.minor.patch", ty.Release)
	}
	for _, e := range ty.DeclaredEnums() {
		c.define(e.Name, EnumType, Size{4, 4})
		for _, m := range e.Members {
			if consts[m.Name] {
				c.errorf("types.yaml: %s: constant %s appears twice", e.Name, m.Name)
			}
			consts[m.Name] = true
		}
	}
	for _, s := range ty.Structs {
		k := StructType
		if s.Kind == "union" {
			k = UnionType
		} else if s.Kind != "struct" {
			c.errorf("types.yaml: %s: kind %q", s.Name, s.Kind)
		}
		c.define(s.Name, k, Size{s.Size, s.Align})
	}
	for i := range ty.Structs {
		c.checkStruct(&ty.Structs[i])
	}
	for _, n := range ty.FunctionPointers {
		p, err := ParseFuncPointer(n.C)
		if err != nil {
			c.errorf("types.yaml: %s: %v", n.Name, err)
			continue
		}
		if p.Name != n.Name {
			c.errorf("types.yaml: %s: typedef of %s", n.Name, p.Name)
		}
		c.checkProto("types.yaml: "+n.Name, p)
	}
}

// checkStruct resolves the fields of s and proves that C's layout rules give
// the offsets, the size and the alignment the table states.
func (c *checker) checkStruct(s *Struct) {
	where := "types.yaml: " + s.Name
	align := c.checkFields(where, s.Fields)
	end := int64(0)
	for _, f := range s.Fields {
		want := int64(0)
		if s.Kind == "struct" {
			want = roundUp(end, f.Align)
		}
		if f.Offset != want {
			c.errorf("%s.%s: offset %d, C gives %d", where, f.Name, f.Offset, want)
		}
		end = max(end, f.Offset+f.Size)
	}
	if align != s.Align || roundUp(end, align) != s.Size {
		c.errorf("%s: size %d align %d, C gives %d and %d", where, s.Size, s.Align, roundUp(end, align), align)
	}
}

// checkFields fills Len, Align and, for anonymous unions, Offset and Size, and
// returns the strictest alignment.
func (c *checker) checkFields(where string, fields []Field) int64 {
	align := int64(1)
	for i := range fields {
		f := &fields[i]
		if f.Type == AnonymousUnion {
			c.checkUnionField(where, f)
		} else {
			c.checkPlainField(where, f)
		}
		align = max(align, f.Align)
	}
	return align
}

func (c *checker) checkUnionField(where string, f *Field) {
	f.Len = -1
	f.Align = c.checkFields(where, f.Fields)
	size := int64(0)
	for _, m := range f.Fields {
		if m.Offset != f.Fields[0].Offset {
			c.errorf("%s.%s: union members at different offsets", where, m.Name)
		}
		size = max(size, m.Size)
	}
	if f.Size == 0 {
		f.Offset, f.Size = f.Fields[0].Offset, roundUp(size, f.Align)
	}
	if f.Size != roundUp(size, f.Align) {
		c.errorf("%s.%s: union of size %d, its members need %d", where, f.Name, f.Size, roundUp(size, f.Align))
	}
}

func (c *checker) checkPlainField(where string, f *Field) {
	size, ok := c.SizeOf(f.Type)
	if !ok {
		c.errorf("%s.%s: unknown type %q", where, f.Name, f.Type)
		return
	}
	if base := strings.TrimRight(f.Type, "*"); base != f.Type {
		if _, known := c.KindOf(base); !known {
			c.errorf("%s.%s: unknown type %q", where, f.Name, base)
		}
	}
	f.Align, f.Len = size.Align, -1
	want := size.Size
	if f.Array != "" {
		n, err := strconv.ParseInt(f.Array, 10, 64)
		if err != nil {
			var known bool
			if n, known = c.macro[f.Array]; !known {
				c.errorf("%s.%s: unknown array bound %q", where, f.Name, f.Array)
			}
		}
		f.Len = n
		want *= n
	}
	if f.Size != want {
		c.errorf("%s.%s: size %d, its type gives %d", where, f.Name, f.Size, want)
	}
}

func (c *checker) checkFunctions() {
	seen, python := map[string]bool{}, map[string]string{}
	for _, f := range c.Functions {
		if seen[f.Name] {
			c.errorf("%s: function appears twice", f.Name)
		}
		seen[f.Name] = true
		if f.Group == "" || f.Header == "" {
			c.errorf("%s: no group or header", f.Name)
		}
		if f.Status != Core && f.Status != Later {
			c.errorf("%s: unknown status %q", f.Name, f.Status)
		}
		for _, p := range f.Products {
			if !slices.Contains(Products, p) {
				c.errorf("%s: unknown product %q", f.Name, p)
			}
		}
		var err error
		if f.C, err = ParsePrototype(f.Proto); err != nil {
			c.errorf("%s: %v", f.Name, err)
			continue
		}
		if f.C.Name != f.Name {
			c.errorf("%s: prototype of %s", f.Name, f.C.Name)
		}
		c.checkProto(f.Name, f.C)
		c.checkCalls(f)
		c.checkPython(f, python)
		c.nameRules(f)
		for i := range f.Rules {
			c.checkRule(f, i)
		}
	}
}

func (c *checker) checkProto(where string, p Prototype) {
	types := []Type{p.Return}
	names := map[string]bool{}
	for _, q := range p.Params {
		types = append(types, q.Type)
		if q.Name != "" && names[q.Name] {
			c.errorf("%s: parameter %s appears twice", where, q.Name)
		}
		names[q.Name] = true
	}
	for _, t := range types {
		if t.Func != nil {
			c.checkProto(where, *t.Func)
			continue
		}
		if _, ok := c.KindOf(t.Base); !ok {
			c.errorf("%s: unknown type %q", where, t.Base)
		}
	}
}

var (
	rawCode   = regexp.MustCompile(`^\(aclError\)(0x[0-9A-F]{8})$`)
	codeName  = regexp.MustCompile(`^ACL_[A-Z0-9_]+$`)
	quietRE   = regexp.MustCompile(`\bnot recorded as last error\b`)
	releaseRE = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	shadowRE  = regexp.MustCompile(`^([-.\w]+): \S`)
)

func (c *checker) checkRule(f *Function, i int) {
	r := &f.Rules[i]
	where := fmt.Sprintf("%s: rule %s", f.Name, r.Name)
	c.checkRet(where, r)
	c.checkSuchAs(f, where, r)
	c.checkWhen(f, where, r)
	c.checkBy(f, where, r)
	switch {
	case r.If == "" && r.When != "":
		c.errorf("%s: there are no words for this expression; write them as if", where)
	case r.If == "" || r.Ret == "":
		c.errorf("%s: no condition or no result", where)
	}
	if quietRE.MatchString(r.Note) != r.Quiet {
		c.errorf("%s: quiet is %v, the note says %q", where, r.Quiet, r.Note)
	}
	for _, p := range r.Products {
		if !slices.Contains(RuleProducts, p) {
			c.errorf("%s: unknown product %q", where, p)
		}
	}
	if r.Products != nil && len(r.Products) == 0 {
		c.errorf("%s: no product has it", where)
	}
	m := r.Mark
	if m == nil {
		return
	}
	n := 0
	for _, s := range []string{m.Shadowed, m.Needs, m.Decided} {
		if s != "" {
			n++
		}
	}
	if n != 1 {
		c.errorf("%s: a mark has exactly one of shadowed, needs and decided", where)
	}
	if m.Shadowed != "" {
		by := shadowRE.FindStringSubmatch(m.Shadowed)
		if by == nil {
			c.errorf("%s: shadowed must read \"rule: why\", not %q", where, m.Shadowed)
		} else if !slices.ContainsFunc(f.Rules[:i], func(r Rule) bool { return r.Name == by[1] }) {
			c.errorf("%s: shadowed by %s, which does not come before it", where, by[1])
		}
	}
}

// checkRet proves that ret and code agree: a known name with its number, a raw
// value such as (aclError)0xFFFFFFFF, or no code and a phrase.
func (c *checker) checkRet(where string, r *Rule) {
	if raw := rawCode.FindStringSubmatch(r.Ret); raw != nil {
		if v, _ := strconv.ParseUint(raw[1], 0, 32); r.Code == nil || int32(uint32(v)) != *r.Code {
			c.errorf("%s: code does not match %s", where, r.Ret)
		}
		return
	}
	code, known := c.codes[r.Ret]
	switch {
	case r.Code == nil && codeName.MatchString(r.Ret):
		c.errorf("%s: %s without its number", where, r.Ret)
	case r.Code != nil && !known:
		c.errorf("%s: unknown code %q", where, r.Ret)
	case r.Code != nil && code.Number != *r.Code:
		c.errorf("%s: %s is %d, not %d", where, r.Ret, code.Number, *r.Code)
	}
}

// checkSuchAs proves that a rule which passes errors on names one of them, so that there is something to prove: one of
// the table, or one below 100000 that the program makes up.
func (c *checker) checkSuchAs(f *Function, where string, r *Rule) {
	switch {
	case r.Code != nil:
		if r.SuchAs != nil {
			c.errorf("%s: such_as is for errors passed on, not beside a code", where)
		}
	case r.SuchAs == nil:
		if f.Status == Core && f.ReturnsCode() && r.Applies() {
			c.errorf("%s: it passes on %s and names none of them; add such_as", where, r.Ret)
		}
	case *r.SuchAs >= 100000 &&
		!slices.ContainsFunc(c.Codes(), func(code Code) bool { return code.Number == *r.SuchAs }):
		c.errorf("%s: such_as: no code is %d", where, *r.SuchAs)
	}
}

func roundUp(n, align int64) int64 { return (n + align - 1) / align * align }
