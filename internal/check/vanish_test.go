package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/finding"
)

// vanishing returns a program with registered memory and a front end that knows its calls.
type vanishing struct {
	*program
	by     *caller
	stream core.Handle
	dev    core.Addr
	host   core.Addr
	alias  core.Addr
}

const vanishBytes = 16384

func beginVanishing(t *testing.T) *vanishing {
	t.Helper()
	v := &vanishing{program: begin(t)}
	v.by = v.withFrontEnd()
	v.c.CloseMemory()
	v.by.in("aclrtCreateStream", 10)
	v.stream, v.dev = v.program.stream(), v.program.dev(vanishBytes)
	v.by.in("aclrtHostRegister", 20)
	v.host, v.alias = v.twofold(vanishBytes)
	return v
}

// copies queues a copy of n bytes, from or to the registered memory.
func (v *vanishing) copies(at core.Addr, n uint64, writes bool) {
	v.t.Helper()
	v.by.in("aclrtMemcpyAsync", 30)
	if writes {
		v.down(at, v.dev, n, v.stream)
	} else {
		v.up(v.dev, at, n, v.stream)
	}
}

// vanish releases memory of the program, on line 40.
func (v *vanishing) vanish(addr core.Addr, n uint64, kind int) {
	v.by.now, v.by.line = 0, 40
	v.c.Vanish(addr, n, Way{kind, fmt.Sprintf("way(%d)", kind)}, v.by, 1)
}

// lineOf returns the place of a site as the front end tells it.
func lineOf(s finding.Site) int {
	if len(s.Stack) == 0 {
		return 0
	}
	return s.Stack[0].Line
}

// TestVanishInFlight: memory of the program that is released in any way while a copy from it or to it is pending is
// reported, with the submission, the registration and the bytes; the copy has run then, and there is no other finding.
func TestVanishInFlight(t *testing.T) {
	for kind, word := range []string{"freed", "reallocated", "unmapped", "moved", "mapped over"} {
		for _, writes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", word, writes), func(t *testing.T) {
				v := beginVanishing(t)
				v.copies(v.host+4096, 128, writes)
				v.vanish(v.host, vanishBytes, kind)
				if n := v.pending(); n != 0 {
					t.Errorf("%d tasks have still to run", n)
				}
				v.finish()
				f := v.only("free-in-flight")
				want := fmt.Sprintf("registered memory is %s that a pending acl.rt.memcpy_async (task 1 of stream %d) "+
					"may still %s", word, *f.Others[0].Stream, strings.TrimSuffix(does(writes), "s"))
				if f.Summary != want || f.Offence.Call != fmt.Sprintf("way(%d)", kind) {
					t.Errorf("%q by %q, want %q", f.Summary, f.Offence.Call, want)
				}
				if len(f.Others) != 2 || lineOf(f.Offence) != 40 || lineOf(f.Others[0]) != 30 ||
					lineOf(f.Others[1]) != 20 {
					t.Errorf("the places are wrong: %s", show(f))
				}
				if f.Bytes.Offset != 4096 || f.Bytes.Length != 128 || f.Bytes.Allocation.Kind != "registered" {
					t.Errorf("%+v", f.Bytes)
				}
			})
		}
	}
}

// TestVanishRegistered: registered memory that is released with no access in flight is reported once, and not again as
// a leak or when it is unregistered too late. After it was unregistered it may be released.
func TestVanishRegistered(t *testing.T) {
	v := beginVanishing(t)
	v.copies(v.host, 4096, true)
	v.ok(v.SynchronizeStream(v.stream))
	v.vanish(v.host+8192, 4096, Unmapped)
	v.vanish(v.host, 4096, Unmapped)
	v.finish()
	f := v.only("free-in-flight")
	if !strings.Contains(f.Summary, "unmapped before it was unregistered") ||
		f.Bytes.Offset != 8192 || f.Bytes.Length != 4096 {
		t.Errorf("%s", show(f))
	}

	v = beginVanishing(t)
	v.vanish(v.host, vanishBytes, Freed)
	v.gone(v.host)
	v.finish()
	v.only("free-in-flight")

	v = beginVanishing(t)
	v.copies(v.host, 4096, false)
	v.ok(v.SynchronizeStream(v.stream))
	v.ok(memory.HostUnregister(v.program.Thread, v.gone(v.host)))
	v.vanish(v.host, vanishBytes, Freed)
	v.vanish(v.host, vanishBytes, Unmapped)
	v.finish()
	v.silent()
}

// TestVanishNeighbour: a block that shares bytes with registered memory, but is not the registered block, may be freed
// unless a copy uses these bytes. A block that covers the memory, or begins with it, is the registered one.
func TestVanishNeighbour(t *testing.T) {
	for _, x := range []struct {
		name   string
		lo, hi int // of the block, relative to the registered memory
		pages  bool
		found  bool
	}{
		{name: "before", lo: -64, hi: 64},
		{name: "behind", lo: vanishBytes - 64, hi: vanishBytes + 64},
		{name: "within", lo: 64, hi: 128},
		{name: "around", lo: -64, hi: vanishBytes + 64, found: true},
		{name: "exactly", lo: 0, hi: vanishBytes, found: true},
		{name: "at its start", lo: 0, hi: vanishBytes - 64, found: true},
		{name: "beside", lo: -64, hi: 0},
		{name: "pages within", lo: 4096, hi: 8192, pages: true, found: true},
		{name: "pages beside", lo: vanishBytes, hi: vanishBytes + 4096, pages: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			kind := Freed
			if x.pages {
				kind = Unmapped
			}
			v := beginVanishing(t)
			v.copies(v.host+1024, 64, false)
			v.ok(v.SynchronizeStream(v.stream))
			v.vanish(v.host+core.Addr(x.lo), uint64(x.hi-x.lo), kind)
			v.finish()
			if x.found {
				v.only("free-in-flight")
			} else {
				v.silent()
			}
		})
	}
	v := beginVanishing(t)
	v.copies(v.host+64, 64, false)
	v.vanish(v.host+100, 200, Freed)
	v.finish()
	if f := v.only("free-in-flight"); f.Bytes.Offset != 100 || f.Bytes.Length != 28 {
		t.Errorf("%s", show(f))
	}
}

