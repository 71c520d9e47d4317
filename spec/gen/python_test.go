package main

import (
	"fmt"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

// TestPythonArguments proves which argument of C each parameter and result of Python is.
func TestPythonArguments(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	forms, err := pyForms(tab)
	testenv.OK(t, err)
	want := map[string]string{
		"acl.rt.memcpy": "[{dst address} {dest_max uint64} {src address} {count uint64} {kind " +
			"int32}] [] [0 1 2 3 4] code",
		"acl.rt.malloc":                  "[{size uint64} {policy int32}] [{ptr address}] [-1 0 1] code",
		"acl.rt.get_mem_info":            "[{attr int32}] [{free uint64} {total uint64}] [0 -1 -2] code",
		"acl.rt.host_get_device_pointer": "[{p_host address} {flag uint32}] [{p_device address}] [0 -1 1] code",
		"acl.rt.event_elapsed_time":      "[{start_event handle} {end_event handle}] [{ms float}] [-1 0 1] code",
		"acl.rt.set_memcpy_desc": "[{desc address} {kind int32} {src_addr address} {dst_addr address} " +
			"{count uint64} {config address}] [{desc address}] [0 1 2 3 4 5] code",
		"acl.rt.memcpy_async_with_offset": "[{dst address} {dest_max uint64} {dst_data_offset uint64} {src address} " +
			"{count uint64} {src_data_offset uint64} {kind int32} {stream handle}] [] [0 1 2 3 4 5 6 7] code",
		// The other way round than in C, which wants NULL for the flags.
		"acl.rt.get_primary_ctx_state": fmt.Sprintf(
			"[{device_id int32}] [{active int32} {flags uint32}] [0 %d -1] code", pyNull),
		"acl.get_version":           "[] [{major int32} {minor int32} {patch int32}] [-1 -2 -3] code",
		"acl.float_to_float16":      "[{value float}] [] [0] uint16",
		"acl.create_data_buffer":    "[{data address} {size uint64}] [] [0 1] address",
		"acl.rt.get_device_info":    "[{device_id uint32} {attr int32}] [{value int64}] [0 1 -1] code",
		"acl.rt.malloc_with_cfg":    "special",
		"acl.rt.notify_batch_reset": "special",
		"acl.init":                  "special",
		"acl.get_soc_name":          "special",
	}
	theirs, plain := 0, 0
	for _, f := range forms {
		if f.fn.Python != nil {
			theirs++
		}
		got := "special"
		if !f.special {
			plain++
			got = fmt.Sprint(f.params, f.results, f.args) + " " + f.ret
		}
		if w, ok := want[f.path()]; ok && got != w {
			t.Errorf("%s:\n got %s\nwant %s", f.path(), got, w)
		}
		delete(want, f.path())
	}
	if len(want) > 0 {
		t.Errorf("no such form: %v", want)
	}
	if theirs != 221 || plain < 150 {
		t.Errorf("%d forms of pyACL, %d plain ones; want 221 and most", theirs, plain)
	}
	for name, wait := range pyWaits {
		if f := tab.Function(name); f == nil || f.Form == nil {
			t.Errorf("%s waits for a %s, but has no Python form", name, wait)
		}
	}
}

// TestPythonRefuses proves that a form that does not fit its prototype stops the generator.
func TestPythonRefuses(t *testing.T) {
	for _, tt := range []struct{ function, form, want string }{
		{"aclrtMemcpy", "acl.rt.memcpy(dst, dest_max, src, kind) -> ret",
			"4 names (dst, dest_max, src, kind) for 5 parameters"},
		{"aclrtMemcpy", "acl.rt.memcpy(dst, dest_max, src, count, kind) -> (x, ret)", "1 names (x) for 0 parameters"},
		{"aclrtMemcpy", "acl.rt.memcpy(dst, dest_max, src, count, kind)", "the result does not fit aclError"},
		{"aclrtMemcpy", "acl.rt.memcpy(to, dest_max, from, count, kind) -> ret", "is to the parameter dst?"},
		{"aclrtGetMemInfo", "acl.rt.get_mem_info(attr) -> (free, ret)", "1 names (free) for 2 parameters"},
		{"aclrtGetMemInfo", "acl.rt.get_mem_info(attr) -> (a, b, ret)", "is a the parameter free?"},
		{"aclrtGetMemInfo", "acl.rt.get_mem_info(attr, free) -> (total, ret)",
			"parameter free cannot be passed as a number"},
		{"aclDataTypeSize", "acl.data_type_size(type) -> ret", "the result does not fit size_t"},
		{"aclrtMallocWithCfg", "acl.rt.malloc_with_cfg(size, policy, cfg_dict) -> ptr",
			"the result does not fit aclError"},
		{"aclrtMallocWithCfg", "acl.rt.malloc_with_cfg(size, policy, cfg or so) -> ret", `no type for "cfg or so"`},
	} {
		tab, err := table.Load()
		testenv.OK(t, err)
		f := tab.Function(tt.function)
		if f.Form, err = table.ParsePython(tt.form); err != nil {
			t.Fatal(err)
		}
		if _, err := pyForms(tab); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.form, err, tt.want)
		}
	}
}
