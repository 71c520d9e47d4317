package check

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	models "ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
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

// execute submits an execution of a model to a stream.
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

// poolModel executes a model with pool memory that was freed and, optionally, allocated again.
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

// captureMistakes are calls that a capture does not allow, or that invalidate it.
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
			var m, left core.Handle
			p.ok(models.MdlRICaptureGetInfo(p.Thread, s, nil, &left))
			p.here("offence")
			t.Done(models.MdlRICaptureEnd(t, s, &m))
			p.ok(models.MdlRIDestroy(p.Thread, left))
		}},
	{rule: "broken-capture", name: "a task group left open", role: "called", other: "began",
		run: func(p *program) {
			s := p.stream()
			p.here("other")
			p.capture(s, relaxed)
			p.ok(models.MdlRICaptureTaskGrpBegin(p.Thread, s))
			if p.fixed {
				var group core.Handle
				p.ok(models.MdlRICaptureTaskGrpEnd(p.Thread, s, &group))
				p.model(s)
				return
			}
			p.here("offence")
			p.unmade(s)
		}},
	{rule: "broken-capture", name: "a fill in a task group", role: "called", other: "began",
		run: func(p *program) {
			s, dev := p.stream(), p.dev(64)
			p.here("other")
			p.capture(s, relaxed)
			p.ok(models.MdlRICaptureTaskGrpBegin(p.Thread, s))
			var group core.Handle
			if p.fixed {
				p.ok(models.MdlRICaptureTaskGrpEnd(p.Thread, s, &group))
				p.ok(transfer.MemsetAsync(p.Thread, dev, 64, 1, 64, s))
				p.model(s)
				return
			}
			p.here("offence")
			p.refused(transfer.MemsetAsync(p.Thread, dev, 64, 1, 64, s))
			p.unmade(s)
		}},
	{rule: "broken-capture", name: "a sub-model not captured to its end", role: "called", other: "began",
		run: func(p *program) {
			s, in := p.stream(), p.stream()
			var m, body, cond core.Handle
			p.here("other")
			p.capture(s, relaxed)
			p.ok(models.MdlRICaptureGetInfo(p.Thread, s, nil, &m))
			p.ok(models.MdlRICondHandleCreate(p.Thread, m, 1, 0, &cond))
			p.ok(models.MdlRIAddCondTask(p.Thread, &abi.MdlRICondTaskParams{Handle: uintptr(cond),
				Type: abi.ModelRiCondTypeIf, Size: 1, ModelRIArray: core.AddressOf(&body)}, s, 0))
			p.ok(models.MdlRICaptureToModelRIBegin(p.Thread, in, body, relaxed))
			if p.fixed {
				p.ok(models.MdlRICaptureEnd(p.Thread, in, nil))
				p.model(s)
				return
			}
			p.here("offence")
			p.unmade(s)
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
			p.ok(p.SynchronizeStream(one)) // so that tasks run in the order of the calls
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
			p.ok(p.SynchronizeStream(two)) // the host learns this after the execution was submitted
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