// TestVanishOpens: when Vanish returns, none of the memory is closed, and later copies close none of it: the addresses
// may have another use by then.
func TestVanishOpens(t *testing.T) {
	v := beginVanishing(t)
	v.copies(v.host, vanishBytes, true)
	if v.guard.Accessible(v.host, false) {
		t.Fatal("the memory is not closed, so that this test shows nothing")
	}
	v.vanish(v.host+4096, 64, Freed)
	for _, when := range []string{"after it has gone", "after another copy"} {
		for at := v.host; at < v.host+vanishBytes; at += 4096 {
			if !v.guard.Accessible(at, true) {
				t.Errorf("%#x is closed %s", at-v.host, when)
			}
		}
		v.copies(v.host, vanishBytes, true)
	}
	v.finish()
	v.only("free-in-flight")
}

// TestVanishTold: the front end knows the registered memory, without memory that was released; device addresses are
// those of registrations.
func TestVanishTold(t *testing.T) {
	v := beginVanishing(t)
	host, alias := uint64(v.host), uint64(v.alias)
	want := func(registered, aliases []uint64) {
		t.Helper()
		if n := v.by.front; !slices.Equal(n.registered, registered) || !slices.Equal(n.aliases, aliases) {
			t.Errorf("the front end got %#x and %#x, want %#x and %#x", n.registered, n.aliases, registered, aliases)
		}
	}
	want([]uint64{host, host + vanishBytes}, []uint64{alias, alias + vanishBytes})
	v.vanish(v.host, 4096, Unmapped)
	want(nil, []uint64{alias, alias + vanishBytes})
	v.ok(memory.HostUnregister(v.program.Thread, v.gone(v.host)))
	want(nil, nil)
}

// TestVanishReturned: memory registered on a stack is reported by the next call after its function has returned; memory
// only partly in the abandoned part of a stack is not.
func TestVanishReturned(t *testing.T) {
	v := beginVanishing(t)
	v.copies(v.host+4096, 128, false)
	v.vanish(v.host-4096, vanishBytes, Returned)
	v.silent()
	v.by.in("aclrtSynchronizeStream", 60)
	v.c.Vanish(v.host-4096, vanishBytes+8192, Way{Kind: Returned}, v.by, 1)
	v.finish()
	f := v.only("free-in-flight")
	const want = "registered memory was on the stack of a function that has returned, and a pending " +
		"acl.rt.memcpy_async (task 1 of stream 1) may still read it"
	if f.Summary != want ||
		f.Offence.Role != "found" || !strings.HasPrefix(f.Offence.Call, "acl.rt.synchronize_stream(") ||
		lineOf(f.Offence) != 60 {
		t.Errorf("%s", show(f))
	}
}

// TestVanishIgnored: a release that the program asked the checker to ignore is not reported, nor is the leak.
func TestVanishIgnored(t *testing.T) {
	v := beginVanishing(t)
	v.copies(v.host, 64, false)
	v.by.ignored = true
	v.vanish(v.host, vanishBytes, Freed)
	v.by.ignored = false
	v.finish()
	v.silent()
}

// TestAliasTouched: the host cannot use device addresses, including those of registered memory.
func TestAliasTouched(t *testing.T) {
	v := beginVanishing(t)
	v.by.now, v.by.line = 0, 50
	if a := v.c.Touch(v.alias+100, 4, true, 0, v.by, 1); a.What != notOurs {
		t.Errorf("%+v", a)
	}
	f := v.only("device-memory-on-host")
	if !strings.Contains(f.Summary, fmt.Sprintf("%#x, which is the device's address of registered memory",
		v.alias+100)) ||
		f.Bytes.Offset != 100 || f.Bytes.Length != 4 || lineOf(f.Offence) != 50 {
		t.Errorf("%s", show(f))
	}
}

// TestAliasAsked: annotations with a device address are about the same bytes.
func TestAliasAsked(t *testing.T) {
	p := begin(t)
	s, dev := p.stream(), p.dev(4096)
	host, alias := p.twofold(8192)
	p.across(alias, dev, 64, s)
	if !p.c.InFlight(alias, 64) || !p.c.InFlight(host, 64) || p.c.InFlight(alias+64, 64) {
		t.Error("what is in flight depends on the address")
	}
	p.c.mu.Lock()
	p.c.schedule.runAll()
	p.c.mu.Unlock()
	p.c.Complete(alias, 64)
	p.reads(host, 64)
	p.ok(transfer.MemcpyAsync(p.Thread, dev, 64, alias, 64, abi.MemcpyDeviceToDevice, s))
	p.finish()
	p.silent()
}
