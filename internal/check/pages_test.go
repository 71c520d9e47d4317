package check

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/memcopy"
)

// closing returns a program whose view of host memory is closed while copies are pending.
func closing(t *testing.T, options ...func(*Options)) (*program, *caller) {
	t.Helper()
	p := begin(t, options...)
	by := p.withFrontEnd()
	p.c.CloseMemory()
	t.Cleanup(p.counted)
	return p, by
}

// counted checks the number of borders.
func (p *scene) counted() {
	p.t.Helper()
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	n := 0
	p.c.ledger.memory.Scan(func(_ uintptr, a *allocation) bool {
		for _, r := range a.runs {
			n += r.borders(0, len(r.state))
		}
		return true
	})
	if n != p.c.pages.runs {
		p.t.Errorf("%d borders are counted, there are %d", p.c.pages.runs, n)
	}
}

// touch makes an access that meets a closed page.
func (p *program) touch(addr core.Addr, n uint64, write bool) Touch {
	return p.c.Touch(addr, n, write, 0, p.Caller(), p.ID())
}

// faults reports whether an access of the program to a byte faults. It does not change the byte.
func faults(addr uintptr, write bool) (yes bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { yes = recover() != nil }()
	if write {
		memcopy.ProbeWrite(addr, 1)
	} else {
		memcopy.ProbeRead(addr, 1)
	}
	return false
}

// pageStates returns the states of n pages: x closed, r read-only, - open.
func pageStates(addr core.Addr, n int) string {
	var b strings.Builder
	for i := range core.Addr(n) {
		switch at := addr + i*pageBytes; {
		case faults(at, false):
			b.WriteByte('x')
		case faults(at, true):
			b.WriteByte('r')
		default:
			b.WriteByte('-')
		}
	}
	return b.String()
}

// are checks the states of pages.
func (p *scene) are(what string, addr core.Addr, want string) {
	p.t.Helper()
	if got := pageStates(addr, len(want)); got != want {
		p.t.Errorf("%s: pages are %s, want %s", what, got, want)
	}
}

const page = pageBytes

// TestClosing proves which pages are closed: those of a pending destination, and for writes those of a pending source,
// and no others. They stay closed when the copy is known to be complete, and all open at the first touch.
func TestClosing(t *testing.T) {
	p, _ := closing(t)
	s, host, dev := p.stream(), p.pinned(8*page), p.dev(8*page)
	p.are("at first", host, "--------")
	p.down(host+page, dev, page+1, s)
	p.are("a destination of a page and a byte", host, "-xx-----")
	p.up(dev+4*page, host+4*page, 2*page, s)
	p.are("and a source of two pages", host, "-xx-rr--")
	p.up(dev, host+page, 64, s)
	p.are("a source where a destination is", host, "-xx-rr--")
	p.down(host+5*page, dev, 64, s)
	p.are("a destination where a source is", host, "-xx-rx--")
	p.counted()
	p.ok(p.SynchronizeStream(s))
	p.are("when all is known", host, "-xx-rx--")
	if got := p.touch(host+page+7, 1, false); got.What != goOn {
		t.Errorf("a read is answered by %+v", got)
	}
	p.are("after a read", host, "----rx--")
	if got := p.touch(host+4*page, 8, true); got.What != goOn {
		t.Errorf("a write is answered by %+v", got)
	}
	p.are("after a write", host, "--------")
	p.finish()
	p.silent()
}

