package check

import (
	"ropeway/internal/check/shadow"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// A program is executed again and again, and little changes between two executions. So the checker keeps what it has
// learned about the steps of a program that always touch the same memory.
//
// A step that was submitted without a mistake is correct again while its allocations are live: only its pages have to
// be closed, all at once.
//
// A step is steady if it ran in the previous execution, on the same line, without a mistake and without a read of
// others beside its own, and only the program has touched its memory since that execution began. Then every access of
// others that it was ordered after, it still is. The shadow has one record of a step wherever the step was the last to
// touch the memory, so changing the record enters all accesses at once. The rest of the memory was touched by later
// steps of the execution before, which will touch it again. If something else touches it sooner, the accesses of the
// steady steps are entered one by one.

// replaying is false in tests that judge each execution anew.
var replaying = true

// replay is what the checker knows of a program. Checker.mu guards it.
type replay struct {
	runs   uint64       // executions submitted
	uneven uint64       // the last execution with a finding, or with a read that is not ordered with others
	steps  []*footprint // in the order of the program
	at     uint64       // the last execution with a steady step
	passed []*footprint // its steady steps so far
	turn   uint64       // number of times that passed was begun
	clock  *clock       // of the queue that runs it
}

// footprint is what the checker knows of a step that always touches the same memory.
type footprint struct {
	spans  []touched
	memory []*allocation // of spans; empty: the next submission is judged
	lo, hi uintptr       // all spans are in [lo, hi)
	pages  []pageRange   // host pages to close
	p      *past         // record in the shadow; nil: it has not run
	ran    uint64        // the execution of p
}

// pageRange is a range of pages that a step closes as far as want.
type pageRange struct {
	r      *pageRun
	lo, hi uintptr
	want   uint8
}

// play is the place of a task in an execution of a program. The zero value is for other tasks, and for those that may
// touch other memory each time.
type play struct {
	of   *replay
	run  uint64 // number of the execution
	step *footprint
}

// user is the program whose tasks alone have touched an allocation since an execution, on one line.
type user struct {
	of     *replay // nil: there is none
	line   uint32
	since  uint64
	judged uint64 // the last execution with a task there that was not steady
	turn   uint64 // value of replay.turn then
}

// submitProgram submits the steps of a program.
func (q *queue) submitProgram(op *driver.Op) {
	if op.N > 0 || !replaying { // the steps have other numbers
		hostqueue.EachStep(op, func(step driver.Op) { q.submit(&step, nil, 0) })
		return
	}
	r, n := q.s.replayOf(op.Program), 0
	hostqueue.EachStep(op, func(step driver.Op) {
		q.submit(&step, r, n)
		n++
	})
}

// replayOf returns what the checker knows of a program that is about to be executed.
func (s *schedule) replayOf(p *driver.Program) *replay {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := new(replay)
	if kept := p.Kept.Load(); kept != nil {
		r = kept.Of.(*replay)
	} else {
		p.Kept.Store(&driver.Kept{Of: r})
	}
	r.runs++
	return r
}

// playOf returns the place of operation n in the latest execution of r, which may be nil. Checker.mu is held.
func (r *replay) playOf(op *driver.Op, n int) play {
	if r == nil {
		return play{}
	}
	for len(r.steps) <= n {
		r.steps = append(r.steps, new(footprint))
	}
	switch op.Kind {
	case driver.OpBatch, driver.OpCopy, driver.OpCopy2D, driver.OpFill, driver.OpCompute:
		return play{r, r.runs, r.steps[n]}
	}
	return play{}
}

// isLive reports whether f is known and its allocations are live.
func (f *footprint) isLive() bool {
	for _, a := range f.memory {
		if a.freed || a.vanished {
			return false
		}
	}
	return len(f.memory) > 0
}

// learn sets f to the accesses of t, whose submission was judged. It leaves f empty if the memory may change while its
// allocation is live, or needs snapshots. Checker.mu is held.
func (f *footprint) learn(p *pages, t *task) {
	f.spans, f.memory, f.pages = nil, nil, nil
	var spans []touched
	var memory []*allocation
	known, wants, all := map[*allocation]bool{}, map[*pageRun][]uint8{}, true
	p.ledger.touches(&t.op, func(lo, hi uintptr, write bool) bool {
		a := p.ledger.find(lo)
		all = a != nil && !a.pooled && (a.what == core.DeviceMemory || a.what == core.PinnedMemory &&
			(p.guard == nil || wantPages(wants, p.runsOf(a), lo, hi, write)))
		if !all {
			return false
		}
		if !known[a] {
			memory, known[a] = append(memory, a), true
		}
		spans = append(spans, touched{lo, hi, write, a})
		return true
	})
	if !all {
		return
	}
	f.spans, f.memory, f.lo, f.hi = spans, memory, t.lo, t.hi
	for _, a := range memory {
		for _, r := range a.runs {
			f.pages = appendPages(f.pages, r, wants[r])
		}
	}
}

// wantPages enters the state that an access wants pages in, by page run. It returns false if they are not all in one of
// runs.
func wantPages(wants map[*pageRun][]uint8, runs []*pageRun, lo, hi uintptr, write bool) bool {
	for _, r := range runs {
		if lo < r.lo || r.hi < hi {
			continue
		}
		if wants[r] == nil {
			wants[r] = make([]uint8, len(r.state))
		}
		for i := r.page(lo); i <= r.page(hi-1); i++ {
			wants[r][i] = max(wants[r][i], wanted(write))
		}
		return true
	}
	return false
}

// appendPages appends the pages of a run that wants has a state for, those with one state together.
func appendPages(list []pageRange, r *pageRun, wants []uint8) []pageRange {
	for i := 0; i < len(wants); {
		j := i + 1
		for j < len(wants) && wants[j] == wants[i] {
			j++
		}
		if wants[i] != open {
			list = append(list, pageRange{r, r.lo + uintptr(i)*pageBytes, r.lo + uintptr(j)*pageBytes, wants[i]})
		}
		i = j
	}
	return list
}

// closePages closes the pages of a step that is known, which needs no other judgement at its submission; now is the
// number of the call. Checker.mu is held.
func (f *footprint) closePages(p *pages, t *task, now uint64) {
	t.lo, t.hi = f.lo, f.hi
	for _, a := range f.memory {
		p.verify(&t.from, a, now)
	}
	if p.guard == nil || !p.judged() {
		return
	}
	for _, x := range f.pages {
		if !p.close(t, x.r, x.lo, x.hi, x.want) { // there are too many runs
			for _, s := range f.spans {
				p.closeFor(t, s.memory, s.lo, s.hi, s.write)
			}
			f.memory = nil
			return
		}
	}
}

// isSteady reports whether the accesses of w, which is about to run, need no judgement. Checker.mu is held.
func (j *judge) isSteady(w *work) bool {
	f := w.step
	if f == nil || f.p == nil || f.p.Line != w.line.id || f.ran+1 != w.run || w.of.uneven+1 >= w.run ||
		j.shadow.Len() >= shadow.ManyCells || !f.isLive() { // with so many cells, some are joined
		return false
	}
	for _, a := range f.memory {
		if u := &a.user; u.of != w.of || u.line != w.line.id || u.since+1 >= w.run || u.judged == w.run {
			return false
		}
	}
	return true
}

// pass records that w was steady. Checker.mu is held.
func (w *work) pass() {
	r := w.of
	if r.at != w.run {
		r.at, r.passed, r.clock = w.run, r.passed[:0], &w.line.clock
		r.turn++
	}
	r.passed = append(r.passed, w.step)
	w.step.ran = w.run
}

// touchedBy records that the task that runs on a line is about to touch a and that its accesses are judged; nil stands
// for what is not a task. Checker.mu is held.
func (j *judge) touchedBy(a *allocation, on *line) {
	u := &a.user
	if r := u.of; r != nil && u.turn != r.turn && len(r.passed) < len(r.steps) {
		j.enterPassed(r, a)
	}
	if on == nil || on.play.of == nil {
		*u = user{}
		return
	}
	by := on.play
	if u.of != by.of || u.line != on.id {
		*u = user{of: by.of, line: on.id, since: by.run}
	}
	u.judged, u.turn = by.run, by.of.turn
}

// enterPassed enters the accesses of steady steps to a one by one, because the execution is not over. Checker.mu is
// held.
func (j *judge) enterPassed(r *replay, a *allocation) {
	none := func(*past, bool, uintptr, uintptr) {}
	for _, f := range r.passed {
		for _, s := range f.spans {
			switch {
			case s.memory != a:
			case s.write:
				j.shadow.Wrote(f.p, *r.clock, s.lo, s.hi, none)
			default:
				j.shadow.Read(f.p, *r.clock, s.lo, s.hi, none)
			}
		}
	}
}
