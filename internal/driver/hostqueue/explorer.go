//go:build explore

package hostqueue

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
)

// Explorer runs a program again and again, each time with its threads in another order, until there is none left that
// could make a difference.
//
// It is a depth-first search over the choices of the next thread, by running anew: no state is stored. Orders that
// differ only in neighbouring steps of two threads that touch different objects lead to the same; sleep sets
// (Godefroid) leave all but one of them out. Every access of the engine to shared data happens in a step, or between
// the step that takes a lock and the release of that lock.
type Explorer struct {
	path    []node // choices of the run, and what is left to try
	threads []*thread
	objects map[any]int
	trail   []string // what the run did, for a failure
	failed  string

	walk *rand.Rand // draws the next thread; nil: every order is tried

	Runs, Pruned, Steps, Deepest int // what was done
}

// endless is more steps than any run has that ends.
const endless = 20000

// node is a point of a run where a thread was chosen.
type node struct {
	chosen int
	able   []int // threads that can go on
	tried  []int // chosen before
	asleep []int // threads whose next step leads nowhere new
}

// candidate is a thread that was not tried here and leads to something new, or -1.
func (n *node) candidate() int {
	for _, id := range n.able {
		if !slices.Contains(n.asleep, id) && !slices.Contains(n.tried, id) {
			return id
		}
	}
	return -1
}

// Program makes what is to be explored: it starts threads, and returns what has to hold at the end.
type Program func(x *Explorer) (end func() error)

// Start adds a thread. A server need not end.
func (x *Explorer) Start(name string, server bool, f func()) {
	t := &thread{id: len(x.threads), name: name, grant: make(chan struct{}), server: server}
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

// id numbers objects in the order in which a run comes to them.
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

// Explore runs p in every order, at most so many times, and returns how the first that fails does.
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

// next changes the last choice that can be changed; false if there is none.
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

// run makes one run: along the path as far as it goes, and then the first thread that can go on.
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
			x.take(x.threads[able[x.walk.IntN(len(able))]])
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

// take lets a thread make its next step.
func (x *Explorer) take(t *thread) {
	x.trail = append(x.trail, fmt.Sprintf("  %s at %d (%T)", t.name, x.id(t.object), t.object))
	x.Steps++
	current = t
	t.grant <- struct{}{}
	<-arrived
	current = nil
}

// Walk runs p so many times, in orders that are drawn, and returns how the first that fails does.
func (x *Explorer) Walk(p Program, draw *rand.Rand, runs int) error {
	x.walk = draw
	for range runs {
		if err := x.run(p); err != nil {
			return fmt.Errorf("run %d: %w\n%s", x.Runs, err, strings.Join(x.trail, "\n"))
		}
	}
	return nil
}

// finish ends the threads that are left.
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
