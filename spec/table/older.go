package table

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Call is a call of a function, with arguments.
type Call struct {
	Function *Function
	Args     []string // each a parameter of the caller, a number, or a call such as policy(type)
}

var callRE = regexp.MustCompile(`^(\w+)\((.*)\)$`)

// ParseCall parses a call of a name with arguments, such as policy(type). It returns "" for other text.
func ParseCall(text string) (name string, args []string) {
	m := callRE.FindStringSubmatch(text)
	if m == nil {
		return "", nil
	}
	depth, start := 0, 0
	for i, c := range m[2] + "," {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			args = append(args, strings.TrimSpace((m[2] + ",")[start:i]))
			start = i + 1
		}
	}
	return m[1], args
}

// checkCalls reads the call of a function that another one does the work of.
func (c *checker) checkCalls(f *Function) {
	if f.Calls == "" {
		return
	}
	name, args := ParseCall(f.Calls)
	to := c.Function(name)
	if to == nil || to.Calls != "" || to.Status != Core {
		c.errorf("%s: it calls %q, which is no function of the API that is built", f.Name, f.Calls)
		return
	}
	if len(args) != len(to.C.Params) {
		c.errorf("%s: it calls %s with %d arguments, not %d", f.Name, name, len(args), len(to.C.Params))
	}
	f.Same = &Call{to, args}
}

// ReturnsCode reports whether the result of a function is an error code.
func (f *Function) ReturnsCode() bool {
	return f.C.Return.Pointers == 0 && slices.Contains([]string{"aclError", "rtError_t"}, f.C.Return.Base)
}

// Included returns a header of the table as programs include it.
func Included(header string) string { return path.Join("acl", header) }
