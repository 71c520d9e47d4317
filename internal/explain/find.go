package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ropeway/spec/table"
)

// Book is the table, ready to be asked.
type Book struct {
	t     *table.Table
	names map[string]entry // by key
	order []string         // keys in table order
}

// entry is a name that can be asked for.
type entry struct {
	name   string // as the headers or pyACL spell it
	answer func() *Answer
}

// load reads the table, once.
var load = sync.OnceValues(table.Load)

// Open returns the book. The first call reads the table, which takes some 60 ms.
func Open() (*Book, error) {
	t, err := load()
	if err != nil {
		return nil, err
	}
	b := &Book{t: t, names: map[string]entry{}}
	for i := range t.Errors.Groups {
		g := &t.Errors.Groups[i]
		for _, c := range g.Codes {
			b.add(c.Name, func() *Answer { return &Answer{Code: b.code(c, g)} })
		}
	}
	for _, f := range t.Functions {
		answer := func() *Answer { return &Answer{Function: function(f)} }
		b.add(f.Name, answer)
		if f.Form != nil {
			b.add(f.Form.Module+"."+f.Form.Name, answer)
		}
	}
	b.addTypes()
	return b, nil
}

func (b *Book) addTypes() {
	types := &b.t.Types
	for i := range types.Enums {
		e := &types.Enums[i]
		b.add(withoutTag(e.Name), func() *Answer { return &Answer{Type: b.enum(e, "")} })
		for _, m := range e.Members {
			b.add(m.Name, func() *Answer { return &Answer{Type: b.enum(e, m.Name)} })
		}
	}
	for i := range types.Structs {
		s := &types.Structs[i]
		b.add(withoutTag(s.Name), func() *Answer { return &Answer{Type: b.structure(s)} })
	}
	for _, list := range []struct {
		kind  string
		names []table.Named
	}{
		{"handle", types.Handles}, {"typedef", types.Typedefs}, {"opaque struct", types.OpaqueStructs},
		{"function pointer", types.FunctionPointers},
	} {
		for _, n := range list.names {
			b.add(withoutTag(n.Name), func() *Answer { return &Answer{Type: b.named(list.kind, n)} })
		}
	}
	for _, d := range types.Defines {
		name, _, _ := strings.Cut(d.Name, "(") // some take arguments
		b.add(name, func() *Answer { return &Answer{Macro: &Macro{d.Name, d.Text, d.Header}} })
	}
}

// key is how names are compared: case does not matter.
func key(name string) string { return strings.ToLower(name) }

// add enters a name; the first of a name stays.
func (b *Book) add(name string, answer func() *Answer) {
	k := key(name)
	if _, there := b.names[k]; !there {
		b.names[k] = entry{name, answer}
		b.order = append(b.order, k)
	}
}

// Names lists everything that can be asked for, in table order.
func (b *Book) Names() []string {
	var list []string
	for _, k := range b.order {
		list = append(list, b.names[k].name)
	}
	return list
}

// Numbers are all error codes, as decimal numbers.
func (b *Book) Numbers() []string {
	var list []string
	for _, c := range b.t.Codes() {
		list = append(list, strconv.Itoa(int(c.Number)))
	}
	return list
}

// NotFound says that there is no such name or number, and what comes near.
type NotFound struct {
	Asked string
	Near  []string // best first
	Range string   // for a number: what codes of its range are; "" if it is in none
}

func (e *NotFound) Error() string {
	if e.Range != "" {
		return fmt.Sprintf("there is no code %s; its range is %s", e.Asked, e.Range)
	}
	return fmt.Sprintf("there is no code, function or type %q", e.Asked)
}

// Find reports what text names: a number (107000, 0x1A1F8), a code with or without ACL_ERROR_, a C function, its pyACL
// form, an enum, an enumerator, a struct, another type or a macro; or a name of another part of the
// vendor's toolkit. Case does not matter. The error is a *NotFound.
func (b *Book) Find(text string) (*Answer, error) {
	name := strings.TrimSpace(text)
	if n, err := strconv.ParseInt(name, 0, 64); err == nil {
		return b.number(name, n)
	}
	name, _, _ = strings.Cut(name, "(") // a call or a prototype without its type
	name = withoutTag(strings.TrimRight(strings.TrimSpace(name), ";"))
	for _, before := range []string{"", "ACL_ERROR_", "ACL_", "acl."} {
		if e, ok := b.names[key(before+name)]; ok {
			return e.answer(), nil
		}
	}
	if o := b.t.OutsideFor(name); o != nil {
		return &Answer{Outside: &Outside{name, o.What, table.Scope, o.Do}}, nil
	}
	return nil, &NotFound{Asked: name, Near: b.near(name)}
}

// number finds a code. Numbers that do not fit 32 bits are none.
func (b *Book) number(text string, n int64) (*Answer, error) {
	var near []table.Code
	missing := &NotFound{Asked: text}
	for _, g := range b.t.Errors.Groups {
		for _, c := range g.Codes {
			if int64(c.Number) == n {
				name := c.Name
				if n == 0 {
					name = "ACL_SUCCESS" // the name of the three that programs use
				}
				return b.names[key(name)].answer(), nil
			}
			if int64(c.Number)/1000 == n/1000 && n >= 1000 {
				missing.Range = g.Title
				near = append(near, c)
			}
		}
	}
	away := func(c table.Code) int64 { return max(int64(c.Number)-n, n-int64(c.Number)) }
	slices.SortStableFunc(near, func(x, y table.Code) int { return cmp.Compare(away(x), away(y)) })
	for _, c := range near[:min(len(near), mostNear)] {
		missing.Near = append(missing.Near, strconv.Itoa(int(c.Number)))
	}
	return nil, missing
}

// mostNear is how many names are suggested.
const mostNear = 3

// near lists names like name.
func (b *Book) near(name string) []string {
	names := make([]string, len(b.order))
	for i, k := range b.order {
		names[i] = b.names[k].name
	}
	return Near(name, names)
}

// Near lists those of names that are like name, at most three: those that contain it, shortest first, then those that
// a few changes make of it.
func Near(name string, names []string) []string {
	type hit struct {
		name string
		cost int
	}
	want := letters(name)
	if want == "" {
		return nil
	}
	var hits []hit
	for _, n := range names {
		have := letters(n)
		cost := distance(want, have)
		if len(want) >= 4 && strings.Contains(have, want) {
			cost = min(cost, 1+(len(have)-len(want))/8)
		}
		if cost <= 1+len(want)/4 {
			hits = append(hits, hit{n, cost})
		}
	}
	slices.SortStableFunc(hits, func(x, y hit) int { return cmp.Compare(x.cost, y.cost) })
	var list []string
	for _, h := range hits[:min(len(hits), mostNear)] {
		list = append(list, h.name)
	}
	return list
}

// letters is what of a name counts for likeness: no case, no separators, not what all names begin with.
func letters(name string) string {
	name = key(name)
	for _, before := range []string{"acl_error_", "acl."} {
		name = strings.TrimPrefix(name, before)
	}
	return strings.NewReplacer("_", "", ".", "", " ", "").Replace(name)
}

// distance is how many letters to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
