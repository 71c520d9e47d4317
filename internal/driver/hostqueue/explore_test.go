//go:build explore

package hostqueue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"ropeway/internal/driver"
)

// rig is a queue with a small back end: workers that take the queue from a list, as in the pool of the software device.
type rig struct {
	Queue
	x        *Explorer
	ready    int // times it is in the list
	inside   int // goroutines in Exec
	ran      int // times a goroutine has left Exec
	ops      []*probe
	wrong    []string
	failed   int // tasks that were reported as failed
	drops    int // calls of Drop that have returned
	launched int // launches that have begun, dropped or not
}

// probe is an operation that was submitted.
type probe struct {
	ran, done int
}

func (p *probe) ends() {
	step(p, nil)
	p.done++
}

// over reports whether the operation has ended. The order of the call and the end is explored, too.
func (p *probe) over() bool {
	step(p, nil)
	return p.done == 1
}

func (r *rig) TaskFailed(driver.Tag, error) { r.failed++ }

func newRig(x *Explorer, workers int) *rig {
	r := &rig{x: x}
	r.Init(r, driver.QueueOptions{Events: driver.Events{Failed: r.TaskFailed}})
	for i := range workers {
		x.Start(fmt.Sprintf("worker %d", i), true, func() {
			for {
				step(&r.ready, func() bool { return r.ready > 0 })
				r.ready--
				r.Run(Forever, 2)
			}
		})
	}
	return r
}

func (r *rig) Schedule() {
	step(&r.ready, nil)
	r.ready++
}

func (r *rig) Cancel() {}

// Exec takes two steps, so that other threads can run in between.
func (r *rig) Exec(op *driver.Op) error {
	r.use(1)
	err := Do(op)
	if op.Kind == driver.OpLaunch {
		err = r.launch(op)
	}
	r.use(-1)
	return err
}

func (r *rig) use(n int) {
	step(&r.inside, nil)
	if n < 0 {
		r.ran++
	}
	if r.inside += n; r.inside < 0 || r.inside > 1 {
		r.wrong = append(r.wrong, fmt.Sprintf("%d tasks run at a time", r.inside))
	}
}

// wants records a failure unless so is true.
func (r *rig) wants(so bool, what string) {
	if !so {
		r.wrong = append(r.wrong, what)
	}
}

// submit submits as the software device does: a short operation runs at once if the queue is at rest.
func (r *rig) submit(op driver.Op) *probe {
	p := new(probe)
	r.ops = append(r.ops, p)
	fn := op.Fn
	if op.Kind == driver.OpFunc || op.Kind == driver.OpHostFunc {
		op.Fn = func() {
			step(p, nil)
			p.ran++
			if fn != nil {
				fn()
			}
		}
	}
	op.Done = p.ends
	if op.Kind == driver.OpFunc || op.Kind == driver.OpSet || op.Kind == driver.OpWaitCond {
		if r.now(&op) {
			return p
		}
	}
	r.Push(&op)
	return p
}

func (r *rig) now(op *driver.Op) bool {
	if !r.TryInline() {
		return false
	}
	ready := op.Kind != driver.OpWaitCond || op.Gate.Pass(r.Unpark)
	if ready {
		r.Finish(op, 0, r.Exec(op))
	}
	r.EndInline()
	return ready
}

func (r *rig) post() *probe { return r.submit(driver.Op{Kind: driver.OpFunc}) }

// wait is Queue.Wait of the software device, without polling.
func (r *rig) wait(l Limit) bool {
	if r.Idle() {
		return true
	}
	w := r.Enlist()
	if w == nil {
		return true
	}
	if l.None() {
		r.Run(w.Target, 1<<30)
	}
	return r.Sleep(w, l)
}

// waitFor waits, and wants the probes to be over if the wait succeeded.
func (r *rig) waitFor(l Limit, ps ...*probe) {
	if !r.wait(l) {
		r.wants(!l.None(), "a wait without a limit gave up")
		return
	}
	for _, p := range ps {
		r.wants(p.over(), "Wait returned before a task was over")
	}
}

