package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

// TestEntries proves how slots become parameters of package core, for each way a C parameter can be passed.
func TestEntries(t *testing.T) {
	tab, err := table.Load()
	testenv.OK(t, err)
	for _, c := range []struct {
		function string
		m        method
		want     string // the call, or what the generator says
	}{
		{"aclrtMemManagedPrefetchAsync", method{pkg: "core", name: "F",
			params: []string{"Addr", "uint64", "abi.MemManagedLocation", "uint32", "Handle"}, result: "*Error"},
			"t.F(core.Addr(a[0]), a[1], *pointer[abi.MemManagedLocation](a[2]), uint32(a[3]), core.Handle(a[4]))"},
		{"aclrtIpcOpenEventHandle", method{pkg: "core", name: "F", params: []string{"*abi.IpcEventHandle", "*Handle"},
			result: "*Error"},
			"t.F(pointer[abi.IpcEventHandle](a[0]), pointer[core.Handle](a[1]))"},
		{"aclrtIpcMemImportByKey", method{pkg: "core", name: "F", params: []string{"*Addr", "*byte", "uint64"},
			result: "*Error"},
			"t.F(pointer[core.Addr](a[0]), pointer[byte](a[1]), a[2])"},
		{"aclrtNotifyBatchReset", method{pkg: "core", name: "F", params: []string{"*Handle", "uint64"},
			result: "*Error"}, "t.F(pointer[core.Handle](a[0]), a[1])"},
		{"aclrtAllocatorCreateDesc", method{pkg: "core", name: "F", params: nil, result: "Handle"},
			"return uint64(t.F())"},
		{"aclrtAllocatorCreateDesc", method{pkg: "memory", name: "F", params: nil, result: "Handle"},
			"return uint64(memory.F(t.Thread))"},
		{"aclrtNotifyBatchReset", method{pkg: "core", name: "F", params: []string{"**Handle", "uint64"},
			result: "*Error"}, "a Go pointer must not be stored"},
		{"aclrtNotifyBatchReset", method{pkg: "core", name: "F", params: []string{"*Handle"}, result: "*Error"},
			"has 1 parameters, the prototype has 2"},
	} {
		var b bytes.Buffer
		got := ""
		for _, f := range tab.Functions {
			if f.Name != c.function {
				continue
			}
			if err := writeEntry(&b, tab, f, &c.m); err != nil {
				got = err.Error()
			}
		}
		if got += b.String(); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.function, got, c.want)
		}
	}
}

// TestMissingMethod: where nothing does a function of the table, the generator says what to write, and where.
func TestMissingMethod(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"", "aclrtTouch: no function does it; write in a file of internal/core/launch, memory, model, process, " +
			"signal, transfer, older\n\n\t// Touch is aclrtTouch.\n\tfunc Touch(t *core.Thread, …) *core.Error\n"},
		{"// Touch touches it.\nfunc Touch(t *core.Thread, n uint32) *core.Error { return nil }",
			"the function at internal/core/memory/touch.go:6 does not say which function of the API it is; begin its " +
				"comment with \"// Touch is aclrtTouch.\""},
		{"// Feel is aclrtTouch.\nfunc Feel(t *core.Thread, n uint32) *core.Error { return nil }",
			"the comment at internal/core/memory/touch.go:6 says that it is this function, but it has another name; " +
				"call it Touch"},
	} {
		root := t.TempDir()
		path := filepath.Join(root, "internal/core/memory/touch.go")
		testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testenv.OK(t, os.WriteFile(path, []byte("package memory\n\nimport \"core\"\n\n"+c.source+"\n"), 0o644))
		built, err := coreMethods(root)
		testenv.OK(t, err)
		_, err = built.of(&table.Function{Name: "aclrtTouch", Proto: "aclError aclrtTouch(uint32_t n)"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
