package check

import (
	"slices"
	"strings"
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/core/memory"
)

// TestReservedTouched: the host cannot use reserved addresses, with or without memory mapped there, and the front end
// reports faults there.
func TestReservedTouched(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		v := beginVanishing(t)
		at := v.addresses(4 * mib)
		want := "where addresses are reserved, and no memory is mapped"
		if mapped {
			v.ok(memory.MapMem(v.program.Thread, at, 2*mib, 0, v.physical(2*mib), 0))
			v.later(at+1, func() *core.Error { return memory.UnmapMem(v.program.Thread, at) })
			want = "which is mapped memory of device 0"
		}
		if !slices.Contains(v.by.front.aliases, uint64(at)) {
			t.Errorf("the front end got %#x, without %#x", v.by.front.aliases, at)
		}
		v.by.now, v.by.line = 0, 50
		if a := v.c.Touch(at+64, 4, false, 0, v.by, 1); a.What != notOurs {
			t.Errorf("%+v", a)
		}
		if f := v.only("device-memory-on-host"); !strings.HasSuffix(f.Summary, want) || lineOf(f.Offence) != 50 {
			t.Errorf("%s", show(f))
		}
		if mapped {
			v.ok(v.unmap(at))
		}
		v.ok(memory.ReleaseMemAddress(v.program.Thread, v.gone(at)))
		if slices.Contains(v.by.front.aliases, uint64(at)) {
			t.Errorf("the front end got %#x, with %#x, which was released", v.by.front.aliases, at)
		}
	}
}

// TestForeignFree: pinned memory that is passed to the C library is one finding, whatever the library reads before it.
func TestForeignFree(t *testing.T) {
	v := beginVanishing(t)
	host := v.pinned(1000)
	v.by.now, v.by.line = 0, 50
	v.c.Vanish(host+8, 1, Way{Kind: Freed, Call: "free(ptr=0x1)"}, v.by, 1)
	v.c.mu.Lock()
	v.c.pages.beside(v.c.report.accessBy(v.by, 1), v.c.ledger.find(host), host-8, host, false)
	v.c.mu.Unlock()
	f := v.only("invalid-free")
	if !strings.HasPrefix(f.Summary, "free: ") || f.Bytes.Offset != 8 || f.Offence.Call != "free(ptr=0x1)" ||
		lineOf(f.Offence) != 50 {
		t.Errorf("%s", show(f))
	}
}

// TestStrangeFree: freeing memory that the API did not allocate is reported if the code is dropped. A program that
// looks at the code may try one function after another.
func TestStrangeFree(t *testing.T) {
	for _, drops := range []bool{true, false} {
		p := begin(t)
		own := make([]byte, 64)
		p.SetCaller(codeCaller{drops: drops})
		p.Done(memory.FreeHost(p.Thread, core.AddrOf(own)))
		p.SetCaller(nil)
		rule := "api-error"
		if drops {
			rule = "invalid-free"
		}
		p.only(rule)
		if n := p.c.Findings(); (n == 1) != drops {
			t.Errorf("dropped %v: %d findings count", drops, n)
		}
	}
}
