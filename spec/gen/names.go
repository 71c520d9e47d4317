package main

import (
	"fmt"
	"strings"
	"unicode"

	"ropeway/spec/table"
)

// names maps C names to Go names of package abi. Every Go name is used once.
type names struct {
	types  map[string]string // C type, without "struct " and the like, to Go type
	consts map[string]string // C enumerator, macro or error code to Go constant
	used   map[string]string // Go name to the C name that took it
}

// newNames names every type, then every constant, in table order, so that a
// name changes only when the table does.
func newNames(t *table.Table) (*names, error) {
	n := &names{map[string]string{}, map[string]string{}, map[string]string{
		"Code": "the type of codes", "CodeByName": "the lookup",
	}}
	for _, e := range t.Types.Enums {
		n.typeName(e.Name)
	}
	for _, s := range t.Types.Structs {
		n.typeName(s.Name)
	}
	for _, c := range t.Codes() {
		if err := n.constName(c.Name, codeName(c.Name)); err != nil {
			return nil, err
		}
	}
	clash := n.clashes(t)
	for _, e := range t.Types.Enums {
		for _, m := range e.Members {
			if err := n.constName(m.Name, n.memberName(e, m, clash[e.Name])); err != nil {
				return nil, err
			}
		}
	}
	for _, d := range t.Types.Defines {
		if d.Value == nil {
			continue
		}
		name := camel(stripped(d.Name))
		if _, taken := n.used[name]; taken {
			name += "Macro"
		}
		if err := n.constName(d.Name, name); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// typeName gives a C type its Go name: without aclrt or acl, unless an earlier
// type has that name; then aclrt becomes RT.
func (n *names) typeName(c string) {
	c = bare(c)
	rest, rt := strings.CutPrefix(c, "aclrt")
	if !rt {
		rest = strings.TrimPrefix(c, "acl")
	}
	if older, ok := strings.CutSuffix(rest, "_t"); ok {
		rest = strings.TrimPrefix(older, "rt")
	}
	name := upperFirst(rest)
	if _, taken := n.used[name]; taken {
		name = "RT" + name
	}
	n.types[c] = name
	n.used[name] = c
}

func (n *names) constName(c, name string) error {
	if by, taken := n.used[name]; taken {
		return fmt.Errorf("%s and %s would both be %s in Go", by, c, name)
	}
	n.used[name] = c
	n.consts[c] = name
	return nil
}

// clashes returns the enums with a member whose short Go name, upper and lower
// case apart, is taken by a type, an error code or a member of another enum.
func (n *names) clashes(t *table.Table) map[string]bool {
	const taken = "not an enum"
	owner := map[string]string{}
	for name := range n.used {
		owner[strings.ToLower(name)] = taken
	}
	clash := map[string]bool{}
	for _, e := range t.Types.Enums {
		for _, m := range e.Members {
			key := strings.ToLower(n.memberName(e, m, false))
			if by, dup := owner[key]; dup && by != e.Name {
				clash[e.Name], clash[by] = true, true
			}
			owner[key] = e.Name
		}
	}
	return clash
}

// memberName returns the Go name of an enumerator: the C name without ACL_ or
// ACL_RT_, with the type's name in front when the members have no common first
// word, and in place of all common words when long is set.
func (n *names) memberName(e table.Enum, m table.Member, long bool) string {
	if name := special[m.Name]; name != "" {
		return name
	}
	prefix := n.types[bare(e.Name)]
	words := commonWords(e.Members)
	name := stripped(m.Name)
	switch {
	case long:
		return prefix + camel(strings.Join(strings.Split(name, "_")[words:], "_"))
	case words == 0 && !strings.HasPrefix(camel(name), prefix):
		return prefix + camel(name)
	}
	return camel(name)
}

// codeName returns the Go name of an error code.
func codeName(c string) string {
	rest, isErr := strings.CutPrefix(c, "ACL_ERROR_")
	if !isErr {
		rest = strings.TrimPrefix(c, "ACL_")
	}
	var b strings.Builder
	if isErr {
		b.WriteString("Err")
	}
	for w := range strings.SplitSeq(rest, "_") {
		switch w {
		case "RT", "GE", "TS":
			b.WriteString(w)
		default:
			b.WriteString(title(w))
		}
	}
	return b.String()
}

// commonWords counts the words all stripped members begin with; the last word
// of a name is never counted.
func commonWords(members []table.Member) int {
	common := strings.Split(stripped(members[0].Name), "_")
	common = common[:len(common)-1]
	for _, m := range members[1:] {
		words := strings.Split(stripped(m.Name), "_")
		n := 0
		for n < len(common) && n < len(words)-1 && words[n] == common[n] {
			n++
		}
		common = common[:n]
	}
	return len(common)
}

// stripped removes ACL_RT_ or ACL_.
func stripped(c string) string {
	if s, ok := strings.CutPrefix(c, "ACL_RT_"); ok {
		return s
	}
	return strings.TrimPrefix(c, "ACL_")
}

// special are names the rules would spell badly.
var special = map[string]string{"ACL_DT_UNDEFINED": "DataTypeUndefined"}

// keep are words that do not turn to lower case in Go names.
var keep = map[string]string{"HBM": "HBM", "DDR": "DDR", "BF16": "BF16", "HUGE1G": "Huge1G"}

// camel turns HUGE_FIRST_P2P into HugeFirstP2P.
func camel(c string) string {
	var b strings.Builder
	for w := range strings.SplitSeq(c, "_") {
		switch {
		case keep[w] != "":
			b.WriteString(keep[w])
		case len(w) > 1 && unicode.IsDigit(rune(w[1])): // P2P, L2, E5M2
			b.WriteString(w)
		default:
			b.WriteString(title(w))
		}
	}
	return b.String()
}

func title(w string) string { return upperFirst(strings.ToLower(w)) }

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// fieldName returns the Go name of a struct field.
func fieldName(c string) string {
	if rest, ok := strings.CutSuffix(upperFirst(c), "Id"); ok {
		return rest + "ID"
	}
	return upperFirst(c)
}

// bare strips "struct ", "enum " and "union ".
func bare(c string) string { return c[strings.LastIndex(c, " ")+1:] }