// TestStepping proves that an access to a page that is partly in flight is let through once: it is judged by its bytes,
// and the page is closed again after it.
func TestStepping(t *testing.T) {
	p, _ := closing(t)
	s, host, dev := p.stream(), p.pinned(2*page), p.dev(2*page)
	p.down(host+64, dev, 64, s)
	p.up(dev+page, host+page+64, 64, s)
	p.are("in flight", host, "xr")
	for _, tt := range []struct {
		at    core.Addr
		write bool
		open  string // during the access
	}{
		{host, false, "rr"}, {host + 128, true, "-r"}, {host + page, true, "x-"}, {host + 63, false, "rr"},
	} {
		answer := p.touch(tt.at, 1, tt.write)
		if answer.What != stepOnce || answer.Page != tt.at&^(page-1) || answer.Length != page {
			t.Errorf("%+v: answer %+v", tt, answer)
		}
		p.are("while it is stepped", host, tt.open)
		if at, ok := p.guard.EngineView(tt.at); !ok || at != tt.at+answer.Delta {
			t.Errorf("the engine sees it at %#x, not at %#x", at, tt.at+answer.Delta)
		}
		p.c.Stepped(answer)
		p.are("when it was stepped", host, "xr")
	}
	p.silent()
	p.c.Stepped(p.touch(host+127, 1, false))
	p.are("after a mistake", host, "xr")
	f := p.only("host-read-in-flight")
	if f.Bytes.Offset != 127 || f.Bytes.Length != 1 || f.Others[0].Task != 1 {
		t.Errorf("found %s", show(f))
	}
	// An access across the border of both pages.
	answer := p.touch(host+page-8, 16, true)
	if answer.What != stepOnce || answer.Page != host || answer.Length != 2*page {
		t.Errorf("answer %+v", answer)
	}
	p.are("while it is stepped over both", host, "--")
	p.ok(p.SynchronizeStream(s))
	p.c.Stepped(answer)
	p.are("it is all known meanwhile", host, "--")
}

// TestOpenAround proves that the first touch opens all closed pages around it, unless a part of them is still in
// flight.
func TestOpenAround(t *testing.T) {
	p, _ := closing(t)
	a, b, host, dev := p.stream(), p.stream(), p.pinned(8*page), p.dev(8*page)
	p.down(host, dev, 4*page, a)
	p.down(host+4*page, dev, page, b)
	p.ok(p.SynchronizeStream(a))
	p.touch(host+page, 1, false)
	p.are("a neighbour is in flight", host, "x-xxx---")
	p.touch(host, 1, false)
	p.are("none of the pages around is", host, "--xxx---")
	p.ok(p.SynchronizeStream(b))
	p.touch(host+3*page, 1, false)
	p.are("none is in flight any more", host, "--------")
	p.finish()
	p.silent()
}

// guarding is a driver with a Guard that a test can change.
type guarding struct {
	*soft.Driver
	closable func(addr uintptr, n uint64) (uintptr, uintptr) // nil: the driver's own
	refuse   error                                           // of Protect
}

func (g *guarding) Caps() driver.Caps {
	c := g.Driver.Caps()
	c.Guard = g
	return c
}

func (g *guarding) Closable(addr uintptr, n uint64) (uintptr, uintptr) {
	if g.closable != nil {
		return g.closable(addr, n)
	}
	return g.Driver.Closable(addr, n)
}

func (g *guarding) Protect(lo, hi uintptr, access driver.Access) error {
	if g.refuse != nil {
		return g.refuse
	}
	return g.Driver.Protect(lo, hi, access)
}

func guarded(g *guarding) func(*Options) {
	return func(o *Options) {
		g.Driver = o.Driver.(*soft.Driver)
		o.Driver = g
	}
}

// sums returns the ranges, relative to base, with snapshots for the pending task of a stream.
func (p *scene) sums(s core.Handle, task int, base core.Addr) string {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	var list []string
	for _, x := range p.c.schedule.byStream[p.numberLocked(s)].waiting[task].sums {
		list = append(list, fmt.Sprintf("%d+%d", x.lo-base, x.n))
	}
	return strings.Join(list, " ")
}

func (p *scene) numberLocked(s core.Handle) int32 { return p.c.ledger.handles[uintptr(s)].r.Number }

