package check

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	models "ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
	"ropeway/internal/kernel/kerneltest"
)

// updated is a model with a task group of one kernel.
type updated struct {
	*program
	f, m, group core.Handle
	dev         core.Addr
	on, side    core.Handle // streams that execute it, and update it
}

// grouped captures an updated model; before submits the tasks before the group.
func (p *program) grouped(before func(s core.Handle)) *updated {
	p.t.Helper()
	u := &updated{program: p, f: p.kernel("void k(int *p) { p[0]++; }"), dev: p.dev(64), on: p.stream(),
		side: p.stream()}
	p.capture(u.on, relaxed)
	if before != nil {
		before(u.on)
	}
	p.ok(models.MdlRICaptureTaskGrpBegin(p.Thread, u.on))
	p.launch(u.f, u.on, u.dev)
	p.ok(models.MdlRICaptureTaskGrpEnd(p.Thread, u.on, &u.group))
	u.m = p.model(u.on)
	return u
}

// update replaces the kernel in the order of a stream.
func (u *updated) update(s core.Handle) {
	u.t.Helper()
	u.ok(models.MdlRICaptureTaskUpdateBegin(u.Thread, s, u.group))
	u.launch(u.f, s, u.dev+4)
	u.ok(models.MdlRICaptureTaskUpdateEnd(u.Thread, s))
}

// updateMistakes are unordered updates of kernels of models.
var updateMistakes = []mistake{
	{rule: "stream-race", name: "a kernel that is updated before the execution", role: "submitted", other: "submitted",
		task: true,
		run: func(p *program) {
			u := p.grouped(nil)
			p.here("other")
			u.update(u.side)
			p.sync(u.side)
			p.here("offence")
			p.execute(u.m, u.on)
			p.ok(p.SynchronizeStream(u.on))
		}},
	{rule: "stream-race", name: "a kernel that is updated, and the update runs first", role: "submitted",
		other: "submitted", task: true,
		run: func(p *program) {
			u := p.grouped(nil)
			p.here("other")
			u.update(u.side)
			if p.fixed {
				p.after(u.on, u.side)
			}
			p.here("offence")
			p.execute(u.m, u.on)
			p.ok(p.SynchronizeStream(u.side))
		}},
	{rule: "stream-race", name: "a kernel that is updated under an execution", role: "submitted", other: "submitted",
		task: true,
		run: func(p *program) {
			u := p.grouped(nil)
			p.here("offence")
			p.execute(u.m, u.on)
			p.sync(u.on)
			p.here("other")
			u.update(u.side)
			p.ok(p.SynchronizeStream(u.side))
		}},
	{rule: "stream-race", name: "a kernel that two streams update", role: "submitted", other: "submitted", task: true,
		run: func(p *program) {
			u := p.grouped(nil)
			p.here("other")
			u.update(u.side)
			p.sync(u.side)
			p.here("offence")
			u.update(u.on)
			p.ok(p.SynchronizeStream(u.side))
		}},
}

// TestUpdateNames: the finding names the kernel, its model, the possible results, and the place of the kernel's
// capture.
func TestUpdateNames(t *testing.T) {
	p := begin(t)
	p.here("captured")
	u := p.grouped(nil)
	u.update(u.side)
	p.execute(u.m, u.on)
	on, side := p.number(u.on), p.number(u.side)
	p.finish()
	f := p.only("stream-race")
	want := fmt.Sprintf("kernel k of a task of model 1 (task 1 of stream %d) is updated by a task (task 1 of stream "+
		"%d), and nothing orders the two: the old one may run, or the new one", on, side)
	if f.Summary != want || !strings.Contains(f.Advice, "external event") || f.Bytes != nil {
		t.Errorf("%s\nwant %s", show(f), want)
	}
	p.has(f, f.Others[1], "captured", "captured")
}

