package table

import (
	"fmt"
	"regexp"
	"strings"
)

// Prototype is a C function prototype.
type Prototype struct {
	Name     string
	Return   Type
	Params   []Param
	Variadic bool
}

// Param is one parameter. An unnamed parameter has Name "".
type Param struct {
	Name string
	Type Type
}

// Type is a C type as it is used: a base name after Pointers levels of
// pointer. A function pointer has Func set, Base "" and Pointers 0.
type Type struct {
	C        string // spelled as in a header, e.g. "const void* const*"
	Base     string // without const and pointers, e.g. "void", "unsigned char", "aclrtStream"
	Pointers int
	Const    bool       // the base is const: the pointed-to bytes are not written
	Func     *Prototype // set for a function pointer; its Name is ""
}

// String returns the type as C spells it.
func (t Type) String() string { return t.C }

var wordOrPunct = regexp.MustCompile(`\.\.\.|[A-Za-z_]\w*|[*(),]`)

// ParsePrototype parses a prototype such as
// "aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count)",
// with or without a final semicolon.
func ParsePrototype(s string) (Prototype, error) {
	p, err := newParser(s)
	if err != nil {
		return Prototype{}, err
	}
	ret, name, err := p.declarator()
	if err != nil {
		return Prototype{}, fmt.Errorf("%q: %w", s, err)
	}
	if name == "" {
		return Prototype{}, fmt.Errorf("%q: no function name", s)
	}
	proto := Prototype{Name: name, Return: ret}
	if err := p.params(&proto); err != nil {
		return Prototype{}, fmt.Errorf("%q: %w", s, err)
	}
	if len(p.tok) != 0 {
		return Prototype{}, fmt.Errorf("%q: unexpected %q after the parameters", s, p.tok[0])
	}
	return proto, nil
}

// ParseFuncPointer parses "typedef R (*name)(params);". The result carries the
// typedef's name.
func ParseFuncPointer(s string) (Prototype, error) {
	p, err := newParser(s)
	if err != nil {
		return Prototype{}, err
	}
	if p.peek() != "typedef" {
		return Prototype{}, fmt.Errorf("%q: not a typedef", s)
	}
	p.tok = p.tok[1:]
	t, name, err := p.declarator()
	if err != nil || t.Func == nil || len(p.tok) != 0 {
		return Prototype{}, fmt.Errorf("%q: not a function pointer (%w)", s, err)
	}
	proto := *t.Func
	proto.Name = name
	return proto, nil
}

type parser struct{ tok []string }

func newParser(s string) (*parser, error) {
	body := strings.TrimSuffix(strings.TrimSpace(s), ";")
	rest := wordOrPunct.ReplaceAllString(body, "")
	if strings.TrimSpace(rest) != "" {
		return nil, fmt.Errorf("%q: unexpected %q", s, strings.TrimSpace(rest))
	}
	return &parser{wordOrPunct.FindAllString(body, -1)}, nil
}

func (p *parser) peek() string {
	if len(p.tok) == 0 {
		return ""
	}
	return p.tok[0]
}

func (p *parser) take(want string) error {
	if p.peek() != want {
		return fmt.Errorf("want %q, have %q", want, p.peek())
	}
	p.tok = p.tok[1:]
	return nil
}

// baseWords are the words that may be joined to one base type.
var baseWords = map[string]bool{
	"unsigned": true, "signed": true, "struct": true, "enum": true, "union": true,
	"long": true, "short": true, "int": true, "char": true,
}

// declarator parses a type and the name that follows it, up to "(", "," or ")".
func (p *parser) declarator() (Type, string, error) {
	var t Type
	var base, spell []string
	name := ""
words:
	for {
		w := p.peek()
		switch {
		case w == "(" && len(base) > 0 && len(p.tok) > 1 && p.tok[1] == "*":
			t.Base, t.C = strings.Join(base, " "), strings.Join(spell, " ")
			return p.funcPointer(t)
		case w == "" || w == "," || w == "(" || w == ")":
			break words
		case w == "*":
			if len(base) == 0 {
				return t, "", fmt.Errorf("pointer without a type")
			}
			t.Pointers++
			spell[len(spell)-1] += "*"
		case w == "const":
			t.Const = t.Const || t.Pointers == 0
			spell = append(spell, w)
		case len(base) == 0 || t.Pointers == 0 && baseWords[base[len(base)-1]] && (baseWords[w] || !scalarWord(base)):
			base, spell = append(base, w), append(spell, w)
		case name == "":
			name = w
		default:
			return t, "", fmt.Errorf("unexpected %q after %q", w, name)
		}
		p.tok = p.tok[1:]
	}
	if len(base) == 0 {
		return t, "", fmt.Errorf("no type before %q", p.peek())
	}
	t.Base, t.C = strings.Join(base, " "), strings.Join(spell, " ")
	return t, name, nil
}

// scalarWord reports whether the words already make a complete arithmetic
// type, so that the next word is a name: "unsigned char x", but "struct X x".
func scalarWord(base []string) bool {
	switch base[len(base)-1] {
	case "struct", "enum", "union":
		return false
	}
	return true
}

// funcPointer parses "(*const name)(params)" after a return type.
func (p *parser) funcPointer(ret Type) (Type, string, error) {
	p.tok = p.tok[2:] // "(*"
	if p.peek() == "const" {
		p.tok = p.tok[1:]
	}
	name := p.peek()
	p.tok = p.tok[min(1, len(p.tok)):]
	if err := p.take(")"); err != nil {
		return Type{}, "", err
	}
	f := &Prototype{Return: ret}
	if err := p.params(f); err != nil {
		return Type{}, "", err
	}
	var ps []string
	for _, q := range f.Params {
		ps = append(ps, q.Type.C)
	}
	return Type{C: ret.C + " (*)(" + strings.Join(ps, ", ") + ")", Func: f}, name, nil
}

// params parses "(a, b, ...)" into f.
func (p *parser) params(f *Prototype) error {
	if err := p.take("("); err != nil {
		return err
	}
	if p.peek() == "void" && len(p.tok) > 1 && p.tok[1] == ")" {
		p.tok = p.tok[1:]
	}
	for p.peek() != ")" {
		if p.peek() == "..." {
			f.Variadic = true
			p.tok = p.tok[1:]
			break
		}
		t, name, err := p.declarator()
		if err != nil {
			return err
		}
		f.Params = append(f.Params, Param{name, t})
		if p.peek() != "," {
			break
		}
		p.tok = p.tok[1:]
	}
	return p.take(")")
}
