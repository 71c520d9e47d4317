package check

import (
	"fmt"
	"slices"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// besideMistakes are writes of the host beside pinned memory that do not fault.
var besideMistakes = []mistake{
	{rule: "host-out-of-bounds", name: "written behind the end, found by the copy", role: "found",
		memory: "pinned", from: 1000, n: 3, task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(1000), p.dev(1024)
			if !p.fixed {
				copy(view(host, 1003)[1000:], "end")
			}
			p.here("offence")
			p.up(dev, host, 1000, s)
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "host-out-of-bounds", name: "written behind the end, found by the synchronous copy", role: "found",
		memory: "pinned", from: 1, n: 1,
		run: func(p *program) {
			host, dev := p.pinned(1), p.dev(64)
			if !p.fixed {
				view(host, 2)[1] = 0
			}
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, dev, 64, host, 1, abi.MemcpyHostToDevice))
		}},
	{rule: "host-out-of-bounds", name: "written before the start, found by the free", role: "found",
		other: "intact", memory: "pinned", from: -8, n: 8,
		run: func(p *program) {
			host, dev := p.pinned(1000), p.dev(1024)
			p.here("other")
			p.ok(transfer.Memcpy(p.Thread, dev, 1024, host, 1000, abi.MemcpyHostToDevice))
			if !p.fixed {
				copy(view(host-8, 8), "12345678")
			}
			p.gone(host)
			p.here("offence")
			p.ok(memory.FreeHost(p.Thread, host))
		}},
	{rule: "host-out-of-bounds", name: "written at both ends of what was written", role: "found",
		memory: "pinned", from: 40, n: 20, without: "leak",
		run: func(p *program) {
			var host core.Addr
			p.ok(memory.MallocHost(p.Thread, &host, 40))
			if !p.fixed {
				view(host, 64)[40], view(host, 64)[59] = 1, 2
			}
			p.here("offence")
			p.c.Ending(p.Thread)
		}},
}

// TestFences proves that an access to closed addresses between pinned memory is a finding about the nearer
// allocation, with distance and bytes, and stays a fault.
func TestFences(t *testing.T) {
	for _, tt := range []struct {
		size uint64
		at   int64 // from the start of the first of two
		n    uint64
		from int64 // of what is reported
		text string
	}{
		{4096, 4096, 1, 4096, "the host writes 1 byte just past the end of 4096 bytes of pinned memory"},
		{4096, 4096 + 65535, 1, 4096 + 65535,
			"the host writes 1 byte 65535 bytes past the end of 4096 bytes of pinned memory"},
		{4000, 4032, 8, 4032, "the host writes 8 bytes 32 bytes past the end of 4000 bytes of pinned memory"},
		{65536, -1, 1, -1, "the host writes 1 byte just before the start of 65536 bytes of pinned memory"},
		{65536, -65536, 4, -65536,
			"the host writes 4 bytes 65532 bytes before the start of 65536 bytes of pinned memory"},
	} {
		t.Run(fmt.Sprintf("%d of %d", tt.at, tt.size), func(t *testing.T) {
			p, _ := closing(t)
			before, host, behind := p.pinned(4096), p.pinned(tt.size), p.pinned(4096)
			if before >= host || host >= behind {
				t.Fatalf("%#x, %#x, %#x", before, host, behind)
			}
			at := host + core.Addr(tt.at)
			if !faults(at, false) {
				t.Errorf("%#x can be read", at)
			}
			if got := p.touch(at, tt.n, true); got.What != notOurs {
				t.Errorf("answer %+v", got)
			}
			f := p.only("host-out-of-bounds")
			b := f.Bytes
			if f.Summary != tt.text || b.Offset != tt.from || b.Length != tt.n || b.Allocation.Start != uint64(host) {
				t.Errorf("found %s", show(f))
			}
		})
	}
}

// TestBehindTheEnd proves that an access after the end of an allocation, on a page with a pending copy, is reported and
// let through.
func TestBehindTheEnd(t *testing.T) {
	for _, tt := range []struct {
		at, from int64
		n        uint64
	}{{104, 104, 8}, {96, 100, 4}, {-16, -16, 8}} {
		p, _ := closing(t)
		s, host, dev := p.stream(), p.pinned(100), p.dev(128)
		p.down(host, dev, 64, s)
		p.are("in flight", host&^(page-1), "x")
		answer := p.touch(host+core.Addr(tt.at), 8, false)
		if answer.What != stepOnce {
			t.Errorf("answer %+v", answer)
		}
		p.c.Stepped(answer)
		p.are("in flight", host&^(page-1), "x")
		if f := p.only("host-out-of-bounds"); f.Offence.Role != "read" || f.Bytes.Offset != tt.from ||
			f.Bytes.Length != tt.n {
			t.Errorf("found %s", show(f))
		}
	}
}

// SetPages implements FrontEnd.
func (n *names) SetPages(lo, hi uintptr, there bool) {
	if there {
		n.pages.Add(lo, hi)
	} else {
		n.pages = slices.DeleteFunc(n.pages, func(s addressSpan) bool { return s.Lo == lo && s.Hi == hi })
	}
}

// TestFrontEndKnowsPages proves that the front end knows which pages have bytes of pinned memory: it opens no others.
func TestFrontEndKnowsPages(t *testing.T) {
	p, _ := closing(t)
	front := p.c.report.front.(*names)
	one, two := p.pinned(100), p.pinned(3*page+1)
	if lo, hi := front.pinned.lo, front.pinned.hi; one < lo || two >= hi {
		t.Errorf("pinned memory is from %#x to %#x", lo, hi)
	}
	var want spanSet
	want.Add(one&^(page-1), one&^(page-1)+page)
	want.Add(two&^(page-1), two&^(page-1)+4*page)
	if !slices.Equal(front.pages, want) {
		t.Errorf("pages %x, want %x", front.pages, want)
	}
	p.gone(one)
	p.ok(memory.FreeHost(p.Thread, one))
	if !slices.Equal(front.pages, want[1:]) {
		t.Errorf("pages %x, want %x", front.pages, want[1:])
	}
}
