package table

import (
	"reflect"
	"strings"
	"testing"
)

func TestParsePython(t *testing.T) {
	for _, tt := range []struct {
		text string
		want PythonForm
	}{
		{"acl.finalize() -> ret", PythonForm{Module: "acl", Name: "finalize", Results: []string{"ret"}}},
		{"acl.app_log(level, msg)", PythonForm{Module: "acl", Name: "app_log", Params: []string{"level", "msg"}}},
		{"acl.rt.get_mem_info(attr) -> (free, total, ret)",
			PythonForm{Module: "acl.rt", Name: "get_mem_info", Params: []string{"attr"}, Results: []string{"free",
				"total", "ret"}, Tuple: true}},
		{"acl.rt.x(key, [pids]) -> ({'location':{'id','type'},'rsv'}, ret)",
			PythonForm{Module: "acl.rt", Name: "x", Params: []string{"key", "[pids]"},
				Results: []string{"{'location':{'id','type'},'rsv'}", "ret"}, Tuple: true}},
	} {
		got, err := ParsePython(tt.text)
		if tt.want.Text = tt.text; err != nil || !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("%s: %+v, %v", tt.text, got, err)
		}
	}
	for text, want := range map[string]string{
		"rt.memcpy() -> ret":           "no Python form",
		"acl.mdl.load() -> ret":        "no Python form",
		"acl.x(a, , b) -> ret":         "empty item",
		"acl.x([a) -> ret":             "do not match",
		"acl.x() -> (ret)":             "a tuple has two",
		"acl.x() -> size, ret":         "a tuple has two",
		"acl.x() -> (size, ret) # why": "a tuple has two",
	} {
		if _, err := ParsePython(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
