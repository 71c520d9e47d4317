package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ropeway/internal/explain"
	"ropeway/internal/finding"
	"ropeway/internal/ui"
)

func (a *app) explain() *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "explain CODE-or-NAME",
		Short: "Explain an error code, a function, a type or a rule of the checker",
		Long: `Explain a name or a number of the API, or a rule of ropeway check.

An error code: its meaning, the layer it comes from, what to do about it, and
which functions return it when. A function: prototype, products, Python form and
its checks in order, each with its code. An enum, a struct, a handle or a macro:
its values or its layout, and what uses it. A rule of the checker: what it finds
and what to do about it.

Names of other parts of the vendor's toolkit (aclmdl*, aclop*, aclnn*, acldvpp*,
Hccl*, acl.mdl, acl.op) are explained too: what they belong to, and what to do.
The exit code is 0 for what is explained, and 1 for a name that is not known.

Case does not matter, and ACL_ERROR_ may be left out.`,
		Example: `  ropeway explain 107002
  ropeway explain 0x1A1F8
  ropeway explain RT_FEATURE_NOT_SUPPORT --all
  ropeway explain aclrtMemcpyAsync
  ropeway explain acl.rt.memcpy_async
  ropeway explain ACL_MEMCPY_HOST_TO_DEVICE
  ropeway explain aclmdlLoadFromFile
  ropeway explain aclrtMemLocation --json
  ropeway explain stream-race`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return &usageError{errors.New("explain needs a code or a name"), "for example: " + a.name +
					" explain 107002"}
			case 1:
				return nil
			}
			return &usageError{fmt.Errorf("explain takes one name, but there is also %q", args[1]), "see " + a.name +
				" explain --help"}
		},
		ValidArgsFunction: completeNames,
		RunE: func(_ *cobra.Command, args []string) error {
			if rule := finding.ByName(strings.ToLower(args[0])); rule != nil {
				return a.explainRule(rule, asJSON)
			}
			book, err := explain.Open()
			if err != nil {
				return err
			}
			answer, err := book.Find(args[0])
			var missing *explain.NotFound
			if errors.As(err, &missing) {
				missing.Near = slices.Concat(explain.Near(args[0], finding.RuleNames()), missing.Near)
				f := a.notFound(missing)
				if missing.Range == "" {
					f.err = fmt.Errorf("there is no code, function, type or rule %q", args[0])
				}
				return f
			}
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(answer)
			}
			w := &explanation{newPage(ui.New(a.stdout, a.getenv)), all}
			w.answer(answer)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON, with everything in it")
	cmd.Flags().BoolVar(&all, "all", false, "do not shorten lists of functions")
	return cmd
}

// completeNames offers what begins with the word, in the shell's completion.
func completeNames(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	var fit []string
	if book, err := explain.Open(); err == nil && len(args) == 0 {
		for _, name := range slices.Concat(book.Names(), book.Numbers(), finding.RuleNames()) {
			if strings.HasPrefix(name, word) {
				fit = append(fit, name+"\t"+oneLine(book, name))
			}
		}
	}
	return fit, cobra.ShellCompDirectiveNoFileComp
}

// oneLine says what a number or a rule is; "" for names, which say it themselves.
func oneLine(book *explain.Book, name string) string {
	if rule := finding.ByName(name); rule != nil {
		return rule.Catches
	}
	if _, err := strconv.Atoi(name); err == nil {
		if found, err := book.Find(name); err == nil && found.Code != nil {
			return found.Code.Name
		}
	}
	return ""
}

// explainRule explains a rule of the checker.
func (a *app) explainRule(rule *finding.Rule, asJSON bool) error {
	if asJSON {
		return a.writeJSON(map[string]any{"rule": rule.Name, "severity": rule.Severity, "finds": rule.Catches,
			"what_to_do": rule.Advice})
	}
	w := newPage(ui.New(a.stdout, a.getenv))
	w.Line("%s", w.Bold(rule.Name))
	w.item("what", "a rule of "+a.name+" check")
	w.item("severity", string(rule.Severity))
	w.item("finds", rule.Catches)
	w.item("what to do", rule.Advice)
	w.item("without it", a.name+" check --no-rule "+rule.Name)
	w.item("example", rule.Page())
	return nil
}

// notFound says what is like a name that does not exist.
func (a *app) notFound(missing *explain.NotFound) *failure {
	return &failure{err: missing, next: didYouMean(missing.Near, "see "+a.name+" explain --help")}
}

