package check

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

func (p *program) notify() (n core.Handle) {
	p.ok(signal.CreateNotify(p.Thread, &n, 0))
	p.later(uintptr(n), func() *core.Error { return signal.DestroyNotify(p.Thread, n) })
	return n
}

func (p *program) count() (n core.Handle) {
	p.ok(signal.CntNotifyCreate(p.Thread, &n, 0))
	p.later(uintptr(n), func() *core.Error { return signal.CntNotifyDestroy(p.Thread, n) })
	return n
}

// add adds 1 to a count notify; atLeast waits until it is that large.
func (p *program) add(n, s core.Handle) {
	p.ok(signal.CntNotifyRecord(p.Thread, n, s, &abi.CntNotifyRecordInfo{Mode: abi.CntNotifyRecordAddMode, Value: 1}))
}

func (p *program) atLeast(value uint32, n, s core.Handle) {
	p.ok(signal.CntNotifyWaitWithTimeout(p.Thread, n, s,
		&abi.CntNotifyWaitInfo{Mode: abi.CntNotifyWaitBiggerOrEqualMode, Value: value}))
}

// word is a word of device memory that is 0.
func (p *program) word() core.Addr {
	a := p.raw(8)
	p.ok(transfer.Memset(p.Thread, a, 8, 0, 8))
	return a
}

// Conditions of aclrtValueWait.
const (
	atLeastValue = iota
	equalValue
)

// both synchronises two streams, the second first: it is the one that waits.
func (p *program) both(a, b core.Handle) {
	p.ok(p.SynchronizeStream(b))
	p.ok(p.SynchronizeStream(a))
}

