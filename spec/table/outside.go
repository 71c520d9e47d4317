package table

import (
	"slices"
	"strings"
)

// OutsideList is outside.yaml.
type OutsideList struct {
	Outside []Outside `yaml:"outside"`
}

// Outside is a part of the vendor's toolkit that is not the runtime.
type Outside struct {
	Prefixes []string `yaml:"prefixes"` // of its names
	Groups   []string `yaml:"groups"`   // of functions that headers declare and that are not built
	Except   []string `yaml:"except"`   // names that begin so are the runtime's all the same
	Modules  []string `yaml:"modules"`  // of pyACL, without "acl."
	What     string   `yaml:"what"`     // completes "It belongs to"
	Do       string   `yaml:"do"`       // what one can do instead
}

// Scope says what ropeway is, for requests for something else.
const Scope = "ropeway is the runtime alone: devices, contexts, streams, events, memory and copies."

// Text is what there is to say about any name of that part.
func (o *Outside) Text() string { return "It belongs to " + o.What + ". " + Scope + " " + o.Do }

// OutsideFor finds the part that a C name, or a Python name such as acl.mdl.execute, belongs to. It returns nil for a
// name of the runtime and for one that no part has.
func (t *Table) OutsideFor(name string) *Outside {
	if t.Function(name) != nil {
		return nil
	}
	has := func(list []string, fits func(string) bool) bool {
		for _, s := range list {
			if fits(s) {
				return true
			}
		}
		return false
	}
	module, rest := "", strings.TrimPrefix(strings.ToLower(name), "acl.")
	if len(rest) != len(name) {
		module, _, _ = strings.Cut(rest, ".")
	}
	begins := func(prefix string) bool { return strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix)) }
	for i := range t.Outside.Outside {
		o := &t.Outside.Outside[i]
		if has(o.Modules, func(m string) bool { return m == module }) || has(o.Prefixes, begins) &&
			!has(o.Except, begins) {
			return o
		}
	}
	return nil
}

// checkOutside proves that each part can be found and says something.
func (c *checker) checkOutside() {
	seen := map[string]bool{}
	for i := range c.Outside.Outside {
		o := &c.Outside.Outside[i]
		found := 0
		for _, f := range c.Functions {
			if !slices.Contains(o.Groups, f.Group) {
				continue
			}
			found++
			f.Outside = o
			if f.Status != Later || len(f.Rules) > 0 {
				c.errorf("outside.yaml: %s is outside, and is built or has rules", f.Name)
			}
		}
		if found < len(o.Groups) {
			c.errorf("outside.yaml: groups %v: some have no functions", o.Groups)
		}
		if len(o.Prefixes) == 0 || o.What == "" || o.Do == "" {
			c.errorf("outside.yaml: %v: prefixes, what or do is missing", o.Prefixes)
		}
		names := slices.Clone(o.Prefixes)
		for _, m := range o.Modules {
			names = append(names, "acl."+m)
		}
		for _, name := range names {
			if seen[name] {
				c.errorf("outside.yaml: %s appears twice", name)
			}
			seen[name] = true
		}
	}
}
