package table

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"ropeway/internal/testenv"
	"ropeway/spec"
)

func TestLoad(t *testing.T) {
	tab, err := Load()
	testenv.OK(t, err)
	core, rules := 0, 0
	for _, f := range tab.Functions {
		if f.Status == Core {
			core++
			rules += len(f.Rules)
		}
	}
	if len(tab.Functions) < 511 || core == 0 || rules == 0 {
		t.Errorf("%d functions, %d core, %d rules; want 511 or more, and some", len(tab.Functions), core, rules)
	}
	if c, ok := tab.CodeByName("ACL_ERROR_RT_PARAM_INVALID"); !ok || c.Number != 107000 {
		t.Errorf("ACL_ERROR_RT_PARAM_INVALID: %+v, %v", c, ok)
	}
	for _, c := range tab.Codes() {
		if tab.AdviceFor(c.Name) == "" {
			t.Errorf("%s: nothing to do about it", c.Name)
		}
	}
	if own, group := tab.AdviceFor("ACL_ERROR_RT_PARAM_INVALID"),
		tab.AdviceFor("ACL_ERROR_RT_FILE_OPEN"); own == group {
		t.Errorf("a code's own advice does not replace that of its group: %q", own)
	}
	if text := tab.AdviceFor("ACL_ERROR_NOPE"); text != "" {
		t.Errorf("advice on a code that does not exist: %q", text)
	}
	f := tab.Function("aclrtMemcpyBatch")
	if f == nil || f.C.Params[0].Type.Pointers != 2 {
		t.Fatalf("aclrtMemcpyBatch: %+v", f)
	}
	if m := f.Rule("sizes-null-again").Mark; m.Kind() != "shadowed" || !strings.HasPrefix(m.Text(), "sizes-null: ") {
		t.Errorf("aclrtMemcpyBatch: rule sizes-null-again: mark %+v", m)
	}
}