// signalMistakes are about streams that signal each other by notifies and values.
var signalMistakes = []mistake{
	{rule: "stream-race", name: "a notify that nobody waits for", role: "submitted", other: "submitted",
		memory: "device", n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev, n := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.notify()
			p.here("other")
			p.up(dev, host, 64, a)
			p.ok(signal.RecordNotify(p.Thread, n, a))
			if p.fixed {
				p.ok(signal.WaitAndResetNotify(p.Thread, n, b, 0))
			}
			p.here("offence")
			p.across(dev+1024, dev, 64, b)
			p.ok(p.SynchronizeStream(a))
			p.ok(p.SynchronizeStream(b))
		}},
	{rule: "stream-race", name: "a notify that is recorded too early", role: "submitted", other: "submitted",
		memory: "device", n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev, n := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.notify()
			p.ok(signal.WaitAndResetNotify(p.Thread, n, b, 0))
			p.here("other")
			p.across(dev+1024, dev, 64, b)
			if !p.fixed {
				p.ok(signal.RecordNotify(p.Thread, n, a))
			}
			p.here("offence")
			p.up(dev, host, 64, a)
			if p.fixed {
				p.ok(signal.RecordNotify(p.Thread, n, a))
			}
			p.both(a, b)
		}},
	{rule: "stream-race", name: "a loop without an answer", role: "submitted", other: "submitted", memory: "device",
		n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev, full, empty := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.notify(), p.notify()
			for i := range 2 {
				if p.fixed && i > 0 {
					p.ok(signal.WaitAndResetNotify(p.Thread, empty, a, 0))
				}
				p.here("other")
				p.up(dev, host, 64, a)
				p.ok(signal.RecordNotify(p.Thread, full, a))
				p.ok(signal.WaitAndResetNotify(p.Thread, full, b, 0))
				p.here("offence")
				p.across(dev+1024, dev, 64, b)
				p.ok(signal.RecordNotify(p.Thread, empty, b))
			}
			p.ok(p.SynchronizeStream(a)) // b misses no value that it waits for
			p.ok(p.SynchronizeStream(b))
		}},
	{rule: "stream-race", name: "a count notify that is waited for too short", product: "950", role: "submitted",
		other: "submitted", memory: "device", from: 64, n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev, n := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.count()
			p.up(dev, host, 64, a)
			p.add(n, a)
			p.here("offence")
			p.up(dev+64, host, 64, a)
			p.add(n, a)
			enough := uint32(1)
			if p.fixed {
				enough = 2
			}
			p.atLeast(enough, n, b)
			p.here("other")
			p.across(dev+1024, dev, 128, b)
			p.both(a, b)
		}},
	{rule: "stream-race", name: "a value that nobody waits for", role: "submitted", other: "submitted",
		memory: "device", n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev, word := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.word()
			p.here("other")
			p.up(dev, host, 64, a)
			p.ok(signal.ValueWrite(p.Thread, word, 7, 0, a))
			if p.fixed {
				p.ok(signal.ValueWait(p.Thread, word, 7, equalValue, b))
			}
			p.here("offence")
			p.across(dev+1024, dev, 64, b)
			p.ok(p.SynchronizeStream(a))
			p.ok(p.SynchronizeStream(b))
		}},
	{rule: "stream-race", name: "a value that was there before", role: "submitted", other: "submitted",
		memory: "device", n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev, word := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.word()
			p.ok(signal.ValueWrite(p.Thread, word, 1, 0, a))
			p.ok(p.SynchronizeStream(a))
			value := uint64(1)
			if p.fixed {
				value = 2
			}
			p.ok(signal.ValueWait(p.Thread, word, value, atLeastValue, b))
			p.here("other")
			p.across(dev+1024, dev, 64, b)
			p.here("offence")
			p.up(dev, host, 64, a)
			p.ok(signal.ValueWrite(p.Thread, word, 2, 0, a))
			p.both(a, b)
		}},
	{rule: "stream-race", name: "a value that a copy writes", role: "submitted", other: "submitted", memory: "device",
		n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev, word := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.word()
			p.ok(transfer.Memset(p.Thread, host, 4096, 1, 4096))
			p.here("other")
			p.up(dev, host, 64, a)
			p.up(word, host+1024, 8, a)
			if p.fixed {
				p.ok(signal.ValueWait(p.Thread, word, 1, atLeastValue, b))
			}
			p.here("offence")
			p.across(dev+1024, dev, 64, b)
			p.ok(p.SynchronizeStream(a))
			p.ok(p.SynchronizeStream(b))
		}},
	{rule: "stream-race", name: "a value in the way of a copy", role: "submitted", other: "submitted",
		memory: "device", n: 8, task: true,
		run: func(p *program) {
			a, b, word, dev := p.stream(), p.stream(), p.dev(4096), p.dev(4096)
			p.here("other")
			p.ok(signal.ValueWrite(p.Thread, word, 1, 0, a))
			p.sync(a)
			p.here("offence")
			p.across(dev, word, 64, b)
			p.ok(p.SynchronizeStream(a))
			p.ok(p.SynchronizeStream(b))
		}},
	{rule: "stream-race", name: "a reduction", role: "submitted", other: "submitted", memory: "device", n: 64,
		task: true,
		run: func(p *program) {
			a, b, dev, more := p.stream(), p.stream(), p.dev(4096), p.dev(4096)
			p.here("other")
			p.ok(transfer.ReduceAsync(p.Thread, dev, more, 64, abi.MemcpySdmaAutomaticSum, abi.DataTypeFloat, a, 0))
			// both read more
			p.ok(transfer.ReduceAsync(p.Thread, dev+64, more, 64, abi.MemcpySdmaAutomaticSum, abi.DataTypeFloat, b, 0))
			p.sync(a)
			p.here("offence")
			p.ok(transfer.ReduceAsync(p.Thread, dev, more, 64, abi.MemcpySdmaAutomaticSum, abi.DataTypeFloat, b, 0))
			p.ok(p.SynchronizeStream(a))
			p.ok(p.SynchronizeStream(b))
		}},
	{rule: "uninitialised-read", name: "a reduction", role: "submitted", memory: "device", n: 64, task: true,
		run: func(p *program) {
			a, dev, more := p.stream(), p.raw(4096), p.dev(4096)
			if p.fixed {
				p.ok(transfer.Memset(p.Thread, dev, 64, 0, 64))
			}
			p.here("offence")
			p.ok(transfer.ReduceAsync(p.Thread, dev, more, 64, abi.MemcpySdmaAutomaticSum, abi.DataTypeFloat, a, 0))
			p.ok(p.SynchronizeStream(a))
		}},
	{rule: "host-read-in-flight", name: "of what a notify lets go", role: "read", other: "submitted",
		memory: "pinned", n: 64,
		run: func(p *program) {
			a, b, host, dev, n := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.notify()
			p.ok(signal.WaitAndResetNotify(p.Thread, n, b, 0))
			p.here("other")
			p.down(host, dev, 64, b)
			p.up(dev, host+1024, 64, a)
			p.ok(signal.RecordNotify(p.Thread, n, a))
			p.ok(p.SynchronizeStream(a)) // this does not order b
			p.sync(b)
			p.here("offence")
			p.reads(host, 64)
		}},
	{rule: "host-read-in-flight", name: "of what an IPC event is behind", role: "read", other: "submitted",
		memory: "pinned", n: 64,
		run: func(p *program) {
			a, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			var e core.Handle
			p.ok(p.CreateEventExWithFlag(&e, abi.EventIpc))
			p.later(uintptr(e), func() *core.Error { return p.DestroyEvent(e) })
			p.ok(p.RecordEvent(e, a))
			p.here("other")
			p.down(host, dev, 64, a)
			if p.fixed {
				p.ok(p.RecordEvent(e, a))
			}
			p.ok(p.SynchronizeEvent(e))
			p.here("offence")
			p.reads(host, 64)
		}},
	{rule: "stream-race", name: "an IPC event that nobody waits for", role: "submitted", other: "submitted",
		memory: "device", n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
			var e core.Handle
			p.ok(p.CreateEventExWithFlag(&e, abi.EventIpc))
			p.later(uintptr(e), func() *core.Error { return p.DestroyEvent(e) })
			p.here("other")
			p.up(dev, host, 64, a)
			p.ok(p.RecordEvent(e, a))
			if p.fixed {
				p.ok(p.StreamWaitEvent(b, e))
			}
			p.here("offence")
			p.across(dev+1024, dev, 64, b)
			p.ok(p.SynchronizeStream(a))
			p.ok(p.SynchronizeStream(b))
		}},
	{rule: "free-in-flight", name: "a word that is waited for", role: "freed", other: "submitted", memory: "device",
		n: 8,
		run: func(p *program) {
			a, word := p.stream(), p.word()
			p.ok(transfer.Memset(p.Thread, word, 8, 1, 8))
			p.here("other")
			p.ok(signal.ValueWait(p.Thread, word, 1, atLeastValue, a))
			p.sync(a)
			p.gone(word)
			p.here("offence")
			p.ok(memory.Free(p.Thread, word))
		}},
	{rule: "use-after-free", name: "a notify", role: "called", other: "freed",
		run: func(p *program) {
			s, n := p.stream(), p.notify()
			if p.fixed {
				p.ok(signal.RecordNotify(p.Thread, n, s))
				return
			}
			p.gone(uintptr(n))
			p.here("other")
			p.ok(signal.DestroyNotify(p.Thread, n))
			p.here("offence")
			p.refused(signal.RecordNotify(p.Thread, n, s))
		}},
	{rule: "double-free", name: "a count notify", product: "950", role: "called",
		run: func(p *program) {
			n := p.count()
			p.gone(uintptr(n))
			p.ok(signal.CntNotifyDestroy(p.Thread, n))
			if !p.fixed {
				p.here("offence")
				p.refused(signal.CntNotifyDestroy(p.Thread, n))
			}
		}},
	{rule: "leak", name: "a notify", role: "made",
		run: func(p *program) {
			p.here("offence")
			n := p.notify()
			if !p.fixed {
				p.gone(uintptr(n))
			}
		}},
	{rule: "leak", name: "a count notify", product: "950", role: "made",
		run: func(p *program) {
			p.here("offence")
			n := p.count()
			if !p.fixed {
				p.gone(uintptr(n))
			}
		}},
}
