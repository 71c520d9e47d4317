package check

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// untilComplete repeats a query until it says complete, which takes some tries.
func untilComplete(p *program, ask func() bool) {
	for !ask() {
		runtime.Gosched()
	}
}

func (p *program) streamComplete(s core.Handle) bool {
	st := abi.StreamStatusNotReady
	p.ok(p.StreamQuery(s, &st))
	return st == abi.StreamStatusComplete
}

func (p *program) eventComplete(e core.Handle) bool {
	st := abi.EventRecordedStatusNotReady
	p.ok(p.QueryEventStatus(e, &st))
	return st == abi.EventRecordedStatusComplete
}

// reporter serves the callbacks of a stream until the test ends.
func (p *program) reporter(s core.Handle) (id uint64) {
	id = 1 << 31
	p.ok(p.SubscribeReport(id, s))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		th := p.rt.NewThread(uint32(id))
		defer th.Close()
		th.SetPthread(id)
		if err := th.SetDevice(0); err != nil {
			p.t.Error(err)
			return
		}
		for th.ProcessReport(-1) == nil {
		}
	}()
	p.later(0, func() *core.Error {
		err := p.UnSubscribeReport(id, s)
		<-ended
		return err
	})
	return id
}

// call launches a host function, and waits for it by means of the program's own.
func (p *program) call(s core.Handle, f func(t *core.Thread)) {
	over := make(chan struct{})
	p.ok(p.LaunchHostFunc(s, func(core.Addr) {
		f(p.rt.NewThread(uint32(unix.Gettid())))
		close(over)
	}, 0))
	for {
		select {
		case <-over:
			return
		default:
			p.streamComplete(s) // runs one task
		}
	}
}

// TestKnown proves which calls make a copy's completion known to the host and which do not: each case makes the same
// copy to the host, one such call, and a read.
func TestKnown(t *testing.T) {
	type way struct {
		name  string
		known bool
		do    func(p *program, s core.Handle)
	}
	ways := []way{
		{"nothing", false, func(*program, core.Handle) {}},
		{"synchronise the stream", true, func(p *program, s core.Handle) { p.ok(p.SynchronizeStream(s)) }},
		{"synchronise the stream with a limit", true, func(p *program,
			s core.Handle) {
			p.ok(p.SynchronizeStreamWithTimeout(s, 60_000))
		}},
		{"synchronise the device", true, func(p *program, _ core.Handle) { p.ok(p.SynchronizeDevice()) }},
		{"synchronise another stream", false, func(p *program,
			_ core.Handle) {
			p.ok(p.SynchronizeStream(p.stream()))
		}},
		{"another thread synchronises", true, func(p *program, s core.Handle) {
			over := make(chan *core.Error)
			th := p.thread(2)
			go func() { over <- th.SynchronizeStream(s) }()
			p.ok(<-over)
		}},
		{"a query of the stream says complete", true, func(p *program, s core.Handle) {
			untilComplete(p, func() bool { return p.streamComplete(s) })
		}},
		{"a query of the stream says not ready", false, func(p *program, s core.Handle) {
			if p.streamComplete(s) {
				p.t.Error("the first query says complete")
			}
		}},
		{"a host function after it has begun", true, func(p *program,
			s core.Handle) {
			p.call(s, func(*core.Thread) {})
		}},
		{"a blocking callback behind it has begun", true, func(p *program, s core.Handle) {
			p.reporter(s)
			over := make(chan struct{})
			p.ok(p.LaunchCallback(func(core.Addr) { close(over) }, 0, abi.CallbackBlock, s))
			eventually(p.t, "the callback", func() bool {
				select {
				case <-over:
					return true
				default:
					return false
				}
			})
		}},
		{"a callback behind it has begun", true, func(p *program, s core.Handle) {
			p.reporter(s)
			over := make(chan struct{})
			p.ok(p.LaunchCallback(func(core.Addr) { close(over) }, 0, abi.CallbackNoBlock, s))
			<-over
		}},
		{"another stream that waited for it is synchronised", true, func(p *program, s core.Handle) {
			e, other := p.event(latest), p.stream()
			p.ok(p.RecordEvent(e, s))
			p.ok(p.StreamWaitEvent(other, e))
			p.ok(p.SynchronizeStream(other))
		}},
		{"another stream waits for it", false, func(p *program, s core.Handle) {
			e := p.event(latest)
			p.ok(p.RecordEvent(e, s))
			p.ok(p.StreamWaitEvent(p.stream(), e))
		}},
	}
	for name, kind := range eventKinds {
		ways = append(ways,
			way{name + " is synchronised", true, func(p *program, s core.Handle) {
				e := p.event(kind)
				p.ok(p.RecordEvent(e, s))
				p.ok(p.SynchronizeEvent(e))
			}},
			way{name + " is recorded", false, func(p *program,
				s core.Handle) {
				p.ok(p.RecordEvent(p.event(kind), s))
			}},
			way{name + " on another stream is synchronised", false, func(p *program, _ core.Handle) {
				e := p.event(kind)
				p.ok(p.RecordEvent(e, p.stream()))
				p.ok(p.SynchronizeEvent(e))
			}},
			way{"a query of " + name + " says complete", true, func(p *program, s core.Handle) {
				e := p.event(kind)
				p.ok(p.RecordEvent(e, s))
				untilComplete(p, func() bool { return p.eventComplete(e) })
			}},
			way{"a query of " + name + " says not ready", false, func(p *program, s core.Handle) {
				e := p.event(kind)
				p.ok(p.RecordEvent(e, s))
				if p.eventComplete(e) {
					p.t.Error("the first query says complete")
				}
			}},
		)
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			p := begin(t, func(o *Options) {
				if w.known { // then the order of other work does not matter, and callbacks need not wait long
					o.Patience = DefaultPatience
				}
			})
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("submitted")
			p.down(host, dev, 4096, s)
			w.do(p, s)
			p.here("read")
			p.reads(host+64, 16)
			if w.known {
				p.silent()
				return
			}
			f := p.only("host-read-in-flight")
			p.has(f, f.Offence, "read", "read")
			p.has(f, f.Others[0], "submitted", "submitted")
			if b := f.Bytes; b.Address != uint64(host+64) || b.Length != 16 || b.Offset != 64 ||
				b.Allocation.Kind != "pinned" || b.Allocation.Size != 4096 {
				t.Errorf("bytes %+v of %+v", b, b.Allocation)
			}
			if task, _ := at(f.Others[0]); f.Others[0].Task != 1 || *f.Others[0].Stream != p.number(s) {
				t.Errorf("task %s, want 1 of %d", task, p.number(s))
			}
			p.ok(p.SynchronizeStream(s))
			p.reads(host, 4096)
			if n := len(p.findings()); n != 1 {
				t.Errorf("%d findings when it is known", n)
			}
		})
	}
}

