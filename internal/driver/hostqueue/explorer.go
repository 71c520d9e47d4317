//go:build explore

package hostqueue

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
)

// Explorer runs a program repeatedly, each time with its threads in another order, until no order is left that could
// make a difference.
//
// It is a depth-first search over the choices of the next thread, which runs the program again for each order: no
// state is stored. Orders that differ only in neighbouring steps of two threads on different objects have the same
// result; sleep sets (Godefroid) leave all but one of them out. Every access of the engine to shared data happens in
// a step, or between the step that takes a lock and the release of that lock.
type Explorer struct {
	path    []node // choices of the run, and the alternatives not tried yet
	threads []*thread
	objects map[any]int
	trail   []string // steps of the run, for a failure
	failed  string

	walk *rand.Rand // draws the next thread; nil: try every order

	Runs, Pruned, Steps, Deepest int // statistics
}

// endless is more steps than any run that ends.
const endless = 200_000

// node is a point of a run where a thread was chosen.
type node struct {
	chosen int
	able   []int // threads that can continue
	tried  []int // chosen before
	asleep []int // threads whose next step leads nowhere new
}

// candidate returns a thread that was not tried here and leads to new orders, or -1.
func (n *node) candidate() int {
	for _, id := range n.able {
		if !slices.Contains(n.asleep, id) && !slices.Contains(n.tried, id) {
			return id
		}
	}
	return -1
}

// Program starts the threads of one run and returns a function that checks the result at the end.
type Program func(x *Explorer) (end func() error)

// Start adds a thread. A server need not end.
func (x *Explorer) Start(name string, server bool, f func()) {
	t := &thread{id: len(x.threads), name: name, grant: make(chan struct{}), server: server}
	if x.walk != nil {
		t.pace = 1 << x.walk.IntN(7)
	}
	x.threads = append(x.threads, t)
	go func() {
		<-t.grant
		defer func() {
			if r := recover(); r != nil {
				x.failed = fmt.Sprintf("%s: panic: %v\n%s", t.name, r, debug.Stack())
			}
			t.over = true
			arrived <- t
		}()
		if !enough {
			f()
		}
	}()
}

// id numbers objects in the order in which a run accesses them.
func (x *Explorer) id(object any) int {
	if object == nil {
		return -1
	}
	if _, ok := x.objects[object]; !ok {
		x.objects[object] = len(x.objects)
	}
	return x.objects[object]
}

// dependent reports whether the order of the next steps of two threads matters.
func dependent(a, b *thread) bool { return a.object != nil && a.object == b.object }

func (t *thread) enabled() bool { return !t.over && (t.can == nil || t.can()) }

// Explore runs p in every order, at most the given number of times, and returns the error of the first run that fails.
func (x *Explorer) Explore(p Program, most int) error {
	for {
		if err := x.run(p); err != nil {
			return fmt.Errorf("run %d: %w\n%s", x.Runs, err, strings.Join(x.trail, "\n"))
		}
		if !x.next() {
			return nil
		}
		if x.Runs == most {
			return fmt.Errorf("more than %d runs", most)
		}
	}
}

// next changes the last choice that can be changed, and reports whether there was one.
func (x *Explorer) next() bool {
	for len(x.path) > 0 {
		n := &x.path[len(x.path)-1]
		n.tried = append(n.tried, n.chosen)
		if n.chosen = n.candidate(); n.chosen >= 0 {
			return true
		}
		x.path = x.path[:len(x.path)-1]
	}
	return false
}

// run makes one run: first the choices of the path, then always the first thread that can continue.
func (x *Explorer) run(p Program) error {
	x.threads, x.objects, x.trail, x.failed = nil, map[any]int{}, nil, ""
	arrived, spawned, enough, current = make(chan *thread), x.Start, false, nil
	end := p(x)
	x.Runs++
	var asleep []int
	for depth := 0; ; depth++ {
		x.Deepest = max(x.Deepest, depth)
		var able []int
		for _, t := range x.threads {
			if t.enabled() {
				able = append(able, t.id)
			}
		}
		if len(able) == 0 {
			break
		}
		if depth == endless {
			x.finish()
			return fmt.Errorf("it goes on for ever")
		}
		if x.walk != nil {
			x.take(x.drawn(able))
			if x.failed != "" {
				x.finish()
				return fmt.Errorf("%s", x.failed)
			}
			continue
		}
		if depth == len(x.path) {
			n := node{able: able, asleep: asleep}
			if n.chosen = n.candidate(); n.chosen < 0 { // every order from here has been seen
				x.Pruned++
				x.finish()
				return nil
			}
			x.path = append(x.path, n)
		}
		n := &x.path[depth]
		t := x.threads[n.chosen]
		asleep = nil
		for _, id := range append(slices.Clone(n.asleep), n.tried...) {
			if id != t.id && !dependent(x.threads[id], t) {
				asleep = append(asleep, id)
			}
		}
		x.take(t)
		if x.failed != "" {
			x.finish()
			return fmt.Errorf("%s", x.failed)
		}
	}
	for _, t := range x.threads {
		if !t.over && !t.server {
			x.finish()
			return fmt.Errorf("%s waits for ever", t.name)
		}
	}
	err := end()
	x.finish()
	return err
}

// drawn returns a random one of these threads. Some are drawn more often, so that others are late.
func (x *Explorer) drawn(able []int) *thread {
	n := 0
	for _, id := range able {
		n += x.threads[id].pace
	}
	n = x.walk.IntN(n)
	for _, id := range able {
		if n -= x.threads[id].pace; n < 0 {
			return x.threads[id]
		}
	}
	panic("unreachable")
}

// take lets a thread make its next step.
func (x *Explorer) take(t *thread) {
	x.trail = append(x.trail, fmt.Sprintf("  %s at %d (%T)", t.name, x.id(t.object), t.object))
	x.Steps++
	current = t
	t.grant <- struct{}{}
	<-arrived
	current = nil
}

// Walk runs p in random orders, the given number of times, and returns the error of the first run that fails.
func (x *Explorer) Walk(p Program, draw *rand.Rand, runs int) error {
	x.walk = draw
	for range runs {
		if err := x.run(p); err != nil {
			return fmt.Errorf("run %d: %w\n%s", x.Runs, err, strings.Join(x.trail, "\n"))
		}
	}
	return nil
}

// finish ends the remaining threads.
func (x *Explorer) finish() {
	enough = true
	for i := 0; i < len(x.threads); i++ {
		if t := x.threads[i]; !t.over {
			current = t
			t.grant <- struct{}{}
			for a := range arrived {
				if a == t && t.over {
					break
				}
			}
		}
	}
	current = nil
}