// didYouMean asks for one of some names; without any it returns otherwise.
func didYouMean(near []string, otherwise string) string {
	switch n := len(near); n {
	case 0:
		return otherwise
	case 1:
		return "did you mean " + near[0] + "?"
	default:
		return "did you mean " + strings.Join(near[:n-1], ", ") + " or " + near[n-1] + "?"
	}
}

// explanation writes an entry as text.
type explanation struct {
	*page
	all bool // lists are not shortened
}

func (w *explanation) answer(a *explain.Answer) {
	switch {
	case a.Code != nil:
		w.code(a.Code)
	case a.Function != nil:
		w.function(a.Function)
	case a.Type != nil:
		w.typ(a.Type)
	case a.Outside != nil:
		w.Line("%s  is not part of the runtime", w.Bold(a.Outside.Name))
		w.item("belongs to", a.Outside.What)
		w.item("ropeway", strings.TrimPrefix(a.Outside.Scope, "ropeway "))
		w.item("what to do", a.Outside.Do)
	default:
		w.Line("%s", w.Bold(a.Macro.Name))
		w.item("macro", a.Macro.Text)
		w.item("header", path.Join("acl", a.Macro.Header))
	}
}

// fewFunctions is how many functions a list has without --all.
const fewFunctions = 8

func (w *explanation) code(c *explain.Code) {
	w.Line("%s  0x%X", w.Bold(fmt.Sprintf("%d %s", c.Number, c.Name)), uint32(c.Number))
	w.item("meaning", c.Meaning)
	w.item("layer", c.Layer)
	w.item("header", path.Join("acl", c.Header))
	w.item("also", strings.Join(c.Aliases, ", "))
	w.item("what to do", c.Do)
	n := len(c.Answers)
	switch {
	case n == 0 && c.NotYet == 0:
		w.Line("")
		w.beside("", "No function of this runtime returns it by a rule of its own.")
		return
	case n > 0:
		w.head("RETURNED BY " + strings.ToUpper(functions(n)))
	}
	shown := c.Answers
	if !w.all {
		shown = shown[:min(n, fewFunctions)]
	}
	for _, s := range shown {
		w.source(s)
	}
	if more := n - len(shown); more > 0 {
		w.Line("%s", w.Dim(fmt.Sprintf("  and %d more; --all shows them", more)))
	}
	if c.NotYet > 0 {
		w.Line("")
		w.beside("", fmt.Sprintf("Also returned by the %s that are not built yet, where they return an error code.",
			functions(c.NotYet)))
	}
}

func functions(n int) string {
	if n == 1 {
		return "1 function"
	}
	return fmt.Sprintf("%d functions", n)
}

// source writes a function with the conditions under which it returns the code.
func (w *explanation) source(s explain.Source) {
	w.Line("  %s", s.Function)
	for _, r := range s.Rules {
		w.beside("    ", r.Name+": "+r.If)
	}
}

func (w *explanation) function(f *explain.Function) {
	w.Line("%s", w.Bold(f.Name))
	w.prototype(f.Prototype)
	w.item("header", path.Join("acl", f.Header))
	w.item("does", f.Does)
	if f.Calls != "" {
		w.item("equals", f.Calls+", whose checks follow those below; 100000 is 107000 here, and the last error")
	}
	switch {
	case !f.Built:
		w.item("built", notBuilt(f))
	case f.Deprecated:
		w.item("built", "yes, and deprecated")
	default:
		w.item("built", "yes")
	}
	w.item("instead", f.ReplacedBy)
	if f.Outside != nil {
		w.item("what to do", f.Outside.Do)
	}
	w.item("products", support(f.Products))
	switch {
	case f.Python != "":
		w.item("Python", f.Python)
	default:
		w.item("Python", "not offered by pyACL")
	}
	w.rules(f.Rules)
	if len(f.Notes) > 0 {
		w.head("NOTES")
		for _, n := range f.Notes {
			w.beside("  - ", n)
		}
	}
}

// notBuilt says what a function does that is not built.
func notBuilt(f *explain.Function) string {
	text := "not yet: it "
	if f.Outside != nil {
		text = "no, since " + f.Outside.Scope + " It belongs to " + f.Outside.What + ". It "
	}
	switch f.Checked {
	case 0:
	case 1:
		text += "makes the first check below, then it "
	default:
		text += fmt.Sprintf("makes %d of the checks below, up to %s, then it ", f.Checked, f.LastChecked)
	}
	return text + "returns 207000, or NULL or 0 where it returns no code, and says so once on standard error"
}

