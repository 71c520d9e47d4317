package check

import (
	"strings"
	"testing"
	"time"

	"ropeway/internal/core"
	"ropeway/internal/core/signal"
	"ropeway/internal/finding"
)

// deadlockMistakes are waits that cannot end before they return.
var deadlockMistakes = []mistake{
	{rule: "deadlock", name: "a function that waits for its own stream", role: "called", other: "submitted",
		run: func(p *program) {
			s, own := p.stream(), p.thread(2)
			p.here("other")
			p.ok(p.LaunchHostFunc(s, func(core.Addr) {
				if !p.fixed {
					p.here("offence")
					own.SynchronizeStreamWithTimeout(s, 1) //nolint:errcheck // it ends
				}
			}, 0))
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "deadlock", name: "a function that waits for a stream that waits for its own", role: "called",
		other: "submitted",
		run: func(p *program) {
			s, o, own := p.stream(), p.stream(), p.thread(2)
			var e core.Handle
			p.ok(p.LaunchHostFunc(s, func(core.Addr) {
				if !p.fixed {
					p.here("offence")
					own.SynchronizeStreamWithTimeout(o, 1) //nolint:errcheck // it ends
				}
			}, 0))
			e = p.event(latest)
			p.ok(p.RecordEvent(e, s))
			p.here("other")
			p.ok(p.StreamWaitEvent(o, e))
			p.ok(p.SynchronizeStream(o))
		}},
}

// TestDeadlockOfTwo: streams that wait for each other, and a wait for a notify without a record, are reported after a
// time without calls of the program. Then another thread ends the wait.
func TestDeadlockOfTwo(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		p := begin(t, func(o *Options) { o.Patience = time.Millisecond })
		p.fixed = fixed
		s, o, n, other := p.stream(), p.stream(), p.notify(), p.thread(2)
		p.here("other")
		p.ok(signal.WaitAndResetNotify(p.Thread, n, s, 0))
		ended := make(chan *core.Error)
		if fixed {
			p.ok(signal.RecordNotify(p.Thread, n, o))
		}
		go func() { ended <- p.thread(3).SynchronizeStream(s) }()
		if !fixed {
			eventually(t, "a finding", func() bool { return len(p.findings()) > 0 })
			p.ok(signal.RecordNotify(other, n, o))
		}
		p.ok(<-ended)
		p.ok(p.SynchronizeStream(o))
		if fixed {
			p.silent()
			continue
		}
		f := p.only("deadlock")
		p.has(f, f.Others[0], "submitted", "other")
		if f.Severity != finding.Warning || !strings.Contains(f.Summary, "a signal that nothing queued sends") {
			t.Errorf("%s", show(f))
		}
	}
}

// TestNoDeadlock: a wait with a limit is not a mistake.
func TestNoDeadlock(t *testing.T) {
	p := begin(t, func(o *Options) { o.Patience = time.Millisecond })
	s, n := p.stream(), p.notify()
	p.ok(signal.WaitAndResetNotify(p.Thread, n, s, 0))
	if err := p.SynchronizeStreamWithTimeout(s, 2*quietTicks); err == nil {
		t.Error("the stream was not waited for")
	}
	p.ok(signal.RecordNotify(p.Thread, n, p.stream()))
	p.ok(p.SynchronizeStream(s))
	p.silent()
}
