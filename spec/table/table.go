// Package table loads the API table of package spec into checked Go values.
package table

import (
	"slices"
	"strings"
)

// Table is the whole API. A Table returned by Load or Parse is valid: names
// are unique and every code, type and array bound it mentions is defined.
type Table struct {
	Functions []*Function // in the order of their numbers
	Overloads []Overload  // the C++ call forms
	Types     Types
	Errors    Errors
	Advice    Advice
	Outside   OutsideList

	codes map[string]Code // by C name
	kinds map[string]Kind // named C types
	sizes map[string]Size // size and alignment of named C types, LP64
	macro map[string]int64
}

// Function is one exported function.
type Function struct {
	Name            string   `yaml:"name"`
	Group           string   `yaml:"group"`
	Header          string   `yaml:"header"`
	Proto           string   `yaml:"proto"`
	Products        []string `yaml:"products"` // nil when the documents do not say
	Deprecated      bool     `yaml:"deprecated"`
	Python          *string  `yaml:"python"`       // nil when pyACL does not offer it
	PythonExtra     string   `yaml:"python_extra"` // our form, where pyACL has none
	Does            string   `yaml:"does"`
	Status          Status   `yaml:"status"` // never "" after loading
	Rules           []Rule   `yaml:"rules"`
	Notes           []string `yaml:"notes"`
	ReplacedBy      string   `yaml:"replaced_by"` // as the header words it
	Weak            bool     `yaml:"weak"`
	VisibilityMacro string   `yaml:"visibility_macro"`
	// arguments of a call that succeeds, where those at hand do not; see spec/README.md
	Good []string `yaml:"good"`
	// a call of another function that does the same, in a name of the layer below the API; see spec/older.yaml
	Calls string `yaml:"calls"`

	C    Prototype `yaml:"-"` // Proto, parsed
	Same *Call     `yaml:"-"` // Calls, parsed; nil if it is empty
	// the part of the toolkit that it belongs to, if that is not the runtime; it is not built
	Outside *Outside    `yaml:"-"`
	Form    *PythonForm `yaml:"-"` // Python or PythonExtra, parsed; nil when both are missing
}

// Status says whether a function is built now.
type Status string

const (
	Core  Status = "core"  // in scope now: every rule needs a proof or a mark
	Later Status = "later" // returns ACL_ERROR_RT_FEATURE_NOT_SUPPORT until built
)

// Rule is one check of a function. Rules are in checking order and the first
// that applies decides.
type Rule struct {
	Name string `yaml:"name"` // unique in the function; never "" after loading, where it may follow from When
	If   string `yaml:"if"`   // in words; never "" after loading
	When string `yaml:"when"` // as an expression, "" where it has none
	// the core's function that checks it, with arguments, where no expression does; or ByWork
	By       string   `yaml:"by"`
	Ret      string   `yaml:"ret"`     // name of Code, or where a passed-on error comes from
	Code     *int32   `yaml:"code"`    // nil when the error is passed on; 0 is an early success
	SuchAs   *int32   `yaml:"such_as"` // one of the errors passed on, which its proof provokes
	Note     string   `yaml:"note"`
	Quiet    bool     `yaml:"quiet"`    // not recorded as last error
	Products []string `yaml:"products"` // that have the rule; nil is all of them, or none if it is Strict
	Strict   bool     `yaml:"strict"`   // every product of the function has the rule with ROPEWAY_STRICT=1
	Mark     *Mark    `yaml:"mark"`
	Expr     *When    `yaml:"-"` // When, parsed
	Call     *When    `yaml:"-"` // By, parsed: Op is the function's name, Args are parameters
}

// Applies reports whether the rule can apply to what is built.
func (r *Rule) Applies() bool {
	kind := r.Mark.Kind()
	return kind != "needs" && kind != "shadowed"
}

// Where says on which products the rule holds, "" if on all of them.
func (r *Rule) Where() string {
	only := strings.Join(r.Products, ", ")
	switch {
	case !r.Strict:
		return only
	case only == "":
		return "with ROPEWAY_STRICT=1"
	}
	return only + "; with ROPEWAY_STRICT=1 all"
}

// Mark says why a rule has no ordinary proof. Exactly one field is set.
type Mark struct {
	Shadowed string `yaml:"shadowed"` // "rule: why": that rule always decides first
	Needs    string `yaml:"needs"`    // the feature, not built yet, that the rule is about
	Decided  string `yaml:"decided"`  // what we do where the sources leave it open
}

// Kind returns "shadowed", "needs" or "decided", and "" for a nil mark.
func (m *Mark) Kind() string {
	switch {
	case m == nil:
		return ""
	case m.Shadowed != "":
		return "shadowed"
	case m.Needs != "":
		return "needs"
	}
	return "decided"
}

// Text returns the text of the mark, "" for a nil mark.
func (m *Mark) Text() string {
	if m == nil {
		return ""
	}
	return m.Shadowed + m.Needs + m.Decided
}

