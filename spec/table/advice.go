package table

import "slices"

// Advice is advice.yaml: what to do about an error code.
type Advice struct {
	Groups map[string]string `yaml:"groups"` // by group of errors.yaml; complete
	Codes  map[string]string `yaml:"codes"`  // by C name, for some codes
}

// AdviceFor reports what to do about the code with that C name: its own text or else that of its group, "" if there is
// no such code.
func (t *Table) AdviceFor(name string) string {
	if text := t.Advice.Codes[name]; text != "" {
		return text
	}
	for _, g := range t.Errors.Groups {
		if slices.ContainsFunc(g.Codes, func(c Code) bool { return c.Name == name }) {
			return t.Advice.Groups[g.Group]
		}
	}
	return ""
}

// checkAdvice proves that advice names what exists, and that no code is without.
func (c *checker) checkAdvice() {
	for name, text := range c.Advice.Codes {
		if _, known := c.codes[name]; !known {
			c.errorf("advice.yaml: unknown code %q", name)
		}
		if text == "" {
			c.errorf("advice.yaml: %s: no text", name)
		}
	}
	groups := map[string]bool{}
	for _, g := range c.Errors.Groups {
		groups[g.Group] = true
		if c.Advice.Groups[g.Group] == "" {
			c.errorf("advice.yaml: group %s: no text", g.Group)
		}
	}
	for name := range c.Advice.Groups {
		if !groups[name] {
			c.errorf("advice.yaml: unknown group %q", name)
		}
	}
}
