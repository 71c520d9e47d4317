//go:build !explore

package hostqueue

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// parkable is a Parkable that signals when it is unparked.
type parkable struct {
	mu       sync.Mutex
	head     Head
	unparked chan struct{}
}

func newParkable() *parkable { return &parkable{unparked: make(chan struct{}, 10)} }
func (p *parkable) Unpark()  { p.unparked <- struct{}{} }
func (p *parkable) ready(op *driver.Op, drop bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.head.Ready(op, drop, &p.mu, p)
}

func (p *parkable) leave(op *driver.Op) (expired bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.head.Leave(op, p)
}

// testFlag is a minimal flag.
type testFlag struct{ Flag }

func (f *testFlag) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	return f.Await(LimitOf(timeout, cancel))
}

// TestLimit proves when a limit is reached.
func TestLimit(t *testing.T) {
	never, over := make(chan struct{}), make(chan struct{})
	close(over)
	for _, tt := range []struct {
		what          string
		l             Limit
		none, reached bool
	}{
		{"nothing", LimitOf(0, nil), true, false},
		{"a channel", LimitOf(0, never), false, false},
		{"a closed channel", LimitOf(time.Hour, over), false, true},
		{"a time to come", LimitOf(time.Hour, never), false, false},
		{"a time that is over", Limit{until: time.Now().Add(-1)}, false, true},
	} {
		if tt.l.None() != tt.none || tt.l.Reached() != tt.reached {
			t.Errorf("%s: none %v, reached %v", tt.what, tt.l.None(), tt.l.Reached())
		}
	}
}

// TestWaiters proves that waiters are woken when their tasks are over, and that one that gives up is removed.
func TestWaiters(t *testing.T) {
	var mu sync.Mutex
	var list Waiters
	all := []*Waiter{list.Add(), list.Add(), list.Add(), list.Add()}
	for i, w := range all {
		w.Target = uint64(i)
	}
	all[0].Target = 4
	list.Notify(2)
	if woken := []bool{all[0].Woken(), all[1].Woken(), all[2].Woken(), all[3].Woken()}; !slices.Equal(woken,
		[]bool{false, true, true, false}) {
		t.Fatalf("woken: %v", woken)
	}
	if len(list) != 2 {
		t.Fatalf("%d in the list", len(list))
	}
	if !all[1].Sleep(Limit{}, &mu, &list) || !all[2].Sleep(LimitOf(time.Hour, nil), &mu, &list) {
		t.Error("a waiter that was woken waits")
	}
	over := make(chan struct{})
	close(over)
	if all[3].Sleep(LimitOf(0, over), &mu, &list) || len(list) != 1 || list[0] != all[0] {
		t.Errorf("gave up; %d are left", len(list))
	}
	w := all[0]
	list.Notify(4)
	if !w.Sleep(LimitOf(0, over), &mu, &list) && w.Woken() {
		t.Error("back in the pool with a signal for another")
	}
}

// TestHeadWait proves when a wait at the head of a queue is over: when its flag is set, even if it is cleared at once,
// when the flag is abandoned, and when the timeout expires, but not when another flag is set.
func TestHeadWait(t *testing.T) {
	for _, how := range []string{"set", "pulse", "abandoned", "expired", "dropped", "expired and set"} {
		p, f := newParkable(), new(testFlag)
		op := &driver.Op{Kind: driver.OpAwait, Flag: f}
		if how == "expired" || how == "expired and set" {
			op.Timeout = 1
		}
		if p.ready(op, false) || op.Timeout == 0 && p.ready(op, false) {
			t.Fatalf("%s: does not wait", how)
		}
		if queues, _ := f.Waiting(); queues != 1 {
			t.Errorf("%s: the flag knows %d queues", how, queues)
		}
		switch how {
		case "set":
			f.Set()
		case "pulse":
			f.Set()
			f.Clear()
		case "abandoned":
			f.Abandon(errors.New("gone"))
		case "expired and set":
			<-p.unparked
			f.Set()
		}
		if how != "dropped" {
			<-p.unparked
		}
		if !p.ready(op, how == "dropped") {
			t.Errorf("%s: still waits", how)
		}
		if expired := p.leave(op); expired != (how == "expired") {
			t.Errorf("%s: expired %v", how, expired)
		}
		if queues, _ := f.Waiting(); queues != 0 {
			t.Errorf("%s: the flag still knows the queue", how)
		}
	}
	// The timeout of one head does not affect the next.
	p := newParkable()
	first, second := &driver.Op{Kind: driver.OpAwait, Flag: new(testFlag),
		Timeout: time.Hour}, &driver.Op{Kind: driver.OpAwait, Flag: new(testFlag)}
	p.ready(first, false)
	turn := p.head.turn
	p.leave(first)
	p.ready(second, false)
	p.head.expire(turn, &p.mu, p)
	if p.ready(second, false) || p.leave(second) {
		t.Error("the time of the head before counts")
	}
}

// TestHeadCall proves that a function is called once, and not at all if it is dropped before.
func TestHeadCall(t *testing.T) {
	p, calls := newParkable(), 0
	op := &driver.Op{Kind: driver.OpHostFunc, Fn: func() { calls++ }}
	if !p.ready(op, true) || p.ready(op, false) || p.ready(op, false) && calls == 0 {
		t.Error("dropped before it began, or over before it began")
	}
	<-p.unparked
	if !p.ready(op, true) || calls != 1 {
		t.Errorf("called %d times", calls)
	}
}

// TestTransitions proves that the list of transitions in the package comment has those that the engine allows, and no
// others.
func TestTransitions(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	testenv.OK(t, err)
	byName := map[string]State{}
	for s := range stateCount {
		byName[s.String()] = s
	}
	var got [stateCount]uint32
	for _, m := range regexp.MustCompile(`(?m)^//\t(\w+) → (\w+) +\S`).FindAllStringSubmatch(string(text), -1) {
		from, ok := byName[m[1]]
		to, there := byName[m[2]]
		if !ok || !there || got[from]&(1<<to) != 0 {
			t.Errorf("%q is no transition, or listed twice", m[0])
		}
		got[from] |= 1 << to
	}
	if got != transitions {
		t.Errorf("the comment has %b, the engine %b", got, transitions)
	}
}
