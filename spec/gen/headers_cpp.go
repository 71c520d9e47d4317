package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"ropeway/spec/table"
)

const apiHead = `C++ call forms of runtime functions, all inline: the library has no symbols for them. In C this file declares nothing. A
call that fits a C function calls that. No other header includes this one.`

// writeRtAPI writes acl_rt_api.h from spec/overloads.yaml.
func writeRtAPI(t *table.Table, _ string) ([]byte, error) {
	const name = "acl_rt_api.h"
	w := newCWriter(t)
	w.comment(apiHead)
	guard := cFile{name: name}.guardMacro()
	w.openGuard(guard)
	w.printf("#include \"acl_rt.h\"\n\n#ifdef __cplusplus\n")
	w.printf("extern \"C++\" { /* even where the include stands inside extern \"C\" */\n\n")
	for i, o := range t.Overloads {
		if o.About != "" {
			trial := ""
			if strings.HasPrefix(o.Callee.Name, "aclrtMemcpyBatch") {
				trial = trialBatch
			}
			w.comment(o.About, trial)
		} else if i == 0 {
			return nil, fmt.Errorf("the first overload has no comment")
		}
		w.overload(o)
	}
	w.printf("} /* extern \"C++\" */\n#endif\n\n")
	w.closeGuard(guard)
	return w.b.Bytes(), nil
}

// overload writes an inline function, or a template of one.
func (w *cWriter) overload(o table.Overload) {
	var params, lists, args []string
	for _, p := range o.Params {
		text := p.Type + " " + p.Name
		if !slices.ContainsFunc(o.Args, func(a table.OverloadArg) bool { return a.Text == p.Name }) {
			text = p.Type + " /* " + p.Name + " */" // neither read nor written
		}
		if p.Default != "" {
			text += " = " + p.Default
		}
		params = append(params, text)
	}
	for _, a := range o.Args {
		if a.List {
			lists = append(lists, fmt.Sprintf("    %s %s[] = {%s};\n", strings.TrimSuffix(a.Wanted.Type.C, "*"),
				a.Wanted.Name, a.Text))
		}
		args = append(args, cppArgument(a))
	}
	if len(o.Types) > 0 {
		w.printf("template <typename %s>\n", strings.Join(o.Types, ", typename "))
	}
	w.printf("%s\n{\n", wrapPrototype("static inline aclError "+o.Name+"("+strings.Join(params, ", ")+")"))
	call := wrapPrototype("    return ::" + o.Callee.Name + "(" + strings.Join(args, ", ") + ");")
	w.printf("%s%s\n}\n\n", strings.Join(lists, ""), strings.ReplaceAll(call, "\n", "\n    "))
}

var templateType = regexp.MustCompile(`\b[TU]\b`)

// cppArgument spells an argument with the cast that C asks for. Pointers to pointers are reinterpreted, which keeps
// const as it is: an output of type const float** does not compile.
func cppArgument(a table.OverloadArg) string {
	switch {
	case a.List:
		return a.Wanted.Name
	case a.Addr:
		return fmt.Sprintf("static_cast<%s>(&%s)", a.Wanted.Type.C, a.Text)
	case templateType.MatchString(a.Type) && strings.HasSuffix(a.Type, "**"):
		return fmt.Sprintf("reinterpret_cast<%s>(%s)", a.Wanted.Type.C, a.Text)
	case a.Type != "" && a.Type != a.Wanted.Type.C:
		return fmt.Sprintf("static_cast<%s>(%s)", a.Wanted.Type.C, a.Text)
	}
	return a.Text
}
