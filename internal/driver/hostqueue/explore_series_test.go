//go:build explore

package hostqueue

import (
	"time"

	"ropeway/internal/driver"
)

// launch runs a launch as a back end does: it begins, and then checks whether it was dropped.
func (r *rig) launch(op *driver.Op) error {
	step(&r.drops, nil)
	r.launched++
	dropped := r.drops > 0
	if r.Dropped() {
		return driver.ErrAborted
	}
	r.wants(!dropped, "a launch runs that was dropped before it began")
	if op.Fn != nil {
		op.Fn()
	}
	return nil
}

// preload appends n launches to the list of a queue that no goroutine has seen yet.
func (r *rig) preload(n int) {
	for range n {
		p := new(probe)
		r.ops = append(r.ops, p)
		r.list.Push(&driver.Op{Kind: driver.OpLaunch, Fn: func() { p.ran++ }, Done: p.ends})
	}
	r.submitted, r.ready = uint64(n), 1
	r.become(Ready)
}

// waits lists programs in which a queue waits at its head.
var waits = []program{
	{"a condition, or time is up", func(x *Explorer) func() error {
		r, g := newRig(x, 1), new(gate)
		x.Start("submitter", false, func() {
			r.submit(driver.Op{Kind: driver.OpWaitCond, Gate: g, Timeout: time.Hour})
			r.submit(driver.Op{Kind: driver.OpFunc, Fn: func() { r.wants(g.open || r.failed == 1, "passed a gate") }})
		})
		x.Start("opener", false, g.opens)
		return func() error {
			r.wants(g.left == r.failed && r.ops[1].ran == 1, "left without a failure, or not run")
			return r.end(0)
		}
	}},
	{"a condition is dropped", func(x *Explorer) func() error {
		r, g := newRig(x, 1), new(gate)
		x.Start("submitter", false, func() { r.submit(driver.Op{Kind: driver.OpWaitCond, Gate: g}) })
		x.Start("dropper", false, func() {
			step(&r.Mu.Mutex, func() bool { return r.submitted > 0 })
			r.Drop()
		})
		return func() error { return r.end(0) }
	}},
	{"a flag is cleared before the queue looks", func(x *Explorer) func() error {
		r, f := newRig(x, 1), new(testFlag)
		x.Start("submitter", false, func() { r.submit(driver.Op{Kind: driver.OpAwait, Flag: f}) })
		x.Start("setter", false, func() {
			step(&f.mu, func() bool { return len(f.queues) > 0 })
			f.Set()
			f.Clear()
		})
		return func() error { return r.end(0) }
	}},
}

// launches lists programs in which a worker runs launches one after another without the lock.
var launches = []program{
	{"launches", func(x *Explorer) func() error {
		r := newRig(x, 1)
		r.preload(2)
		x.Start("waiter", false, func() { r.waitFor(Limit{}, r.ops...) })
		return func() error { r.allRan(); return r.end(0) }
	}},
	{"launches are pushed", func(x *Explorer) func() error {
		r := newRig(x, 1)
		l := [3]driver.Launch{}
		over := new(overCount)
		x.Start("submitter", false, func() {
			for i := range l {
				l[i].Over = over
				r.PushLaunch(&l[i], driver.Tag{Task: uint32(i + 1)})
			}
			r.waitFor(Limit{})
			r.wants(over.n == len(l), "Wait returned before the launches were over")
		})
		return func() error { return r.end(0) }
	}},
	{"launches are dropped", func(x *Explorer) func() error {
		r := newRig(x, 1)
		r.preload(2)
		x.Start("dropper", false, func() {
			r.Drop()
			step(&r.drops, nil)
			r.drops++
		})
		return func() error {
			r.wants(r.launched > 0, "the launch whose turn it was has not begun")
			return r.end(0)
		}
	}},
	{"pause between two launches", func(x *Explorer) func() error {
		r := newRig(x, 1)
		r.preload(2)
		x.Start("pauser", false, func() { pauseAndLook(r) })
		return func() error { r.allRan(); return r.end(0) }
	}},
	{"launches are watched", func(x *Explorer) func() error {
		r := newRig(x, 1)
		r.preload(2)
		var first bool
		var ended uint64
		x.Start("watcher", false, func() {
			n, uses := r.Watch()
			step(&r.inside, nil)
			first, ended = uses && r.ran == 0, n // the first launch has not ended
		})
		second := r.list.At(1)
		ran := second.Fn
		second.Fn = func() {
			ran()
			r.wants(!first || r.ended != ended, "the launch that was watched has not ended for Ended")
		}
		return func() error { r.allRan(); return r.end(0) }
	}},
	{"a launch that ends when the one before it was waited for", func(x *Explorer) func() error {
		r := newRig(x, 1)
		r.preload(1)
		waited := false
		x.Start("waiter", false, func() {
			r.waitFor(Limit{}, r.ops[0])
			step(&waited, nil)
			waited = true
		})
		x.Start("submitter", false, func() {
			step(&r.Mu.Mutex, func() bool { return len(r.waiters) > 0 || waited })
			r.Push(&driver.Op{Kind: driver.OpLaunch, Fn: func() { step(&waited, func() bool { return waited }) }})
		})
		return func() error { r.allRan(); return r.end(0) }
	}},
}

// overCount counts launches that are over.
type overCount struct{ n int }

func (o *overCount) LaunchOver(*driver.Launch) { o.n++ }
