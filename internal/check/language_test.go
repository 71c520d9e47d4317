package check

import (
	"slices"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/finding"
)

// TestFrontEndNames proves that calls, arguments and frames of an interpreter are named by the front end.
func TestFrontEndNames(t *testing.T) {
	p := begin(t)
	by := p.withFrontEnd()
	s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
	by.in("aclrtMemcpyAsync", 7)
	p.down(host, dev, 64, s)
	by.in("aclrtMemcpy", 8)
	p.ok(transfer.Memcpy(p.Thread, dev+1024, 64, host, 64, abi.MemcpyHostToDevice))
	f := p.only("host-read-in-flight")
	want := []finding.Frame{{Function: "f1", File: "file1.py", Line: 8}}
	if f.Offence.Call != "acl.rt.memcpy(python [1 2])" || !slices.Equal(f.Offence.Stack, want) {
		t.Errorf("the offence is %+v", f.Offence)
	}
	want[0].Line = 7
	if f.Others[0].Call != "acl.rt.memcpy_async(python [1 2])" || !slices.Equal(f.Others[0].Stack, want) {
		t.Errorf("the other is %+v", f.Others[0])
	}
	if !strings.HasPrefix(f.Summary, "acl.rt.memcpy reads 64 bytes that a pending acl.rt.memcpy_async (task 1 of ") ||
		!strings.Contains(f.Advice, "(acl.rt.synchronize_stream)") {
		t.Errorf("summary %q, advice %q", f.Summary, f.Advice)
	}
}

// TestFaceNamesInC proves that calls from C have their C names, even in a process with an interpreter.
func TestFaceNamesInC(t *testing.T) {
	p := begin(t)
	by := p.withFrontEnd()
	s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
	by.in("aclrtMemcpyAsync", 7)
	p.down(host, dev, 64, s)
	by.inC = true
	by.in("aclrtMemcpy", 8)
	p.ok(transfer.Memcpy(p.Thread, dev+1024, 64, host, 64, abi.MemcpyHostToDevice))
	f := p.only("host-read-in-flight")
	if f.Offence.Call != "aclrtMemcpy([1 2])" || f.Others[0].Call != "acl.rt.memcpy_async(python [1 2])" ||
		!strings.HasPrefix(f.Summary, "aclrtMemcpy reads 64 bytes that a pending acl.rt.memcpy_async (task 1 of ") ||
		!strings.Contains(f.Advice, "(aclrtSynchronizeStream)") {
		t.Errorf("found %s", show(f))
	}
}

// TestGoProgram proves the differences for Go programs: resources left at the end are freed by Close and are not leaks;
// a runtime that is never closed is a leak, which is reported in advance.
func TestGoProgram(t *testing.T) {
	for _, rule := range []string{"leak", ""} {
		p := begin(t, off(rule))
		p.c.SpeakGo()
		var s core.Handle
		var a core.Addr
		p.ok(p.CreateStream(&s))
		p.ok(memory.Malloc(p.Thread, &a, 64, abi.MemMallocHugeFirst))
		p.ok(memory.MallocHost(p.Thread, &a, 64))
		p.finish()
		p.silent()
		switch f := p.kept.open; {
		case rule == "leak" && f != nil:
			t.Errorf("without the rule: %s", show(f))
		case rule == "" && (f == nil || f.Rule != "leak" || f.Offence.Call != "ropeway.Open" ||
			!strings.Contains(f.Advice, "Runtime.Close")):
			t.Errorf("%+v is reported for a runtime that is never closed", f)
		}
	}
}
