package check

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
)

// TestAnyOrder proves that mistakes with signals and with pool memory are reported in every order of unordered work,
// and that correct programs are silent in all of them.
func TestAnyOrder(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for _, m := range slices.Concat(signalMistakes, placeMistakes) {
		name := m.product
		if name == "" {
			name = "A2"
		}
		for seed := range seeds {
			for _, fixed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%d/%v", m.rule, m.name, seed+1, fixed), func(t *testing.T) {
					p := beginOn(t, name, func(o *Options) { o.Seed = seed + 1 })
					p.fixed = fixed
					m.run(p)
					p.finish()
					list := p.findings()
					if fixed {
						p.silent()
					} else if len(list) == 0 || list[0].Rule != m.rule {
						t.Errorf("%d findings, want one of %s", len(list), m.rule)
					}
				})
			}
		}
	}
}

// soon makes work run by itself after a moment.
func soon(o *Options) { o.Patience = 5 * time.Millisecond }

// wordOf is host memory with a word.
func (p *program) wordOf(value uint64) core.Addr {
	a := p.pinned(8)
	p.ok(transfer.Memcpy(p.Thread, a, 8, core.AddrOf(binary.LittleEndian.AppendUint64(nil, value)), 8,
		abi.MemcpyHostToHost))
	return a
}

// TestHostOpensValue proves that the host may write a word that a stream waits for, that the stream then comes after
// what the host knew, and that reading a word which a stream writes is not a mistake.
func TestHostOpensValue(t *testing.T) {
	p := begin(t)
	a, b, host, dev, word := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.word()
	five, seen := p.wordOf(5), p.wordOf(0)
	p.up(dev, host, 64, a)
	p.ok(signal.ValueWait(p.Thread, word, 5, equalValue, b))
	p.across(dev+1024, dev, 64, b)
	p.ok(p.SynchronizeStream(a))
	p.ok(transfer.Memcpy(p.Thread, word, 8, five, 8, abi.MemcpyHostToDevice))
	p.ok(p.SynchronizeStream(b))
	p.ok(signal.ValueWrite(p.Thread, word, 6, 0, a))
	p.ok(transfer.Memcpy(p.Thread, seen, 8, word, 8, abi.MemcpyDeviceToHost))
	p.down(seen, word, 8, b)
	p.ok(p.SynchronizeDevice())
	p.silent()
}

// TestBeforeTheSignal proves that the host may use, but not free, memory of tasks that wait for a signal nothing queued
// sends, and that it may not use it after the signal is queued.
func TestBeforeTheSignal(t *testing.T) {
	for _, sent := range []bool{false, true} {
		for name, way := range map[string]func(p *program, a, b core.Handle) (record func()){
			"notify": func(p *program, a, b core.Handle) func() {
				n := p.notify()
				p.ok(signal.WaitAndResetNotify(p.Thread, n, b, 0))
				return func() { p.ok(signal.RecordNotify(p.Thread, n, a)) }
			},
			"value": func(p *program, a, b core.Handle) func() {
				word := p.word()
				p.ok(signal.ValueWait(p.Thread, word, 5, equalValue, b))
				return func() { p.ok(signal.ValueWrite(p.Thread, word, 5, 0, a)) }
			},
		} {
			t.Run(name, func(t *testing.T) {
				p := begin(t)
				a, b, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
				record := way(p, a, b)
				p.up(dev, host, 64, b)
				if sent {
					record()
				}
				p.writes(host, 8)
				if !sent {
					p.silent()
					record()
				}
				p.ok(p.SynchronizeStream(b))
				p.ok(p.SynchronizeStream(a))
				if sent {
					p.only("host-write-in-flight")
				} else {
					p.silent()
				}
			})
		}
	}
	p := begin(t)
	s, other, n, host, dev := p.stream(), p.stream(), p.notify(), p.pinned(4096), p.raw(4096)
	p.ok(signal.WaitAndResetNotify(p.Thread, n, s, 0))
	p.up(dev, host, 64, s)
	p.ok(memory.Free(p.Thread, p.gone(dev)))
	p.ok(signal.RecordNotify(p.Thread, n, other))
	p.only("free-in-flight")
}

