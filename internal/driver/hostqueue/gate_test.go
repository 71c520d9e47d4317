//go:build !explore

package hostqueue

import (
	"errors"
	"testing"
	"time"

	"ropeway/internal/driver"
)

// testGate is a gate that the test opens.
type testGate struct {
	open         bool
	wake         func()
	asked, lefts int
}

func (g *testGate) Pass(wake func()) bool {
	g.asked++
	g.wake = wake
	return g.open
}

func (g *testGate) Leave() { g.lefts++ }

// failingGate is a gate whose wait can fail.
type failingGate struct {
	testGate
	err error
}

func (g *failingGate) Err() error { return g.err }

// TestHeadGate proves how a gate is passed, and that Leave is called only for a gate that was not passed.
func TestHeadGate(t *testing.T) {
	for _, how := range []string{"open", "opened", "woken in vain", "expired", "expired and opened", "dropped",
		"dropped at once"} {
		p, g := newParkable(), &testGate{open: how == "open"}
		op := &driver.Op{Kind: driver.OpWaitCond, Gate: g}
		if how == "expired" || how == "expired and opened" {
			op.Timeout = 1
		}
		if how != "dropped at once" && p.ready(op, false) != g.open {
			t.Fatalf("%s: ready is %v", how, !g.open)
		}
		switch how {
		case "opened":
			g.open = true
			g.wake()
			<-p.unparked
		case "woken in vain":
			g.wake()
			<-p.unparked
			if p.ready(op, false) {
				t.Errorf("%s: passed", how)
			}
			g.open = true
		case "expired":
			<-p.unparked
		case "expired and opened":
			<-p.unparked
			g.open = true
		}
		drop := how == "dropped" || how == "dropped at once"
		if !g.open && !p.ready(op, drop) || g.open && how != "open" && !p.ready(op, false) {
			t.Errorf("%s: still waits", how)
		}
		if expired := p.leave(op); expired != (how == "expired") {
			t.Errorf("%s: expired %v", how, expired)
		}
		if left := g.lefts == 1; left == g.open || g.lefts > 1 {
			t.Errorf("%s: left %d times", how, g.lefts)
		}
		if drop && g.asked > 1 {
			t.Errorf("%s: asked when it was dropped", how)
		}
		if err := Do(op); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
	// The timeout of a gate does not affect the next gate.
	p := newParkable()
	first, second := &driver.Op{Kind: driver.OpWaitCond, Gate: &testGate{},
		Timeout: time.Hour}, &driver.Op{Kind: driver.OpWaitCond, Gate: &testGate{}}
	p.ready(first, false)
	turn := p.head.turn
	p.leave(first)
	p.ready(second, false)
	p.head.expire(turn, &p.mu, p)
	if p.ready(second, false) || p.leave(second) {
		t.Error("the time of the head before counts")
	}
}

// TestGateFails proves that a wait ends with the error of its gate.
func TestGateFails(t *testing.T) {
	gone := errors.New("gone")
	for _, want := range []error{nil, gone} {
		if err := Do(&driver.Op{Kind: driver.OpWaitCond, Gate: &failingGate{err: want}}); err != want {
			t.Errorf("%v, not %v", err, want)
		}
	}
}