// Types is types.yaml.
type Types struct {
	Note             string            `yaml:"note"`
	Release          string            `yaml:"release"` // of the package that has this API: major.minor.patch
	Enums            []Enum            `yaml:"enums"`
	Structs          []Struct          `yaml:"structs"`
	Handles          []Named           `yaml:"handles"`
	Typedefs         []Named           `yaml:"typedefs"`
	OpaqueStructs    []Named           `yaml:"opaque_structs"`
	NamedOnly        NamedOnly         `yaml:"named_only"`
	FunctionPointers []Named           `yaml:"function_pointers"`
	Defines          []Define          `yaml:"defines"`
	VisibilityMacros map[string]string `yaml:"visibility_macros"`
}

// NamedOnly are types that headers declare for programs that name them; no function of the API does.
type NamedOnly struct {
	Enums         []Enum  `yaml:"enums"`
	OpaqueStructs []Named `yaml:"opaque_structs"`
}

// DeclaredEnums returns every enum that headers declare.
func (t *Types) DeclaredEnums() []Enum { return slices.Concat(t.Enums, t.NamedOnly.Enums) }

// DeclaredOpaque returns every opaque struct that headers declare.
func (t *Types) DeclaredOpaque() []Named {
	return slices.Concat(t.OpaqueStructs, t.NamedOnly.OpaqueStructs)
}

// Enum is a C enum. Two members may share a value.
type Enum struct {
	Name    string   `yaml:"name"` // "enum X" when the header has no typedef
	Tag     string   `yaml:"tag"`
	Header  string   `yaml:"header"`
	Members []Member `yaml:"members"`
}

// Member is one enumerator.
type Member struct {
	Name       string `yaml:"name"`
	Value      int64  `yaml:"value"`
	Deprecated bool   `yaml:"deprecated"`
}

// Struct is a C struct or union.
type Struct struct {
	Name   string  `yaml:"name"` // "struct X" when the header has no typedef
	Tag    string  `yaml:"tag"`
	Kind   string  `yaml:"kind"` // "struct" or "union"
	Header string  `yaml:"header"`
	Size   int64   `yaml:"size"`
	Align  int64   `yaml:"align"`
	Fields []Field `yaml:"fields"`

	Default string `yaml:"default"` // of every field in C++, by a constructor; "" if there is none
	Unless  string `yaml:"unless"`  // the macro with which the header leaves it out, ""
}

// Field is a member of a struct or union; offsets are from the start of the
// outermost struct.
type Field struct {
	Name   string  `yaml:"name"` // "" for an anonymous union
	Type   string  `yaml:"type"` // AnonymousUnion when Fields is set
	Array  string  `yaml:"array"`
	Offset int64   `yaml:"offset"`
	Size   int64   `yaml:"size"`
	Fields []Field `yaml:"fields"`

	Len   int64 `yaml:"-"` // Array resolved; -1 when not an array
	Align int64 `yaml:"-"`
}

// AnonymousUnion is the Type of a field that is a union without a name.
const AnonymousUnion = "anonymous union"

// Named is a handle, typedef, opaque struct or function pointer with its C spelling.
type Named struct {
	Name   string `yaml:"name"`
	C      string `yaml:"c"`
	Header string `yaml:"header"`
}

// Define is a macro.
type Define struct {
	Name   string `yaml:"name"`
	Text   string `yaml:"text"`
	Header string `yaml:"header"`
	Value  *int64 `yaml:"value"` // nil when it is not a number
	Own    bool   `yaml:"own"`   // programs define it themselves, the vendor's headers do not
}

// Errors is errors.yaml.
type Errors struct {
	Note       string      `yaml:"note"`
	Convention string      `yaml:"convention"`
	Returned   []string    `yaml:"returned_by_implementation"`
	Groups     []CodeGroup `yaml:"groups"`
}

// CodeGroup is a range of error codes.
type CodeGroup struct {
	Group string `yaml:"group"`
	Title string `yaml:"title"`
	Codes []Code `yaml:"codes"`
}

// Code is one error code.
type Code struct {
	Name    string `yaml:"name"`
	Number  int32  `yaml:"number"`
	Meaning string `yaml:"meaning"`
	Header  string `yaml:"header"`
	Kind    string `yaml:"kind"` // "const" or "macro"
}

// Codes returns every error code in table order.
func (t *Table) Codes() []Code {
	var all []Code
	for _, g := range t.Errors.Groups {
		all = append(all, g.Codes...)
	}
	return all
}

// CodeByName returns the error code with that C name.
func (t *Table) CodeByName(name string) (Code, bool) {
	c, ok := t.codes[name]
	return c, ok
}

// Rule returns the rule with that name, or nil.
func (f *Function) Rule(name string) *Rule {
	i := slices.IndexFunc(f.Rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Rules[i]
}

// Function returns the function with that name, or nil.
func (t *Table) Function(name string) *Function {
	for _, f := range t.Functions {
		if f.Name == name {
			return f
		}
	}
	return nil
}