// TestSeveralRuns proves that if memory can be closed only in parts, the rest has snapshots, which find a write.
func TestSeveralRuns(t *testing.T) {
	g := &guarding{}
	p, _ := closing(t, guarded(g))
	s, host, dev := p.stream(), p.pinned(8*page), p.dev(8*page)
	g.closable = func(addr uintptr, n uint64) (uintptr, uintptr) {
		for _, r := range []span{{host + page, host + 3*page}, {host + 5*page, host + 6*page}} {
			if lo, hi := max(addr, r.lo), min(addr+uintptr(n), r.hi); lo < hi {
				return r.lo, r.hi
			}
		}
		return addr, addr
	}
	p.up(dev, host+64, 8*page-128, s)
	p.are("a source", host, "-rr--r--")
	if got, want := p.sums(s, 0, host), fmt.Sprintf("64+%d %d+%d %d+%d", page-64, 3*page, 2*page, 6*page,
		2*page-64); got != want {
		t.Errorf("snapshots of %s, want %s", got, want)
	}
	p.up(dev, host+2*page, page, s)
	if got := p.sums(s, 1, host); got != "" {
		t.Errorf("snapshots of %s, and all of it is closed", got)
	}
	p.up(dev, host+7*page, 64, s)
	if got, want := p.sums(s, 2, host), fmt.Sprintf("%d+64", 7*page); got != want {
		t.Errorf("snapshots of %s, want %s", got, want)
	}
	if answer := p.touch(host+3*page, 1, true); answer.What != goOn {
		t.Errorf("a page that cannot be closed: answer %+v", answer)
	}
	p.silent()
	view(host+3*page, 1)[0]++
	p.ok(p.SynchronizeStream(s))
	if f := p.only("host-write-in-flight"); f.Bytes.Offset != 3*page || f.Offence.Role != "found" {
		t.Errorf("found %s", show(f))
	}
}

// TestRegisteredClosing proves that registered memory that begins and ends within a page has its whole pages closed and
// snapshots of the rest.
func TestRegisteredClosing(t *testing.T) {
	p, by := closing(t)
	all := p.mapped(4 * page)
	host := all + 64
	s, dev := p.stream(), p.dev(4*page)
	p.ok(memory.HostRegisterV2(p.Thread, host, 4*page-128, 1<<28))
	p.later(host, func() *core.Error { return memory.HostUnregister(p.Thread, host) })
	if last := by.front.spans[len(by.front.spans)-1]; !slices.Contains(last, uint64(host)) {
		t.Errorf("faults are caught in %#x", last)
	}
	p.up(dev, host, 4*page-128, s)
	p.are("a source", all, "-rr-")
	if got, want := p.sums(s, 0, all), fmt.Sprintf("64+%d %d+%d", page-64, 3*page, page-64); got != want {
		t.Errorf("snapshots of %s, want %s", got, want)
	}
	p.c.Stepped(p.touch(all+page+8, 8, true))
	if f := p.only("host-write-in-flight"); f.Bytes.Allocation.Kind != "registered" || f.Bytes.Offset != page+8-64 {
		t.Errorf("found %s", show(f))
	}
	p.ok(p.SynchronizeStream(s))
	p.gone(host)
	p.ok(memory.HostUnregister(p.Thread, host))
	p.are("when it is unregistered", all, "----")
	if last := by.front.spans[len(by.front.spans)-1]; slices.Contains(last, uint64(host)) {
		t.Errorf("faults are still caught in %#x", last)
	}
	p.only("host-write-in-flight")
}

// TestMostRuns proves that with too many runs of pages no more are closed, that the report says so, and that the
// sources there are compared with a snapshot.
func TestMostRuns(t *testing.T) {
	defer func(n int) { mostRuns = n }(mostRuns)
	mostRuns = 4
	p, _ := closing(t)
	s, host, dev := p.stream(), p.pinned(16*page), p.dev(16*page)
	for i := range core.Addr(4) {
		p.up(dev+i*2*page, host+page+i*2*page, 64, s)
	}
	p.are("four of them", host, "-r-r------------")
	if got, want := p.sums(s, 2, host), fmt.Sprintf("%d+64", 5*page); got != want {
		t.Errorf("snapshots of %s, want %s", got, want)
	}
	if len(p.kept.notes) != 1 || !strings.Contains(p.kept.notes[0], "more than 4 runs") {
		t.Errorf("notes %q", p.kept.notes)
	}
	view(host+5*page, 1)[0]++
	p.ok(p.SynchronizeStream(s))
	p.only("host-write-in-flight")
	p.touch(host+page, 1, true) // one is open again, and there is room for another
	p.up(dev, host+9*page, 64, s)
	p.are("another one", host, "---r-----r------")
}

