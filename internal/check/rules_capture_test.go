package check

import (
	"slices"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	models "ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
	"ropeway/internal/finding"
)

// capture begins a capture of a stream.
func (p *program) capture(s core.Handle, mode abi.MdlRICaptureMode) {
	p.t.Helper()
	p.ok(models.MdlRICaptureBegin(p.Thread, s, mode))
}

// model ends a capture.
func (p *program) model(s core.Handle) (m core.Handle) {
	p.t.Helper()
	p.ok(models.MdlRICaptureEnd(p.Thread, s, &m))
	p.later(uintptr(m), func() *core.Error { return models.MdlRIDestroy(p.Thread, m) })
	return m
}

// execute puts an execution of a model on a stream.
func (p *program) execute(m, s core.Handle) {
	p.t.Helper()
	p.ok(models.MdlRIExecuteAsync(p.Thread, m, s))
}

// unmade ends a capture that is invalid.
func (p *program) unmade(s core.Handle) {
	p.t.Helper()
	var m core.Handle
	p.refused(models.MdlRICaptureEnd(p.Thread, s, &m))
}

// poolModel executes a model with memory of a pool that was freed, and, if that is wanted, allocated again.
func poolModel(p *program, again bool) {
	s, host, pool := p.stream(), p.pinned(64), p.pool()
	dev := p.from(pool, s)
	p.capture(s, relaxed)
	p.here("other")
	p.up(dev, host, 64, s)
	m := p.model(s)
	if !p.fixed {
		p.ok(memory.MemPoolFreeAsync(p.Thread, dev, s))
	}
	if !p.fixed && again {
		if next := p.from(pool, s); next != dev {
			p.t.Fatalf("freed memory at %#x is not given out again, but %#x", dev, next)
		}
	}
	p.here("offence")
	p.execute(m, s)
	if p.fixed || again {
		p.ok(memory.MemPoolFreeAsync(p.Thread, dev, s))
	}
}

const (
	global  = abi.ModelRiCaptureModeGlobal
	relaxed = abi.ModelRiCaptureModeRelaxed
)