// TestRefuses breaks the real table in one place and looks for the complaint.
func TestRefuses(t *testing.T) {
	const rule = "  - {when: dst == NULL, ret: ACL_ERROR_INVALID_PARAM, code: 100000}\n"
	const prose = "  - {name: x, if: x, "
	for _, tt := range []struct {
		name, file, old, new, want string
	}{
		{"unknown field", "functions.yaml", rule, prose + "ret: y, cod: 1}\n", "field cod not found"},
		{"unknown code", "functions.yaml", rule, prose + "ret: ACL_ERROR_NOPE, code: 100000}\n",
			`unknown code "ACL_ERROR_NOPE"`},
		{"wrong number", "functions.yaml", rule, prose + "ret: ACL_ERROR_INVALID_PARAM, code: 100001}\n",
			"ACL_ERROR_INVALID_PARAM is 100000, not 100001"},
		{"no number", "functions.yaml", rule, prose + "ret: ACL_ERROR_INVALID_PARAM}\n", "without its number"},
		{"no condition", "functions.yaml", rule, "  - {ret: ACL_ERROR_INVALID_PARAM, code: 100000}\n", "no condition"},
		{"passes on what", "functions.yaml", rule, prose + "ret: driver code}\n", "names none of them; add such_as"},
		{"passes on no code", "functions.yaml", rule, prose + "ret: driver code, such_as: 107999}\n",
			"no code is 107999"},
		{"passes on and has a code", "functions.yaml", rule, prose + "ret: ACL_SUCCESS, code: 0, such_as: 107000}\n",
			"not beside a code"},
		{"quiet without note", "functions.yaml", rule, prose + "ret: ACL_SUCCESS, code: 0, quiet: true}\n",
			"quiet is true"},
		{"note without quiet", "functions.yaml", ", quiet: true", "", "quiet is false"},
		{"no name", "functions.yaml", rule, "  - {if: x, ret: ACL_SUCCESS, code: 0}\n", `rule "x" has no name`},
		{"name that is none", "functions.yaml", rule, "  - {name: a b, if: x, ret: ACL_SUCCESS, code: 0}\n",
			`"a b" is no name of a rule`},
		{"name that follows", "functions.yaml", "{when: dst == NULL", "{name: dst-null, when: dst == NULL",
			"dst-null: its name follows from when; leave it out"},
		{"name twice", "functions.yaml", rule, rule + rule, "two rules are called dst-null"},
		{"two marks", "functions.yaml", rule, prose + "ret: ACL_SUCCESS, code: 0, mark: {needs: a, decided: b}}\n",
			"exactly one"},
		{"empty mark", "functions.yaml", rule, prose + "ret: ACL_SUCCESS, code: 0, mark: {needs: ''}}\n",
			"exactly one"},
		{"shadow without a rule", "functions.yaml", rule, prose + "ret: ACL_SUCCESS, code: 0, mark: {shadowed: " +
			"twice}}\n", "rule: why"},
		{"shadow by itself", "functions.yaml", rule, prose + "ret: ACL_SUCCESS, code: 0, mark: {shadowed: 'x: " +
			"why'}}\n", "does not come before"},
		{"rule of an unknown product", "functions.yaml", rule,
			prose + "ret: ACL_SUCCESS, code: 0, products: ['311']}\n", `unknown product "311"`},
		{"rule of no product", "functions.yaml", rule, prose + "ret: ACL_SUCCESS, code: 0, products: []}\n",
			"no product has it"},
		{"duplicate function", "functions.yaml", "- name: aclrtMemcpyAsync\n", "- name: aclrtMemcpy\n",
			"aclrtMemcpy: function appears twice"},
		{"bad status", "kernel.yaml", "  status: later\n", "  status: soon\n", `unknown status "soon"`},
		{"bad product", "functions.yaml", "A3, A2", "A3, A9", `unknown product "A9"`},
		{"unknown type", "functions.yaml", "aclrtMemcpyKind kind)", "aclrtNope kind)", `unknown type "aclrtNope"`},
		{"no Python form", "functions.yaml", "python: acl.rt.memcpy(", "python: memcpy(", "is no Python form"},
		{"Python name twice", "functions.yaml", "python: acl.rt.memcpy_async(", "python: acl.rt.memcpy(",
			"also the Python form of aclrtMemcpy"},
		{"Python form and extra form", "functions.yaml", "  python: acl.rt.memcpy(",
			"  python_extra: acl.rt.x()\n  python: acl.rt.memcpy(", "python_extra is for"},
		{"duplicate code", "errors.yaml", "name: ACL_ERROR_UNINITIALIZE,", "name: ACL_ERROR_INVALID_PARAM,",
			"ACL_ERROR_INVALID_PARAM appears twice"},
		{"duplicate number", "errors.yaml", "number: 100001,", "number: 100000,", "are both 100000"},
		{"duplicate enumerator", "types.yaml", "ACL_FLOAT16,", "ACL_FLOAT,", "constant ACL_FLOAT appears twice"},
		{"duplicate type", "types.yaml", "- name: aclFormat\n", "- name: aclDataType\n",
			"type aclDataType appears twice"},
		{"wrong offset", "types.yaml", "{name: id, type: int32_t, offset: 4, size: 4}",
			"{name: id, type: int32_t, offset: 8, size: 4}", "offset 8, C gives 4"},
		{"wrong size", "types.yaml", "{name: id, type: int32_t, offset: 4, size: 4}",
			"{name: id, type: int64_t, offset: 4, size: 4}", "its type gives 8"},
		{"advice on an unknown code", "advice.yaml", "  ACL_ERROR_UNINITIALIZE:", "  ACL_ERROR_NOPE:",
			`unknown code "ACL_ERROR_NOPE"`},
		{"advice on an unknown group", "advice.yaml", "  ge_param:", "  ge_nope:", `unknown group "ge_nope"`},
		{"group without advice", "advice.yaml", "  success: Nothing to do.\n", "", "group success: no text"},
		{"empty advice", "advice.yaml", "  ACL_ERROR_RT_DEV_SETUP_ERROR: ", "  ACL_ERROR_RT_DEV_SETUP_ERROR: # ",
			"ACL_ERROR_RT_DEV_SETUP_ERROR: no text"},
		{"overload of nothing", "overloads.yaml", "aclrtSynchronizeDeviceWithTimeout(", "aclrtNope(",
			"calls aclrtNope, which is no function"},
		{"overload lacks an argument", "overloads.yaml", "aclrtSynchronizeDeviceWithTimeout(timeout)",
			"aclrtSynchronizeDeviceWithTimeout()", "0 arguments, the function takes 1"},
		{"overload names a stranger", "overloads.yaml", "aclrtSynchronizeDeviceWithTimeout(timeout)",
			"aclrtSynchronizeDeviceWithTimeout(other)", `"other" is no parameter`},
		{"overload of another type", "overloads.yaml", "aclrtSynchronizeDevice(int32_t timeout)",
			"aclrtSynchronizeDevice(uint64_t timeout)", "is uint64_t, timeout is int32_t"},
		{"older name of nothing", "older.yaml", "calls: aclrtDeviceGetBareTgid(", "calls: aclrtNope(",
			`calls "aclrtNope(pid)", which is no function`},
		{"older name with few arguments", "older.yaml", "aclrtMallocHost(hostPtr, size)", "aclrtMallocHost(size)",
			"it calls aclrtMallocHost with 1 arguments, not 2"},
		{"no release", "types.yaml", "release: 9.1.0", "release: '9'", "release \"9\""},
		{"unknown array bound", "types.yaml", "array: UCE_INFO_RESERVED_SIZE", "array: NOPE",
			`unknown array bound "NOPE"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(broken(t, tt.file, tt.old, tt.new))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// broken returns the real files with the first old in file replaced by new.
func broken(t *testing.T, file, old, new string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	for _, name := range append(slices.Clone(functionFiles), "types.yaml", "errors.yaml", "advice.yaml",
		"overloads.yaml", "outside.yaml") {
		data, err := spec.Files.ReadFile(name)
		testenv.OK(t, err)
		if name == file {
			if !strings.Contains(string(data), old) {
				t.Fatalf("%s has no %q", file, old)
			}
			data = []byte(strings.Replace(string(data), old, new, 1))
		}
		files[name] = &fstest.MapFile{Data: data}
	}
	return files
}