// prototype writes a declaration, one parameter a line if it is too long for one.
func (w *explanation) prototype(text string) {
	if len(text)+3 <= w.width {
		w.Line("  %s;", text)
		return
	}
	front, params, _ := strings.Cut(text, "(")
	w.Line("  %s(", front)
	depth, from := 0, 0
	for i, r := range params {
		switch {
		case r == '(':
			depth++
		case r == ')' && depth > 0:
			depth--
		case r == ',' && depth == 0:
			w.Line("      %s", strings.TrimSpace(params[from:i+1]))
			from = i + 1
		}
	}
	w.Line("      %s;", strings.TrimSpace(params[from:]))
}

func support(list []explain.Support) string {
	if list == nil {
		return "the documents do not say"
	}
	var yes, no []string
	for _, s := range list {
		if s.Has {
			yes = append(yes, s.Product)
		} else {
			no = append(no, s.Product)
		}
	}
	switch {
	case yes == nil:
		return "none lists it"
	case no == nil:
		return "all: " + strings.Join(yes, " ")
	}
	return "yes: " + strings.Join(yes, " ") + "; no: " + strings.Join(no, " ")
}

// rules writes the checks in order, and then the names of their codes.
func (w *explanation) rules(rules []explain.Rule) {
	if len(rules) == 0 {
		return
	}
	w.head("CHECKS, IN ORDER; THE FIRST THAT APPLIES DECIDES")
	var codes []explain.Rule
	seen := map[int32]bool{}
	for _, r := range rules {
		code := "-"
		text := r.Name + ": " + r.If
		if r.Code != nil {
			code = fmt.Sprint(*r.Code)
			if !seen[*r.Code] {
				seen[*r.Code] = true
				codes = append(codes, r)
			}
		} else {
			text += ": " + r.Ret
			if r.SuchAs != nil {
				text += fmt.Sprintf(", such as %d", *r.SuchAs)
			}
		}
		if r.Note != "" {
			text += " (" + r.Note + ")"
		}
		if r.Where != "" {
			text += " [" + r.Where + "]"
		}
		w.beside(fmt.Sprintf("  %7s  ", code), text)
		w.beside(strings.Repeat(" ", 11), mark(r))
	}
	w.head("CODES")
	for _, r := range codes {
		w.Line("  %7d  %s", *r.Code, r.Ret)
	}
}

// mark says what is special about a rule here.
func mark(r explain.Rule) string {
	switch r.Mark {
	case "needs":
		return "[not here yet: needs " + r.Why + "]"
	case "shadowed":
		return "[never reached: " + r.Why + "]"
	case "decided":
		return "[ropeway: " + r.Why + "]"
	}
	return ""
}

func (w *explanation) typ(t *explain.Type) {
	w.Line("%s", w.Bold(t.Name))
	text := t.Kind
	if t.Size > 0 {
		text += fmt.Sprintf(", %d bytes, aligned to %d", t.Size, t.Align)
	}
	w.item("kind", text)
	w.item("header", path.Join("acl", t.Header))
	w.item("declared", t.C)
	if len(t.Members) > 0 {
		w.members(t)
	}
	if n := len(t.UsedBy); n > 0 {
		w.head("USED BY " + strings.ToUpper(functions(n)))
		shown := t.UsedBy
		if !w.all {
			shown = shown[:min(n, 2*fewFunctions)]
		}
		w.list(shown)
		if more := n - len(shown); more > 0 {
			w.Line("%s", w.Dim(fmt.Sprintf("  and %d more; --all shows them", more)))
		}
	}
}

// members writes enumerators with their values, or fields with where they lie.
func (w *explanation) members(t *explain.Type) {
	widest := 0
	for _, m := range t.Members {
		widest = max(widest, len(m.Name), len(m.Type))
	}
	if t.Kind == "enum" {
		w.head("VALUES")
	} else {
		w.head(ui.Columns{-9, -7}.Row("OFFSET", "BYTES", "FIELD"))
	}
	for _, m := range t.Members {
		if m.Value == nil {
			w.Line("%s", ui.Columns{-9, -7}.Row(fmt.Sprint(m.Offset), fmt.Sprint(m.Size), m.Type+" "+m.Name))
			continue
		}
		line := fmt.Sprintf("  %-*s %d", widest, m.Name, *m.Value)
		if m.Deprecated {
			line += "  deprecated"
		}
		if m.Name == t.Asked {
			line = w.Good("> " + line[2:])
		}
		w.Line("%s", line)
	}
}