// captureMistakes are about calls that captures do not allow, and that invalidate them.
var captureMistakes = []mistake{
	{rule: "broken-capture", name: "a synchronous copy", role: "called", other: "began",
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(64), p.dev(64)
			mode := global
			if p.fixed {
				mode = relaxed
			}
			p.here("other")
			p.capture(s, mode)
			p.up(dev, host, 64, s)
			if p.fixed {
				p.ok(transfer.Memcpy(p.Thread, dev, 64, host, 64, abi.MemcpyHostToDevice))
			} else {
				p.here("offence")
				p.refused(transfer.Memcpy(p.Thread, dev, 64, host, 64, abi.MemcpyHostToDevice))
			}
			p.model(s)
		}},
	{rule: "broken-capture", name: "synchronised by another thread", role: "called", other: "began",
		run: func(p *program) {
			s, watchdog := p.stream(), p.thread(2)
			p.here("other")
			p.capture(s, relaxed)
			if !p.fixed {
				p.here("offence")
				watchdog.Done(watchdog.SynchronizeStream(s))
			}
			p.model(s)
			p.ok(watchdog.SynchronizeStream(s))
		}},
	{rule: "broken-capture", name: "the device synchronised", role: "called", other: "began",
		run: func(p *program) {
			p.stream()
			s := p.stream()
			p.here("other")
			p.capture(s, relaxed)
			if !p.fixed {
				p.here("offence")
				p.refused(p.SynchronizeDevice())
			}
			p.model(s)
		}},
	{rule: "broken-capture", name: "not joined back", role: "called", other: "began",
		run: func(p *program) {
			s, side, fork, join := p.stream(), p.stream(), p.event(latest), p.event(latest)
			host, dev := p.pinned(64), p.dev(64)
			p.here("other")
			p.capture(s, relaxed)
			p.ok(p.RecordEvent(fork, s))
			p.ok(p.StreamWaitEvent(side, fork))
			p.up(dev, host, 64, side)
			if p.fixed {
				p.ok(p.RecordEvent(join, side))
				p.ok(p.StreamWaitEvent(s, join))
				p.model(s)
				return
			}
			p.here("offence")
			p.unmade(s)
		}},
	{rule: "broken-capture", name: "an event recorded before", role: "called", other: "began",
		run: func(p *program) {
			s, before, e := p.stream(), p.stream(), p.event(latest)
			p.ok(p.RecordEvent(e, before))
			if p.fixed {
				p.ok(p.StreamWaitEvent(s, e))
			}
			p.here("other")
			p.capture(s, relaxed)
			if !p.fixed {
				p.here("offence")
				p.refused(p.StreamWaitEvent(s, e))
			}
			p.model(s)
		}},
	{rule: "broken-capture", name: "two captures brought together", role: "called", other: "began",
		run: func(p *program) {
			one, two, e := p.stream(), p.stream(), p.event(latest)
			p.here("other")
			p.capture(one, relaxed)
			p.capture(two, relaxed)
			p.ok(p.RecordEvent(e, one))
			if p.fixed {
				p.model(two)
				p.model(one)
				return
			}
			p.here("offence")
			p.refused(p.StreamWaitEvent(two, e))
			p.unmade(two)
			p.unmade(one)
		}},
	{rule: "broken-capture", name: "ended by another thread", role: "called", other: "began",
		run: func(p *program) {
			s, t := p.stream(), p.thread(2)
			p.here("other")
			p.capture(s, global)
			if p.fixed {
				p.model(s)
				return
			}
			var m core.Handle
			p.here("offence")
			t.Done(models.MdlRICaptureEnd(t, s, &m))
		}},
	{rule: "stale-model", name: "freed memory", role: "called", other: "captured", memory: "device", from: 64, n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(64), p.dev(4096)
			p.capture(s, relaxed)
			p.here("other")
			p.up(dev+64, host, 64, s)
			m := p.model(s)
			if p.fixed {
				p.execute(m, s)
				return
			}
			p.ok(memory.Free(p.Thread, p.gone(dev)))
			p.here("offence")
			p.refused(models.MdlRIExecuteAsync(p.Thread, m, s))
		}},
	{rule: "stale-model", name: "memory that another allocation has", role: "called", other: "captured",
		memory: "device", n: 64,
		run: func(p *program) { poolModel(p, true) }},
	{rule: "stale-model", name: "memory of a pool that was freed", role: "called", other: "captured",
		memory: "device", n: 64,
		run: func(p *program) { poolModel(p, false) }},
	{rule: "stream-race", name: "two runs of one model", role: "submitted", other: "submitted", memory: "device", n: 64,
		task: true,
		run: func(p *program) {
			one, two, host, dev := p.stream(), p.stream(), p.pinned(64), p.dev(64)
			p.capture(one, relaxed)
			p.up(dev, host, 64, one)
			m := p.model(one)
			p.here("other")
			p.execute(m, one)
			p.sync(one)
			p.here("offence")
			p.execute(m, two)
			p.ok(p.SynchronizeStream(one)) // so that the order is the one of the calls
		}},
	{rule: "stream-race", name: "a model with streams that runs later", role: "submitted", other: "submitted",
		memory: "device", n: 64, task: true,
		run: func(p *program) {
			one, two, host, dev := p.stream(), p.stream(), p.pinned(64), p.dev(64)
			p.capture(one, relaxed)
			p.ok(p.LaunchHostFunc(one, func(core.Addr) {}, 0))
			p.up(dev, host, 64, one)
			m := p.model(one)
			p.here("offence")
			p.execute(m, one)
			p.sync(one)
			p.here("other")
			p.up(dev, host, 64, two)
			p.ok(p.SynchronizeStream(two)) // what the host learns now, the execution did not know
		}},
	{rule: "host-write-in-flight", name: "a source of a model", role: "written", other: "submitted", memory: "pinned",
		from: 8, n: 8,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(64), p.dev(64)
			p.capture(s, relaxed)
			p.up(dev, host, 64, s)
			m := p.model(s)
			p.here("other")
			p.execute(m, s)
			p.sync(s)
			p.here("offence")
			p.writes(host+8, 8)
		}},
	{rule: "free-in-flight", name: "memory of a model that runs", role: "freed", other: "submitted", memory: "device",
		n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(64), p.dev(64)
			p.capture(s, relaxed)
			p.up(dev, host, 64, s)
			m := p.model(s)
			p.here("other")
			p.execute(m, s)
			p.sync(s)
			p.here("offence")
			p.ok(memory.Free(p.Thread, p.gone(dev)))
		}},
	{rule: "leak", name: "a model", role: "made",
		run: func(p *program) {
			s := p.stream()
			p.capture(s, relaxed)
			p.here("offence")
			m := p.model(s)
			if !p.fixed {
				p.gone(uintptr(m))
			}
		}},
	{rule: "use-after-free", name: "a model", role: "called", other: "freed",
		run: func(p *program) {
			s := p.stream()
			p.capture(s, relaxed)
			m := p.model(s)
			if p.fixed {
				p.ok(models.MdlRIExecuteAsync(p.Thread, m, s))
				return
			}
			p.gone(uintptr(m))
			p.here("other")
			p.ok(models.MdlRIDestroy(p.Thread, m))
			p.here("offence")
			p.refused(models.MdlRIExecuteAsync(p.Thread, m, s))
		}},
}

