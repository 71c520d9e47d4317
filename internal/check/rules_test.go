package check

import (
	"cmp"
	"slices"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
)

// mistake is a small program that is wrong in one way and, with program.fixed, is not.
type mistake struct {
	rule    string
	name    string
	run     func(p *program)
	role    string // role of the offence, which is on the line recorded as "offence"
	other   string // role of the first other site, on the line recorded as "other"; "": no line
	memory  string // kind of the memory it is about; "": it is about none
	from    int64  // offset of the bytes in the memory
	n       uint64
	task    bool   // the offence is a task
	without string // a disabled rule
	product string // "": A2
}

// batch queues a batch, or makes it at once.
func (p *program) batch(now bool, s core.Handle, dst, src []core.Addr, n []uint64, to,
	from abi.MemLocationType) *core.Error {
	attr := abi.MemcpyBatchAttr{DstLoc: abi.MemLocation{Type: to}, SrcLoc: abi.MemLocation{Type: from}}
	var first, bad uint64
	if now {
		return transfer.MemcpyBatch(p.Thread, &dst[0], &n[0], &src[0], &n[0], uint64(len(n)), &attr, &first, 1, &bad)
	}
	return transfer.MemcpyBatchAsync(p.Thread, &dst[0], &n[0], &src[0], &n[0], uint64(len(n)), &attr, &first, 1, &bad,
		s)
}

// bothWays is a batch of one segment to the device and one to the host or, where no mistake is made, two to the device.
func (p *program) bothWays(now bool, s core.Handle, host, dev core.Addr) *core.Error {
	h, d := abi.MemLocation{Type: hostSide}, abi.MemLocation{Type: deviceSide}
	n, starts := []uint64{64, 64}, []uint64{0, 1}
	dst, src := []core.Addr{dev, host + 1024}, []core.Addr{host, dev + 1024}
	attrs := []abi.MemcpyBatchAttr{{DstLoc: d, SrcLoc: h}, {DstLoc: h, SrcLoc: d}}
	if p.fixed {
		dst[1], src[1], attrs[1] = src[1], dst[1], attrs[0]
	}
	var bad uint64
	if now {
		return transfer.MemcpyBatch(p.Thread, &dst[0], &n[0], &src[0], &n[0], 2, &attrs[0], &starts[0], 2, &bad)
	}
	return transfer.MemcpyBatchAsync(p.Thread, &dst[0], &n[0], &src[0], &n[0], 2, &attrs[0], &starts[0], 2, &bad, s)
}

const (
	hostSide   = abi.MemLocationTypeHost
	deviceSide = abi.MemLocationTypeDevice
)

// off switches rules off.
func off(rules ...string) func(*Options) {
	return func(o *Options) {
		o.Off = map[string]bool{}
		for _, r := range rules {
			o.Off[r] = true
		}
	}
}

// TestRules runs every mistake, and the program without it. The first has one finding, with the right places, task and
// bytes; the second has none.
func TestRules(t *testing.T) {
	for _, m := range slices.Concat(flightMistakes, callMistakes, signalMistakes, placeMistakes, refusedMistakes,
		besideMistakes, bufferedMistakes, leakMistakes, captureMistakes, updateMistakes,
		streamMistakes, queuedMistakes, deadlockMistakes, orderMistakes) {
		t.Run(m.rule+"/"+m.name+"/wrong", func(t *testing.T) {
			p := beginOn(t, cmp.Or(m.product, "A2"), off(m.without))
			m.run(p)
			p.finish()
			f := p.only(m.rule)
			if f.Count < 1 || f.Summary == "" || f.Advice == "" {
				t.Errorf("%+v", f)
			}
			switch {
			case f.Offence.Role != m.role:
				t.Errorf("role %q, want %q", f.Offence.Role, m.role)
			case (f.Offence.Stream != nil) != m.task:
				t.Errorf("of a task: %v: %s", f.Offence.Stream != nil, show(f))
			}
			_, line := at(f.Offence)
			if line < p.lines["offence"] || line > p.lines["offence"]+1 {
				t.Errorf("line %d, want %d: %s", line, p.lines["offence"], show(f))
			}
			if m.other != "" {
				if len(f.Others) == 0 {
					t.Fatalf("no other site: %s", show(f))
				}
				p.has(f, f.Others[0], m.other, "other")
			}
			switch b := f.Bytes; {
			case m.memory == "" && b == nil:
			case m.memory == "" && b.Allocation == nil:
			case b == nil || b.Allocation == nil:
				t.Errorf("no memory: %s", show(f))
			case b.Allocation.Kind != m.memory || b.Offset != m.from || b.Length != m.n ||
				b.Address != b.Allocation.Start+uint64(b.Offset):
				t.Errorf("%+v of %+v, want %d bytes from %d of %s memory", b, b.Allocation, m.n, m.from, m.memory)
			}
		})
		t.Run(m.rule+"/"+m.name+"/right", func(t *testing.T) {
			p := beginOn(t, cmp.Or(m.product, "A2"), off(m.without))
			p.fixed = true
			m.run(p)
			p.finish()
			p.silent()
		})
		t.Run(m.rule+"/"+m.name+"/off", func(t *testing.T) {
			p := beginOn(t, cmp.Or(m.product, "A2"), off(m.without, m.rule))
			m.run(p)
			p.finish()
			p.silent()
		})
	}
}