// TestTransient proves that a stream misses no value that lasted a moment, although it is held back.
func TestTransient(t *testing.T) {
	p := begin(t)
	a, b, host, dev, word, n := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.word(), p.notify()
	p.across(dev, dev+1024, 64, b) // held back
	for i := range uint64(3) {
		p.ok(signal.ValueWait(p.Thread, word, i+1, equalValue, b))
		p.ok(signal.ValueWrite(p.Thread, word, i+1, 0, a))
		p.ok(signal.WaitAndResetNotify(p.Thread, n, b, 0))
		p.ok(signal.RecordNotify(p.Thread, n, a))
	}
	p.ok(signal.ValueWrite(p.Thread, word, 0, 0, a))
	p.down(host, dev, 64, b)
	p.ok(p.SynchronizeStream(a))
	p.ok(p.SynchronizeStreamWithTimeout(b, int32(hang/time.Millisecond)))
	p.silent()
}

// TestForeign proves that an order through another process counts: a copy, a notify to the other process, one back, and
// a copy.
func TestForeign(t *testing.T) {
	p := begin(t, soon)
	d, err := soft.New(soft.Options{Devices: 2, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	rt := core.New(core.Options{Driver: d, Product: p.rt.Product})
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	other := rt.NewThread(7)
	p.ok(other.SetDevice(0))
	var s core.Handle
	p.ok(other.CreateStream(&s))
	shared := func() (here, there core.Handle) {
		here = p.notify()
		key := make([]byte, 65)
		p.ok(signal.NotifyGetExportKey(p.Thread, here, &key[0], 65, 2))
		p.ok(signal.NotifyImportByKey(other, &there, &key[0], 0))
		return here, there
	}
	go1, go2 := shared()
	back1, back2 := shared()
	p.ok(signal.WaitAndResetNotify(other, go2, s, 0))
	p.ok(signal.RecordNotify(other, back2, s))

	a, b, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
	p.up(dev, host, 64, a)
	p.ok(signal.RecordNotify(p.Thread, go1, a))
	p.ok(signal.WaitAndResetNotify(p.Thread, back1, b, 0))
	p.across(dev+1024, dev, 64, b)
	p.ok(p.SynchronizeStream(b))
	p.ok(p.SynchronizeStream(a))
	p.silent()
}

// TestPoolChance proves that pool memory counts as new for a stream that gets it because it happens to be free.
func TestPoolChance(t *testing.T) {
	p := begin(t)
	s, o, pool, host := p.stream(), p.stream(), p.pool(), p.pinned(4096)
	p.allow(pool, abi.MemPoolReuseAllowOpportunistic)
	a := p.from(pool, s)
	p.up(a, host, 64, s)
	p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
	for !p.streamComplete(s) {
	}
	if b := p.from(pool, o); b != a {
		t.Fatalf("%#x is given out, not %#x", b, a)
	}
	p.up(a, host, 64, o)
	p.ok(memory.MemPoolFreeAsync(p.Thread, a, o))
	p.ok(p.SynchronizeStream(o))
	p.silent()
}

// TestTimeUp proves that a wait for a notify that never comes ends at its limit, and orders nothing.
func TestTimeUp(t *testing.T) {
	p := begin(t, soon)
	s, n, host, dev := p.stream(), p.notify(), p.pinned(4096), p.dev(4096)
	p.ok(signal.WaitAndResetNotify(p.Thread, n, s, 1))
	p.up(dev, host, 64, s)
	if err := p.SynchronizeStream(s); err == nil {
		t.Error("the stream waited for nothing")
	}
	p.ok(signal.RecordNotify(p.Thread, n, s)) // no wait has consumed it
	p.ok(signal.WaitAndResetNotify(p.Thread, n, s, 0))
	p.ok(p.SynchronizeStream(s))
	p.silent()
}