// TestUpdateOrders: updates that are ordered with executions, in all possible ways and repeatedly, are not findings;
// without the order, each is one.
func TestUpdateOrders(t *testing.T) {
	const external = 1
	var e core.Handle
	for _, tt := range []struct {
		name   string
		before func(p *program, s core.Handle) // in the model, before the group
		round  func(u *updated, ordered bool)
	}{
		{"on one stream", nil, func(u *updated, ordered bool) {
			if !ordered {
				u.on = u.stream()
			}
			u.update(u.side)
			u.execute(u.m, u.on)
		}},
		{"an event before the execution", nil, func(u *updated, ordered bool) {
			u.update(u.side)
			if ordered {
				u.after(u.on, u.side)
			}
			u.execute(u.m, u.on)
		}},
		{"the host waits", nil, func(u *updated, ordered bool) {
			u.update(u.side)
			if ordered {
				u.ok(u.SynchronizeStream(u.side))
			}
			u.execute(u.m, u.on)
		}},
		{"a wait with the EXTERNAL flag", func(p *program, s core.Handle) {
			p.ok(p.CreateEventExWithFlag(&e, abi.EventSync))
			p.later(uintptr(e), func() *core.Error { return p.DestroyEvent(e) })
			p.ok(p.StreamWaitEventWithFlag(s, e, 0, external))
		}, func(u *updated, ordered bool) {
			if !ordered {
				u.ok(u.RecordEvent(e, u.side))
			}
			u.update(u.side)
			if ordered {
				u.ok(u.RecordEvent(e, u.side))
			}
			u.execute(u.m, u.on)
		}},
		{"an external event, after the execution is queued", func(p *program, s core.Handle) {
			p.ok(p.CreateEventWithFlag(&e, abi.EventExternal))
			p.later(uintptr(e), func() *core.Error { return p.DestroyEvent(e) })
			p.ok(p.StreamWaitEvent(s, e))
			p.ok(p.ResetEvent(e, s))
		}, func(u *updated, ordered bool) {
			u.execute(u.m, u.on)
			if !ordered {
				u.ok(u.RecordEvent(e, u.side))
			}
			u.update(u.side)
			if ordered {
				u.ok(u.RecordEvent(e, u.side))
			}
		}},
	} {
		for _, ordered := range []bool{true, false} {
			for seed := range uint64(4) {
				t.Run(fmt.Sprintf("%s/%v/%d", tt.name, ordered, seed), func(t *testing.T) {
					p := begin(t, func(o *Options) { o.Seed = seed })
					var before func(core.Handle)
					if tt.before != nil {
						before = func(s core.Handle) { tt.before(p, s) }
					}
					u := p.grouped(before)
					if tt.name == "on one stream" {
						u.on = u.side
					}
					for range 3 {
						tt.round(u, ordered)
						p.after(u.side, u.on)
						if !ordered {
							break
						}
					}
					p.finish()
					if ordered {
						p.silent()
						return
					}
					p.only("stream-race")
				})
			}
		}
	}
}

// TestUpdateByTask: a task of a model built by hand updates one of its kernels (aclrtTaskUpdateAsync). This is ordered
// on the kernel's stream, or on another one with an event between; otherwise it is a finding with both calls.
func TestUpdateByTask(t *testing.T) {
	for _, tt := range []struct {
		name        string
		same, event bool
	}{{"on its stream", true, false}, {"with an event", false, true}, {"without", false, false}} {
		t.Run(tt.name, func(t *testing.T) {
			p := begin(t)
			kerneltest.Support(t)
			image := kerneltest.Compile(t, "void k_1(int *p) { p[0]++; }\nvoid k_2(int *p) { p[0]--; }")
			var bin, f core.Handle
			p.ok(launch.BinaryLoadFromData(p.Thread, core.AddrOf(image), uint64(len(image)), nil, &bin))
			p.ok(launch.BinaryGetFunction(p.Thread, bin, &append([]byte("k_1"), 0)[0], &f))
			dev, entry := p.dev(64), p.dev(16)
			b := p.build()
			one := b.bind(0)
			other := one
			if !tt.same {
				other = b.bind(0)
			}
			which := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, 2), 1)
			p.ok(transfer.Memcpy(p.Thread, entry, 12, core.AddrOf(which), 12, abi.MemcpyHostToDevice))
			var e core.Handle
			if tt.event {
				e = p.event(state)
				p.ok(p.StreamWaitEvent(one, e))
				p.ok(p.ResetEvent(e, one))
			}
			var number uint32
			update := func() {
				info := &abi.TaskUpdateInfo{ID: abi.UpdateAicAivTask}
				*info.Val.AicAivTaskAttr() = abi.AicAivTaskUpdateAttr{BinHandle: uintptr(bin), FuncEntryAddr: entry,
					BlockDimAddr: entry + 8}
				p.here("update")
				p.ok(models.TaskUpdateAsync(p.Thread, one, number, info, other))
			}
			p.here("captured")
			p.launch(f, one, dev)
			p.ok(p.GetThreadLastTaskId(&number))
			update()
			if tt.event {
				p.ok(p.RecordEvent(e, other))
			}
			b.end(one)
			on := p.stream()
			p.here("executed")
			p.execute(b.m, on)
			p.ok(p.SynchronizeStream(on))
			if tt.same || tt.event {
				p.execute(b.m, on)
				p.finish()
				p.silent()
				return
			}
			r := p.only("stream-race")
			p.has(r, r.Offence, "submitted", "executed")
			p.has(r, r.Others[0], "captured", "captured")
			p.has(r, r.Others[1], "captured", "update")
		})
	}
}
