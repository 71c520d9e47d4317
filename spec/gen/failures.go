package main

import (
	"fmt"
	"strings"

	"ropeway/spec/table"
)

// failure is the error of a rule that applies, as Go; "nil" if there is nothing to do.
func (c *check) failure(r *table.Rule) (string, error) {
	if *r.Code == 0 {
		return "nil", nil
	}
	quiet := ""
	if r.Quiet {
		quiet = ".NotRecorded()"
	}
	params := r.Expr.Params()
	if len(params) == 1 && r.If == params[0]+" is NULL" && *r.Code == 100000 {
		return fmt.Sprintf("%s(api, %q)%s", c.of("IsNull"), params[0], quiet), nil
	}
	if *r.Code == noContextCode {
		return c.of("NoCurrentContext") + "(api)" + quiet, nil
	}
	if r.Expr.Op == "!" && r.Expr.Args[0].Op == "listed" {
		return "t.Lacks(api)" + quiet, nil
	}
	if r.Expr.Op == "captured" && *r.Code == capturedCode && c.holds[params[0]] == c.typed("*Stream") {
		return fmt.Sprintf("%s(api, %s)%s", c.of("Captured"), c.bound[params[0]], quiet), nil
	}
	if r.Expr.Op == "captured" && *r.Code == eventCapturedCode && c.holds[params[0]] == c.typed("*Event") {
		return fmt.Sprintf("%s(api, %q, %s)%s", c.of("EventCaptured"), params[0], c.bound[params[0]], quiet), nil
	}
	if r.Expr.Op == "!" && r.Expr.Args[0].Op == "open" && *r.Code == notSetCode && c.bound[params[0]] != "" {
		return fmt.Sprintf("%s.NotSet(api, %q)%s", c.bound[params[0]], params[0], quiet), nil
	}
	if len(params) == 1 && len(r.Expr.Args) == 2 && *r.Code == noDeviceCode {
		text, _, err := c.operand(params[0])
		return fmt.Sprintf("t.NoDevice(api, %q, int64(%s))%s", params[0], text, quiet), err
	}
	if of := r.Expr; *r.Code == noFeatureCode && (of.Op == "product" || of.Op == "!" && of.Args[0].Op == "product") {
		return fmt.Sprintf("%s(api, \"\", \"%%s does not have this function\", t.Runtime.Product.Name)%s",
			c.of("Unsupported"), quiet), nil
	}
	if len(params) == 0 {
		return fmt.Sprintf("%s(api, %s, \"\", \"%%s: %s\", t.Runtime.Product.Name)%s", c.of("Fail"), c.n.code(r),
			escape(r.If), quiet), nil
	}
	var values, shown []string
	for _, name := range r.Expr.Operands() {
		p := c.f.Param(name)
		if p != nil && c.t.IsPointer(p) || strings.HasSuffix(r.If, " == 0") || strings.HasSuffix(r.If, " is 0") {
			continue
		}
		text, _, err := c.operand(name)
		if err != nil {
			return "", err
		}
		verb := "%d"
		if strings.HasPrefix(strings.ToLower(name), "flag") || strings.HasSuffix(name, "Flags") {
			verb = "%#x"
		}
		_, field, ok := strings.Cut(name, ".")
		switch {
		case len(r.Expr.Operands()) == 1 && !ok:
			shown = append(shown, "it is "+verb)
		case ok:
			shown = append(shown, field+" is "+verb)
		default:
			shown = append(shown, name+" is "+verb)
		}
		values = append(values, ", "+text)
	}
	says := escape(strings.TrimPrefix(r.If, params[0]+" "))
	if op, rest, ok := strings.Cut(says, " "); ok && inWords[op] != "" {
		says = inWords[op] + " " + rest
	}
	if len(shown) > 0 {
		says += "; " + strings.Join(shown, ", ")
	}
	return fmt.Sprintf("%s(api, %s, %q, %q%s)%s", c.of("Fail"), c.n.code(r), params[0], says, strings.Join(values, ""),
		quiet), nil
}

// inWords is how a message says a comparison.
var inWords = map[string]string{"==": "is", "!=": "is not", "<": "is below", "<=": "is at most", ">": "is above",
	">=": "is at least"}

// escape makes text safe in a format.
func escape(s string) string { return strings.ReplaceAll(s, "%", "%%") }
