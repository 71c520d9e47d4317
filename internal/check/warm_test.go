package check

import (
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/core/memory"
)

// warmed returns a page that the host touched after a copy was known to be complete; the copy can be repeated.
func warmed(t *testing.T) (p *program, s core.Handle, host, dev core.Addr) {
	p, _ = closing(t)
	s, host, dev = p.stream(), p.pinned(4*page), p.dev(4*page)
	p.down(host+page, dev, page, s)
	p.ok(p.SynchronizeStream(s))
	p.are("copied once", host, "-x--")
	p.goesOn(host + page)
	p.are("touched", host, "----")
	return p, s, host, dev
}

// goesOn touches a page without accesses in flight.
func (p *program) goesOn(addr core.Addr) {
	p.t.Helper()
	if got := p.touch(addr, 1, true); got.What != goOn {
		p.t.Errorf("a write is answered by %+v", got)
	}
}

// again copies to a page once more, and checks that it is closed, and its state after the synchronisation.
func (p *program) again(what string, host, dev core.Addr, s core.Handle, want string) {
	p.t.Helper()
	p.down(host, dev, page, s)
	p.are(what+", in flight", host, "x")
	p.ok(p.SynchronizeStream(s))
	p.are(what, host, want)
}

// TestWarm proves that a touched page is opened when the next copies are known to be complete, that after a number of
// them one waits for the touch again, and that the number doubles each time.
func TestWarm(t *testing.T) {
	p, s, host, dev := warmed(t)
	for _, times := range []int{4, 8, 16, 32, 64, 64} {
		for range times {
			p.again("warm", host+page, dev, s, "-")
		}
		p.again("to be seen", host+page, dev, s, "x")
		p.goesOn(host + page)
	}
	p.finish()
	p.silent()
}

// TestColdAgain proves that a page without further touches stays closed, also if several copies wait for one
// synchronisation, and that a touch makes it warm as at first.
func TestColdAgain(t *testing.T) {
	p, s, host, dev := warmed(t)
	for range 2 {
		for range firstWarm {
			p.again("warm", host+page, dev, s, "-")
		}
		p.again("to be seen", host+page, dev, s, "x")
		for range 3 {
			p.down(host+page, dev, page, s)
			p.again("cold", host+page, dev, s, "x")
		}
		p.goesOn(host + page)
	}
	p.finish()
	p.silent()
}

// TestWarmTwice proves that copies submitted beside a trial do not make a page cold.
func TestWarmTwice(t *testing.T) {
	p, s, host, dev := warmed(t)
	for _, times := range []int{4, 8, 16} {
		for range times {
			p.down(host+page, dev, page, s)
			p.again("warm", host+page, dev, s, "-")
		}
		p.down(host+page, dev, page, s)
		p.again("to be seen", host+page, dev, s, "x")
		p.goesOn(host + page)
	}
	p.finish()
	p.silent()
}

// TestWarmInFlight proves that a warm page stays closed while any access to it is in flight: on another stream, after
// the tasks waited for, or to another part of the page. An access by the host is reported.
func TestWarmInFlight(t *testing.T) {
	for _, tt := range []struct {
		name   string
		second func(p *program, host, dev core.Addr, s, other core.Handle) (wait core.Handle)
	}{
		{"another stream", func(p *program, host, dev core.Addr, s, other core.Handle) core.Handle {
			p.down(host+64, dev, 64, other)
			return s
		}},
		{"a source on another stream", func(p *program, host, dev core.Addr, s, other core.Handle) core.Handle {
			p.up(dev+page, host+64, 64, other)
			return s
		}},
		{"other is known", func(p *program, host, dev core.Addr, s, other core.Handle) core.Handle {
			p.down(host+64, dev, 64, s)
			return other
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, s, host, dev := warmed(t)
			other := p.stream()
			p.down(host+page, dev, 64, s)
			wait := tt.second(p, host+page, dev, s, other)
			p.up(dev+2*page, host+3*page, 64, wait) // so that there is something to wait for
			p.ok(p.SynchronizeStream(wait))
			p.are("a part is in flight", host, "-x-r")
			answer := p.touch(host+page+64, 1, true)
			if answer.What != stepOnce {
				t.Errorf("answer %+v", answer)
			}
			p.c.Stepped(answer)
			p.only("host-write-in-flight")
			p.ok(p.SynchronizeStream(s))
			p.ok(p.SynchronizeStream(other))
			p.goesOn(host + page)
		})
	}
}

// TestWarmFreed proves that pages waiting to be opened early are forgotten when their memory is freed: a use of freed
// memory is reported after the copy is known to be complete.
func TestWarmFreed(t *testing.T) {
	p, s, host, dev := warmed(t)
	p.down(host+page, dev, page, s)
	if got := len(p.c.pages.early); got != 1 {
		t.Errorf("%d ranges are to be opened early", got)
	}
	p.gone(host)
	p.ok(memory.FreeHost(p.Thread, host))
	if got := len(p.c.pages.early); got != 0 {
		t.Errorf("%d ranges are left to be opened early", got)
	}
	p.ok(p.SynchronizeStream(s))
	p.are("freed", host+page, "x")
	p.only("free-in-flight")
}

// TestWarmMany proves that a limited number of ranges is opened early; touches open the others.
func TestWarmMany(t *testing.T) {
	const many = mostEarly + 3
	p, _ := closing(t)
	s, host, dev := p.stream(), p.pinned(2*many*page), p.dev(page)
	at := func(i int) core.Addr { return host + core.Addr(2*i*page) }
	for i := range many {
		p.down(at(i), dev, 64, s)
	}
	p.ok(p.SynchronizeStream(s))
	for i := range many {
		p.goesOn(at(i))
	}
	for i := range many {
		p.down(at(i), dev, 64, s)
	}
	p.ok(p.SynchronizeStream(s))
	p.are("the first", at(0), "-")
	p.are("the last that is opened early", at(mostEarly-1), "-")
	p.are("the first that is not", at(mostEarly), "x")
	p.goesOn(at(mostEarly))
	p.finish()
	p.silent()
}
