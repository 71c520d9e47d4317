package table

import (
	"fmt"
	"regexp"
	"strings"
)

// PythonForm is the shape of a function of the Python module acl, as the table writes it:
//
//	acl.rt.get_mem_info(attr) -> (free, total, ret)
//
// Parameters and results stay text: a name, or a hint such as "[pids]" for a list and "{'bytes': [16]}" for a
// dictionary.
type PythonForm struct {
	Text    string
	Module  string // "acl", "acl.rt" or "acl.prof"
	Name    string
	Params  []string
	Results []string // nil when the function returns None
	Tuple   bool     // the results come as one tuple
}

var pythonRE = regexp.MustCompile(`^(acl|acl\.rt|acl\.prof)\.([a-z][a-z0-9_]*)\(([^()]*)\)(?: -> (.+))?$`)

// ParsePython parses the text of a python or python_extra field.
func ParsePython(s string) (*PythonForm, error) {
	m := pythonRE.FindStringSubmatch(s)
	if m == nil {
		return nil, fmt.Errorf("%q is no Python form", s)
	}
	form := &PythonForm{Text: s, Module: m[1], Name: m[2]}
	var err error
	if form.Params, err = pythonList(m[3]); err != nil {
		return nil, fmt.Errorf("%q: %w", s, err)
	}
	results := m[4]
	if strings.HasPrefix(results, "(") && strings.HasSuffix(results, ")") {
		form.Tuple = true
		results = results[1 : len(results)-1]
	}
	if form.Results, err = pythonList(results); err != nil {
		return nil, fmt.Errorf("%q: %w", s, err)
	}
	if form.Tuple != (len(form.Results) > 1) {
		return nil, fmt.Errorf("%q: a tuple has two results or more, and nothing else has", s)
	}
	return form, nil
}

// pythonList splits at the commas that are outside brackets.
func pythonList(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	var items []string
	depth, start := 0, 0
	for i, c := range s + "," {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				items = append(items, strings.TrimSpace((s + ",")[start:i]))
				start = i + 1
			}
		}
	}
	for _, item := range items {
		if item == "" {
			return nil, fmt.Errorf("an empty item in %q", s)
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("brackets do not match in %q", s)
	}
	return items, nil
}

// checkPython fills Form and proves that a Python name stands for one function.
func (c *checker) checkPython(f *Function, seen map[string]string) {
	text := f.PythonExtra
	if f.Python != nil {
		if f.PythonExtra != "" {
			c.errorf("%s: python_extra is for functions that pyACL does not offer", f.Name)
		}
		text = *f.Python
	}
	if text == "" {
		return
	}
	var err error
	if f.Form, err = ParsePython(text); err != nil {
		c.errorf("%s: %v", f.Name, err)
		return
	}
	name := f.Form.Module + "." + f.Form.Name
	if seen[name] != "" {
		c.errorf("%s: %s is also the Python form of %s", f.Name, name, seen[name])
	}
	seen[name] = f.Name
}
