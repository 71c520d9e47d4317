package main

import (
	"fmt"
	"slices"
	"strings"

	"ropeway/spec/table"
)

// pyHint is a type of special forms: how the stubs spell it as a parameter and as a result.
type pyHint struct{ param, result string }

var pyHints = map[string]pyHint{
	"int":              {"SupportsIndex", "int"},
	"str":              {"str", "str"},
	"str or None":      {"", "Optional[str]"},
	"optional str":     {"str = ...", ""},
	"dict":             {"Mapping[str, Any]", "dict[str, Any]"},
	"list":             {"Sequence[SupportsIndex]", "list[int]"},
	"list of dict":     {"Sequence[Mapping[str, Any]]", "list[dict[str, Any]]"},
	"list of list":     {"", "list[list[int]]"},
	"bytes":            {"bytes", "bytes"},
	"int or bytes":     {"Union[SupportsIndex, bytes]", "Union[int, bytes]"},
	"callable":         {"Callable[..., Any]", ""},
	"callable or None": {"Optional[Callable[..., Any]]", ""},
	"object":           {"Any", ""},
}

// pyNamed are the types of parameters and results of special forms whose names alone determine them.
var pyNamed = map[string]string{
	"[config_path]": "optional str", "fn or None": "callable or None", "fn": "callable",
	"user_data": "object", "args": "object",
	"key": "str", "path": "str", "pkg_name": "str", "msg": "str", "text": "str",
	"dict": "dict", "[[data]]": "list of list",
	"ipc_handle": "bytes", "shareable_handle": "int or bytes",
}

// pyByValue are the functions with a pointer that leads to a value; Python gives and gets the value itself.
var pyByValue = map[string]bool{
	"aclrtMemPoolSetAttr": true, "aclrtMemPoolGetAttr": true,
	"aclrtMemExportToShareableHandleV2": true, "aclrtMemSetPidToShareableHandleV2": true,
	"aclrtMemImportFromShareableHandleV2": true, "aclmdlRICaptureThreadExchangeMode": true,
	"aclmdlRICondHandleGetCondPtr": true,
}

// hints finds the types of a special form. The functions are written by hand; the types are for stubs and readers.
func (f *pyForm) hints(t *table.Table) error {
	results := f.Results
	switch c := f.C().Return; {
	case c.Base == "void" && c.Pointers == 0 && len(results) == 0:
		f.ret = "none"
	case c.Base == "char" && len(results) == 1 && results[0] == "str":
		f.ret = "str"
		if f.fn.Name == "aclGetRecentErrMsg" { // NULL when there is no message
			f.ret = "str or None"
		}
		results = nil
	case c.Base == "aclError" && len(results) > 0 && results[len(results)-1] == "ret":
		f.ret = "code"
		results = results[:len(results)-1]
	default:
		return fmt.Errorf("the result does not fit %s", c)
	}
	for _, p := range f.Params {
		v, err := f.hint(t, p)
		if err != nil {
			return err
		}
		f.params = append(f.params, v)
	}
	for _, r := range results {
		v, err := f.hint(t, r)
		if err != nil {
			return err
		}
		f.results = append(f.results, v)
	}
	return nil
}

func (f *pyForm) hint(t *table.Table, text string) (pyValue, error) {
	name := strings.Trim(strings.TrimSuffix(text, " or None"), "[]")
	if typ := pyNamed[text]; typ != "" {
		return pyValue{name, typ}, nil
	}
	switch {
	case strings.HasPrefix(text, "{"):
		return pyValue{"dict", "dict"}, nil
	case strings.HasSuffix(text, "_dict"):
		return pyValue{name, "dict"}, nil
	case strings.HasSuffix(text, "_list"):
		return pyValue{name, "list of dict"}, nil
	case text == "list", strings.HasPrefix(text, "["): // of structs or of numbers, as C has it
		for _, p := range f.C().Params {
			if k, _ := t.KindOf(p.Type.Base); k == table.StructType && (text == "list" || snake(p.Name) == name) {
				return pyValue{name, "list of dict"}, nil
			}
		}
		return pyValue{name, "list"}, nil
	case !plainName.MatchString(text):
		return pyValue{}, fmt.Errorf("no type for %q", text)
	}
	i := slices.IndexFunc(f.C().Params, func(p table.Param) bool { return snake(p.Name) == text })
	if i >= 0 {
		ty := f.C().Params[i].Type
		if k, _ := t.KindOf(ty.Base); ty.Pointers == 0 && (ty.Func != nil || k == table.FuncType) {
			return pyValue{name, "callable"}, nil
		}
		if ty.Base == "char" && ty.Pointers == 1 {
			return pyValue{name, "str"}, nil
		}
		if typ := scalar(t, ty); typ != "" {
			return pyValue{name, typ}, nil
		}
		if typ := pointee(t, ty); typ != "" {
			return pyValue{name, typ}, nil
		}
	}
	return pyValue{name, "int"}, nil
}
