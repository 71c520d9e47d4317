package main

import (
	"bytes"
	"strings"
	"testing"

	"ropeway/spec/table"
)

// TestEntries proves how slots become parameters of package core, for each way a C parameter can be passed.
func TestEntries(t *testing.T) {
	tab, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
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