// TestOrdered proves which calls order copies of two streams to one place, and which do not.
func TestOrdered(t *testing.T) {
	type way struct {
		name    string
		ordered bool
		between func(p *program, first, second core.Handle)
	}
	ways := []way{
		{"nothing", false, func(*program, core.Handle, core.Handle) {}},
		{"synchronise the first", true, func(p *program, a, _ core.Handle) { p.ok(p.SynchronizeStream(a)) }},
		{"synchronise the second", false, func(p *program, _, b core.Handle) { p.ok(p.SynchronizeStream(b)) }},
		{"synchronise the device", true, func(p *program, _, _ core.Handle) { p.ok(p.SynchronizeDevice()) }},
		{"a query that says complete", true, func(p *program, a, _ core.Handle) {
			untilComplete(p, func() bool { return p.streamComplete(a) })
		}},
		{"a query that says not ready", false, func(p *program, a, _ core.Handle) { p.streamComplete(a) }},
		{"over a third stream", true, func(p *program, a, b core.Handle) {
			e, f, c := p.event(latest), p.event(latest), p.stream()
			p.ok(p.RecordEvent(e, a))
			p.ok(p.StreamWaitEvent(c, e))
			p.ok(p.RecordEvent(f, c))
			p.ok(p.StreamWaitEvent(b, f))
		}},
		{"a state event that was set before and not reset", false, func(p *program, a, b core.Handle) {
			e, c := p.event(state), p.stream()
			p.ok(p.RecordEvent(e, c))
			p.ok(p.SynchronizeStream(c))
			p.ok(p.RecordEvent(e, a))
			p.ok(p.StreamWaitEvent(b, e))
		}},
		{"a state event that was set before and reset", true, func(p *program, a, b core.Handle) {
			e, c := p.event(state), p.stream()
			p.ok(p.RecordEvent(e, c))
			p.ok(p.ResetEvent(e, c))
			p.ok(p.SynchronizeStream(c))
			p.ok(p.RecordEvent(e, a))
			p.ok(p.StreamWaitEvent(b, e))
		}},
	}
	for name, kind := range eventKinds {
		ways = append(ways,
			way{name, true, func(p *program, a, b core.Handle) {
				e := p.event(kind)
				p.ok(p.RecordEvent(e, a))
				p.ok(p.StreamWaitEvent(b, e))
			}},
			way{name + " is recorded, and nobody waits", false,
				func(p *program, a, _ core.Handle) { p.ok(p.RecordEvent(p.event(kind), a)) }},
			way{name + " of another stream", false, func(p *program, a, b core.Handle) {
				e := p.event(kind)
				p.ok(p.RecordEvent(e, p.stream()))
				p.ok(p.StreamWaitEvent(b, e))
			}},
		)
	}
	for _, w := range ways {
		for _, seed := range []uint64{0, 1, 2} {
			t.Run(w.name, func(t *testing.T) {
				p := begin(t, func(o *Options) { o.Seed = seed })
				a, b, host, dev, dst := p.stream(), p.stream(), p.pinned(4096), p.dev(4096), p.dev(4096)
				p.here("a")
				p.up(dst, host, 4096, a)
				w.between(p, a, b)
				p.here("b")
				p.across(dst+64, dev, 128, b)
				p.ok(p.SynchronizeDevice())
				if w.ordered {
					p.silent()
					return
				}
				f := p.only("stream-race")
				lines := map[int32]string{p.number(a): "a", p.number(b): "b"} // either may be later
				p.has(f, f.Offence, "submitted", lines[*f.Offence.Stream])
				p.has(f, f.Others[0], "submitted", lines[*f.Others[0].Stream])
				if *f.Offence.Stream == *f.Others[0].Stream || f.Offence.Task == 0 || f.Others[0].Task == 0 {
					t.Errorf("%s", show(f))
				}
				if x := f.Bytes; x.Address != uint64(dst+64) || x.Length != 128 || x.Offset != 64 ||
					x.Allocation.Kind != "device" {
					t.Errorf("bytes %+v of %+v", x, x.Allocation)
				}
			})
		}
	}
}