// end checks the final state: the queue is at rest, and every task has ended once.
func (r *rig) end(bits uint32) error {
	s := r.Snapshot()
	n := s.Submitted
	if s != (Snapshot{Shut: bits&shut != 0, Submitted: n, Taken: n, Completed: n}) {
		r.wrong = append(r.wrong, fmt.Sprintf("not at rest: %+v", s))
	}
	for i, p := range r.ops {
		if p.done != 1 || p.ran > 1 {
			r.wrong = append(r.wrong, fmt.Sprintf("task %d has ended %d times and run %d times", i, p.done, p.ran))
		}
	}
	if r.wrong != nil {
		return errors.New(fmt.Sprint(r.wrong))
	}
	return nil
}

// allRan wants every task to have run.
func (r *rig) allRan() {
	for i, p := range r.ops {
		r.wants(p.ran == 1, fmt.Sprintf("task %d has not run", i))
	}
}

// limited is a limit that may be reached at any time.
var limited = LimitOf(time.Hour, nil)

// gate is opened by the test.
type gate struct {
	mu   Mutex
	open bool
	wake func()
	left int
}

func (g *gate) Pass(wake func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wake = wake
	return g.open
}

func (g *gate) Leave() { g.left++ }

func (g *gate) opens() {
	g.mu.Lock()
	g.open = true
	wake := g.wake
	g.mu.Unlock()
	if wake != nil {
		wake()
	}
}

type program struct {
	name string
	p    Program
}