// TestBrokenCaptureNames proves that a finding about a capture says which thread made the call and which one began the
// capture, and where a stream joined that was not joined back.
func TestBrokenCaptureNames(t *testing.T) {
	p := begin(t)
	s, watchdog := p.stream(), p.thread(2)
	side, fork := p.stream(), p.event(latest)
	p.capture(s, relaxed)
	p.ok(p.RecordEvent(fork, s))
	p.here("joined")
	p.ok(p.StreamWaitEvent(side, fork))
	var status abi.StreamStatus
	watchdog.Done(watchdog.StreamQuery(side, &status))
	p.unmade(s)
	list := p.findings()
	if len(list) != 2 {
		t.Fatalf("%d findings, want 2: %v", len(list), list)
	}
	query, end := list[0], list[1]
	if query.Offence.Thread != 2 || query.Others[0].Thread != 1 || query.Code != int32(abi.ErrRTStreamCaptured) {
		t.Errorf("the query: %s", show(query))
	}
	at := slices.IndexFunc(end.Others, func(s finding.Site) bool { return s.Role == "joined" })
	if end.Code != int32(abi.ErrRTStreamUnjoined) || at < 0 {
		t.Fatalf("the end: %s", show(end))
	}
	p.has(end, end.Others[at], "joined", "joined")
}

// TestCapturedCall proves that a finding about a task of a model names the call that was captured, whichever of several
// steps of the model it is in, whether the model is one program or has streams, and the first run or a later one.
func TestCapturedCall(t *testing.T) {
	for name, lanes := range map[string]bool{"one program": false, "with streams": true} {
		t.Run(name, func(t *testing.T) {
			p := begin(t)
			s, host, dev := p.stream(), p.pinned(256), p.dev(256)
			p.capture(s, relaxed)
			p.up(dev, host, 64, s)
			if lanes {
				p.ok(p.LaunchHostFunc(s, func(core.Addr) {}, 0))
			}
			p.up(dev, host+64, 64, s)
			p.here("captured")
			p.up(dev+128, host+128, 64, s)
			m := p.model(s)
			for range 2 {
				p.execute(m, s)
				p.ok(p.SynchronizeStream(s))
			}
			p.here("submitted")
			p.execute(m, s)
			p.writes(host+130, 1)
			f := p.only("host-write-in-flight")
			p.has(f, f.Others[0], "submitted", "submitted")
			p.has(f, f.Others[1], "captured", "captured")
		})
	}
}

// TestChangedTask proves that a task which was changed is judged by what it does now: memory that it no longer names
// may go, and the call that changed it is named.
func TestChangedTask(t *testing.T) {
	p := begin(t)
	s, host, old, dev := p.stream(), p.pinned(64), p.dev(64), p.dev(64)
	p.capture(s, relaxed)
	p.up(old, host, 64, s)
	m := p.model(s)
	p.here("captured")
	p.ok(models.SetModelCopy(p.Thread, m, 0, dev, host, 64))
	p.ok(memory.Free(p.Thread, p.gone(old)))
	p.execute(m, s)
	p.silent()
	p.writes(host, 1)
	f := p.only("host-write-in-flight")
	p.has(f, f.Others[1], "captured", "captured")
}

