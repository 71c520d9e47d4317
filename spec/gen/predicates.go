package main

import (
	"fmt"
	"strings"

	"ropeway/spec/table"
)

// operand implements speller.
func (c *check) operand(name string) (text, typ string, err error) {
	name, field, _ := strings.Cut(name, ".")
	i, _ := c.param(name)
	text, typ = c.m.names[i], c.m.params[i]
	if field != "" {
		return text + "." + fieldName(field), "field", nil
	}
	return text, typ, nil
}

// predicate implements speller.
func (c *check) predicate(w *table.When) (string, error) {
	switch w.Op {
	case "context":
		if c.bound["context"] != "" {
			return "ctx != nil", nil
		}
		return "t.Current() != nil", nil
	case "listed":
		return "t.Runtime.Product.Has(api)", nil
	case "product":
		return fmt.Sprintf("t.Product(\"%s\")", strings.Join(w.List, `", "`)), nil
	case "form":
		return "t.Runtime.Product.RC", nil
	case "open":
		if c.bound[w.Args[0].Name] != "" {
			return c.bound[w.Args[0].Name] + ".IsSet()", nil
		}
	}
	if len(w.Args) == 1 && c.bound[w.Args[0].Name] != "" {
		return c.bound[w.Args[0].Name] + ".Is" + upperFirst(w.Op) + "()", nil
	}
	return "", fmt.Errorf("%s: nothing that decides it was looked up before", w.Op)
}