// programs lists the explored programs, by name.
var programs = []program{
	{"two submitters", func(x *Explorer) func() error {
		r := newRig(x, 1)
		for range 2 {
			x.Start("submitter", false, func() { r.post() })
		}
		return func() error { r.allRan(); return r.end(0) }
	}},
	{"two submitters of two, in order", func(x *Explorer) func() error {
		r := newRig(x, 1)
		x.Start("submitter", false, func() {
			p := r.post()
			r.submit(driver.Op{Kind: driver.OpFunc, Fn: func() {
				r.wants(p.over(),
					"the second task ran before the first")
			}})
		})
		x.Start("submitter", false, func() { r.post() })
		return func() error { r.allRan(); return r.end(0) }
	}},
	{"submit and wait", func(x *Explorer) func() error {
		r := newRig(x, 1)
		x.Start("waiter", false, func() { r.waitFor(Limit{}, r.post()) })
		x.Start("submitter", false, func() { r.post() })
		return func() error { r.allRan(); return r.end(0) }
	}},
	{"two waiters, one gives up", func(x *Explorer) func() error {
		r := newRig(x, 1)
		x.Start("waiter", false, func() {
			r.waitFor(Limit{}, r.submit(driver.Op{Kind: driver.OpFail, Err: driver.ErrLost}))
			r.wants(r.Idle(), "not idle after Wait")
		})
		x.Start("impatient", false, func() { r.waitFor(limited) })
		return func() error { r.wants(r.failed == 1, "not failed"); return r.end(0) }
	}},
	{"two workers", func(x *Explorer) func() error {
		r := newRig(x, 2)
		x.Start("submitter", false, func() {
			r.Push(&driver.Op{Kind: driver.OpFunc, Fn: func() {}})
			r.Push(&driver.Op{Kind: driver.OpFunc, Fn: func() {}})
		})
		return func() error { return r.end(0) }
	}},
	{"more than a turn", func(x *Explorer) func() error {
		r := newRig(x, 1)
		x.Start("submitter", false, func() {
			for range 3 {
				p := new(probe)
				r.ops = append(r.ops, p)
				r.Push(&driver.Op{Kind: driver.OpFunc, Fn: func() { p.ran++ }, Done: p.ends})
			}
			r.waitFor(limited)
		})
		return func() error { r.allRan(); return r.end(0) }
	}},
	{"a full list", func(x *Explorer) func() error {
		r := newRig(x, 1)
		for range 2 {
			x.Start("submitter", false, func() {
				for range 2 {
					r.Push(&driver.Op{Kind: driver.OpFunc, Fn: func() {}})
				}
			})
		}
		return func() error { return r.end(0) }
	}},
	{"drop", func(x *Explorer) func() error {
		r := newRig(x, 1)
		x.Start("submitter", false, func() {
			r.post()
			r.waitFor(Limit{}, r.post())
		})
		x.Start("dropper", false, r.Drop)
		return func() error { return r.end(0) }
	}},
	{"drop a wait", func(x *Explorer) func() error {
		r, f := newRig(x, 1), new(testFlag)
		var p *probe
		x.Start("submitter", false, func() {
			p = r.submit(driver.Op{Kind: driver.OpAwait, Flag: f})
			r.Drop()
			r.waitFor(Limit{}, p, r.post())
		})
		return func() error {
			if queues, _ := f.Waiting(); queues != 0 {
				return errors.New("the flag still knows the queue")
			}
			r.wants(r.ops[1].ran == 1, "what came after Drop was dropped")
			return r.end(0)
		}
	}},
	{"a flag is set", func(x *Explorer) func() error {
		r, f := newRig(x, 1), new(testFlag)
		x.Start("submitter", false, func() {
			p := r.submit(driver.Op{Kind: driver.OpAwait, Flag: f})
			r.submit(driver.Op{Kind: driver.OpFunc, Fn: func() {
				r.wants(f.IsSet() && p.over(),
					"passed a flag that is not set")
			}})
		})
		x.Start("setter", false, f.Set)
		return func() error { r.wants(r.ops[1].ran == 1, "not run"); return r.end(0) }
	}},
	{"a flag is set while a goroutine waits", func(x *Explorer) func() error {
		r, f := newRig(x, 1), new(testFlag)
		x.Start("submitter", false, func() { r.waitFor(Limit{}, r.submit(driver.Op{Kind: driver.OpAwait, Flag: f})) })
		x.Start("setter", false, f.Set)
		return func() error { return r.end(0) }
	}},
	{"a flag is set, or time is up", func(x *Explorer) func() error {
		r, f := newRig(x, 1), new(testFlag)
		x.Start("submitter", false, func() {
			r.submit(driver.Op{Kind: driver.OpAwait, Flag: f, Timeout: time.Hour})
		})
		x.Start("setter", false, f.Set)
		return func() error { r.wants(r.failed <= 1, "failed more than once"); return r.end(0) }
	}},
	{"a condition", func(x *Explorer) func() error {
		r, g := newRig(x, 1), new(gate)
		x.Start("submitter", false, func() {
			r.submit(driver.Op{Kind: driver.OpWaitCond, Gate: g})
			r.submit(driver.Op{Kind: driver.OpFunc, Fn: func() { r.wants(g.open, "passed a gate that is not open") }})
		})
		x.Start("opener", false, g.opens)
		return func() error {
			r.wants(g.left == 0 && r.ops[1].ran == 1, "left, or not run")
			return r.end(0)
		}
	}},
	{"a host function", func(x *Explorer) func() error {
		r := newRig(x, 1)
		x.Start("submitter", false, func() {
			p := r.submit(driver.Op{Kind: driver.OpHostFunc})
			r.submit(driver.Op{Kind: driver.OpFunc, Fn: func() {
				r.wants(p.over() && p.ran == 1,
					"ran before the function had returned")
			}})
			r.waitFor(limited)
		})
		return func() error { r.allRan(); return r.end(0) }
	}},
	{"a host function is dropped", func(x *Explorer) func() error {
		r := newRig(x, 1)
		x.Start("submitter", false, func() { r.submit(driver.Op{Kind: driver.OpHostFunc}) })
		x.Start("dropper", false, r.Drop)
		return func() error { return r.end(0) }
	}},
	{"shut and open", func(x *Explorer) func() error {
		r := newRig(x, 1)
		x.Start("submitter", false, func() { r.post() })
		x.Start("aborter", false, func() {
			r.Shut()
			r.waitFor(Limit{})
			r.Open()
			r.waitFor(Limit{}, r.post())
		})
		return func() error {
			return r.end(0)
		}
	}},
	{"close", func(x *Explorer) func() error {
		r := newRig(x, 1)
		x.Start("submitter", false, func() { r.post() })
		x.Start("closer", false, func() {
			r.End()
			r.waitFor(Limit{})
			step(&r.inside, nil)
			r.wants(r.inside == 0, "something runs after Close")
			r.Open()
			r.wants(r.post().ran == 0, "something ran after Close")
		})
		return func() error { return r.end(shut) }
	}},
	{"close at a flag", func(x *Explorer) func() error {
		r, f := newRig(x, 1), new(testFlag)
		x.Start("submitter", false, func() { r.submit(driver.Op{Kind: driver.OpAwait, Flag: f}) })
		x.Start("closer", false, func() {
			r.End()
			r.waitFor(Limit{})
			step(&r.inside, nil)
			r.wants(r.inside == 0, "something runs after Close")
		})
		return func() error { return r.end(shut) }
	}},
	{"pause", func(x *Explorer) func() error {
		r := newRig(x, 1)
		x.Start("submitter", false, func() { r.waitFor(Limit{}, r.post()) })
		x.Start("pauser", false, func() { pauseAndLook(r) })
		return func() error { r.allRan(); return r.end(0) }
	}},
	{"pause between two tasks", func(x *Explorer) func() error {
		r := newRig(x, 1)
		r.list.Push(&driver.Op{Kind: driver.OpFunc, Fn: func() {}})
		r.list.Push(&driver.Op{Kind: driver.OpFunc, Fn: func() {}})
		r.submitted, r.ready = 2, 1
		r.become(Ready)
		x.Start("pauser", false, func() { pauseAndLook(r) })
		return func() error { return r.end(0) }
	}},
	{"pause at a flag", func(x *Explorer) func() error {
		r, f := newRig(x, 1), new(testFlag)
		x.Start("submitter", false, func() { r.submit(driver.Op{Kind: driver.OpAwait, Flag: f}) })
		x.Start("setter", false, f.Set)
		x.Start("pauser", false, func() { pauseAndLook(r) })
		return func() error { return r.end(0) }
	}},
	{"watch", func(x *Explorer) func() error {
		r := newRig(x, 1)
		var ended uint64
		var uses bool
		x.Start("submitter", false, func() { r.post(); r.post() })
		x.Start("watcher", false, func() {
			step(&r.inside, nil)
			ran, before := r.ran, r.inside
			ended, uses = r.Watch()
			step(&r.inside, nil)
			r.wants(uses || before == 0 || r.ran > ran, "a task runs that Watch did not see")
		})
		return func() error {
			r.wants(!uses || r.Ended() != ended, "a task that was watched has not ended")
			r.allRan()
			return r.end(0)
		}
	}},
}