// TestMisalignedInModel proves that the addresses of copies in a model are judged when they are captured, by what the
// program asked for: a copy is one whatever is captured beside it, and a batch is none, however few segments it has.
func TestMisalignedInModel(t *testing.T) {
	for _, tt := range []struct {
		name string
		what func(p *program, s core.Handle, host, dev core.Addr) // captured, misaligned
		rule string
	}{
		{"a copy alone", func(p *program, s core.Handle, host, dev core.Addr) {
			p.here("offence")
			p.up(dev+13, host+64, 100, s)
		}, "misaligned"},
		{"a copy and a fill that it meets", func(p *program, s core.Handle, host, dev core.Addr) {
			p.ok(transfer.MemsetAsync(p.Thread, dev+36, 200, 42, 200, s))
			p.here("offence")
			p.up(dev+13, host+64, 100, s)
		}, "misaligned"},
		{"a copy in a model with streams", func(p *program, s core.Handle, host, dev core.Addr) {
			p.ok(transfer.MemsetAsync(p.Thread, dev+36, 200, 42, 200, s))
			p.here("offence")
			p.up(dev+13, host+64, 100, s)
			p.ok(p.LaunchHostFunc(s, func(core.Addr) {}, 0))
		}, "misaligned"},
		{"a batch of one segment", func(p *program, s core.Handle, host, dev core.Addr) {
			p.ok(p.batch(false, s, []core.Addr{dev + 3}, []core.Addr{host + 5}, []uint64{100}, deviceSide, hostSide))
		}, ""},
		{"a fill", func(p *program, s core.Handle, host, dev core.Addr) {
			p.ok(transfer.MemsetAsync(p.Thread, dev+3, 100, 42, 100, s))
		}, ""},
		{"a batch whose segments overlap", func(p *program, s core.Handle, host, dev core.Addr) {
			p.here("offence")
			p.ok(p.batch(false, s, []core.Addr{dev, dev + 3}, []core.Addr{host, host + 512}, []uint64{100, 100},
				deviceSide, hostSide))
		}, "batch-overlap"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := begin(t)
			s, host, dev := p.stream(), p.pinned(1024), p.dev(1024)
			p.capture(s, relaxed)
			tt.what(p, s, host, dev)
			m := p.model(s)
			for range 2 {
				p.execute(m, s)
			}
			p.finish()
			if tt.rule == "" {
				p.silent()
				return
			}
			f := p.only(tt.rule)
			p.has(f, f.Offence, "captured", "offence")
			if f.Count != 1 || len(f.Others) != 1 || f.Others[0].Role != "allocated" {
				t.Errorf("found %s", show(f))
			}
		})
	}
}

// TestCapturedCallInQuestion proves that a finding names the task that makes the access, rather than an earlier one that
// touches some of the same bytes.
func TestCapturedCallInQuestion(t *testing.T) {
	for _, tt := range []struct {
		name, rule string
		run        func(p *program, s, other core.Handle, host, dev core.Addr) (m core.Handle)
	}{
		{"a race", "stream-race", func(p *program, s, other core.Handle, host, dev core.Addr) core.Handle {
			p.up(dev, host, 2048, s)
			p.here("captured")
			p.across(dev+2048, dev+1024, 1024, s)
			m := p.model(s)
			p.ok(transfer.MemsetAsync(p.Thread, dev+2048+512, 64, 1, 64, other))
			return m
		}},
		{"never written", "uninitialised-read", func(p *program, s, _ core.Handle, host, _ core.Addr) core.Handle {
			raw := p.raw(4096)
			p.ok(transfer.MemsetAsync(p.Thread, raw, 1000, 1, 1000, s))
			p.down(host+1024, raw, 512, s)
			p.here("captured")
			p.down(host, raw+512, 1024, s)
			return p.model(s)
		}},
		{"written by two tasks", "stream-race", func(p *program, s, other core.Handle, _, dev core.Addr) core.Handle {
			p.ok(transfer.MemsetAsync(p.Thread, dev+1000, 100, 1, 100, s))
			p.here("captured")
			p.ok(transfer.MemsetAsync(p.Thread, dev+1024, 1024, 1, 1024, s))
			m := p.model(s)
			p.ok(transfer.MemsetAsync(p.Thread, dev+1064, 512, 1, 512, other))
			return m
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := begin(t, off("misaligned"))
			s, other, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
			p.capture(s, relaxed)
			m := tt.run(p, s, other, host, dev)
			p.execute(m, s)
			p.finish()
			var roles []string
			for _, f := range p.findings() {
				for _, o := range f.Others {
					if _, line := at(o); f.Rule == tt.rule && o.Role == "captured" && line == p.lines["captured"] {
						return
					}
				}
				roles = append(roles, show(f))
			}
			t.Errorf("the captured call of line %d is not named: %v", p.lines["captured"], roles)
		})
	}
}