// TestCannotClose proves that memory that the kernel cannot close has snapshots, and that the report says so.
func TestCannotClose(t *testing.T) {
	g := &guarding{refuse: errors.New("no room")}
	p, _ := closing(t, guarded(g))
	s, host, dev := p.stream(), p.pinned(page), p.dev(page)
	p.up(dev, host, 64, s)
	p.are("a source", host, "-")
	if got := p.sums(s, 0, host); got != "0+64" {
		t.Errorf("snapshots of %s", got)
	}
	if len(p.kept.notes) != 1 || !strings.Contains(p.kept.notes[0], "no room") {
		t.Errorf("notes %q", p.kept.notes)
	}
}

// TestGaveUp proves that a page is left open after many mistakes: these are still counted, and other pages stay closed.
func TestGaveUp(t *testing.T) {
	p, _ := closing(t)
	s, host, dev := p.stream(), p.pinned(2*page), p.dev(2*page)
	p.down(host, dev, 2*page, s)
	n := 0
	for ; n < 1000; n++ {
		answer := p.touch(host, 1, false)
		if answer.What == goOn {
			break
		}
		p.c.Stepped(answer)
		p.are("in flight", host, "xx")
	}
	if n != patienceN-1 {
		t.Errorf("given up after %d mistakes", n+1)
	}
	p.are("given up", host, "-x")
	if f := p.only("host-read-in-flight"); f.Count != patienceN {
		t.Errorf("counted %d", f.Count)
	}
}

// TestTouchOthers proves the responses to faults on pages that were not closed: a use of freed memory is reported and
// left to the program, an access that works now is tried again, and other faults are the program's own.
func TestTouchOthers(t *testing.T) {
	p, _ := closing(t)
	host := p.pinned(page)
	if got := p.touch(host, 1, true); got.What != goOn {
		t.Errorf("open memory: %+v", got)
	}
	foreign := p.mapped(2 * page)
	if got := p.touch(foreign, 1, true); got.What != goOn {
		t.Errorf("foreign memory: %+v", got)
	}
	if err := unix.Mprotect(view(foreign, page), unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		write bool
		want  uint32
	}{{false, goOn}, {true, notOurs}} {
		if got := p.touch(foreign, 1, tt.write); got.What != tt.want {
			t.Errorf("foreign memory that can be read, write %v: %+v", tt.write, got)
		}
	}
	p.silent()
	p.gone(host)
	p.ok(memory.FreeHost(p.Thread, host))
	if got := p.touch(host+100, 4, true); got.What != notOurs {
		t.Errorf("freed memory: %+v", got)
	}
	f := p.only("use-after-free")
	roles := []string{f.Offence.Role}
	for _, o := range f.Others {
		roles = append(roles, o.Role)
	}
	if f.Bytes.Offset != 100 || f.Bytes.Length != 4 || !f.Bytes.Allocation.Freed || !slices.Equal(roles,
		[]string{"written", "allocated", "freed"}) {
		t.Errorf("found %s", show(f))
	}
}

// TestNoClosing proves that nothing is closed without a front end that catches faults, or with the rules disabled.
func TestNoClosing(t *testing.T) {
	p := begin(t)
	s, host, dev := p.stream(), p.pinned(page), p.dev(page)
	p.down(host, dev, page, s)
	p.are("without CloseMemory", host, "-")
	q, _ := closing(t, off("host-read-in-flight", "host-write-in-flight"))
	s, host, dev = q.stream(), q.pinned(page), q.dev(page)
	q.down(host, dev, page, s)
	q.are("without the rules", host, "-")
	if got := q.sums(s, 0, host); got != "" {
		t.Errorf("snapshots of %s", got)
	}
	if lo, hi := q.c.Window(); lo >= hi || host < lo || host >= hi {
		t.Errorf("%#x is not in the window [%#x, %#x)", host, lo, hi)
	}
}

// TestFreeForgetsPages proves that memory freed while it is closed is open when it is allocated again.
func TestFreeForgetsPages(t *testing.T) {
	p, _ := closing(t)
	s, dev := p.stream(), p.dev(page)
	for range 50 {
		host := p.pinned(4 * page)
		p.are("new", host, "----")
		p.down(host+page, dev, page, s)
		p.ok(p.SynchronizeStream(s))
		p.gone(host)
		p.ok(memory.FreeHost(p.Thread, host))
	}
	p.counted()
	p.silent()
}