func init() { programs = append(append(programs, launches...), waits...) }

// pauseAndLook pauses the queue, and wants nothing to run between the end of the running task and Resume.
func pauseAndLook(r *rig) {
	r.Pause()
	step(&r.inside, nil)
	begun := r.ran + r.inside + 1 // one may be about to begin
	step(&r.word, func() bool { s := stateOf(r.word.v); return s != Running && s != Inline })
	for range 2 {
		step(&r.inside, nil)
		r.wants(r.inside == 0 && r.ran <= begun, "something runs while the queue is paused")
	}
	r.Resume()
}

// testFlag is a minimal flag.
type testFlag struct{ Flag }

func (f *testFlag) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	return f.Await(LimitOf(timeout, cancel))
}

// TestExplore proves that the engine is correct in every order of the steps of a few goroutines: tasks run in order,
// one at a time, and end once; waits return when they should; no goroutine waits for ever.
func TestExplore(t *testing.T) {
	const most = 100_000
	for _, tt := range programs {
		t.Run(tt.name, func(t *testing.T) {
			x := new(Explorer)
			began := time.Now()
			if err := x.Explore(tt.p, most); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d runs (%d of them cut short), %d steps, up to %d in a run, %v", x.Runs, x.Pruned, x.Steps,
				x.Deepest, time.Since(began))
		})
	}
}
