//go:build explore

package hostqueue

import "ropeway/internal/driver"

// launch is what a back end does with a launch: it begins, and then looks whether it was dropped.
func (r *rig) launch(op *driver.Op) error {
	step(&r.drops, nil)
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

// preload puts n launches into the list of a queue that no goroutine has seen yet.
func (r *rig) preload(n int) {
	for range n {
		p := new(probe)
		r.ops = append(r.ops, p)
		r.list.Push(&driver.Op{Kind: driver.OpLaunch, Fn: func() { p.ran++ }, Done: p.ends})
	}
	r.submitted, r.ready = uint64(n), 1
	r.become(Ready)
}

// launches are programs in which a worker runs launches one after the other without the lock.
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
		return func() error { return r.end(0) }
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
			first, ended = uses && r.ran == 0, n // the first launch has not left
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
			step(&r.Mu, func() bool { return len(r.waiters) > 0 || waited })
			r.Push(&driver.Op{Kind: driver.OpLaunch, Fn: func() { step(&waited, func() bool { return waited }) }})
		})
		return func() error { r.allRan(); return r.end(0) }
	}},
}

// overCount counts launches that are over.
type overCount struct{ n int }

func (o *overCount) LaunchOver(*driver.Launch) { o.n++ }
