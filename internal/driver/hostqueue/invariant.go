package hostqueue

import (
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"ropeway/internal/driver"
)

// Checking makes a queue end the process if its state breaks an invariant. It is set in the tests of this module and,
// by ROPEWAY_TEST_STATES=1, in any other program; ROPEWAY_TEST_STATES=0 clears it. It does not change.
var Checking = checking()

func checking() bool {
	if v := os.Getenv("ROPEWAY_TEST_STATES"); v != "" {
		return v != "0"
	}
	if len(os.Args) == 0 || !strings.HasSuffix(os.Args[0], ".test") {
		return Exploring
	}
	built, ok := debug.ReadBuildInfo() // a program that uses ropeway has another main module
	return ok && strings.HasPrefix(reflect.TypeFor[Queue]().PkgPath(), built.Main.Path+"/") || Exploring
}

// A Checker is a Backend with invariants of its own.
type Checker interface {
	// Broken returns the invariant that does not hold in state s, or "". scheduling reports whether a call of Schedule
	// is under way. Mu is held.
	Broken(s State, scheduling bool) string
}

// Lock is the lock of a queue, which checks the state if Checking is set.
type Lock struct {
	Mutex
	q *Queue // immutable
}

// Unlock releases the lock. If Checking is set, it first checks the state of the queue.
func (l *Lock) Unlock() {
	if Checking {
		l.q.check() // lockcheck: this is Mu
	}
	l.Mutex.Unlock()
}

// check ends the process if q is in a state that other goroutines must not find. Mu is held.
func (q *Queue) check() {
	if leaving() {
		return
	}
	w := peek(&q.word)
	s := stateOf(w)
	what := q.broken(s, w&late != 0)
	if c, ok := q.back.(Checker); ok && what == "" {
		what = c.Broken(s, q.scheduling.Load() > 0)
	}
	if what != "" {
		Bug(fmt.Sprintf("a queue is %v, but %s (%d tasks, %d submitted, %d taken, %d completed, %d waiters)",
			s, what, q.list.Len(), q.submitted, q.taken, q.completed, len(q.waiters)))
	}
}

// broken returns the invariant that does not hold in state s, or "". Mu is held.
func (q *Queue) broken(s State, late bool) string {
	n := q.list.Len()
	switch {
	case q.completed > q.taken || q.taken > q.submitted:
		return "its counters are out of order"
	case s == Rest && n > 0, s == Inline && n > 0 && !late:
		return "no goroutine knows of its tasks"
	case s == Rest && q.Awaited() > q.completed:
		return "a goroutine waits for it"
	case q.awakens() && !(s == Inline && late):
		return "a goroutine waits for what is over"
	case (s == Running || s == Starting || s == Parked) && n == 0:
		return "the list is empty"
	case s == Parked && !q.head.waits(q.list.Head()):
		return "nothing unparks it"
	case s == Parked && q.Dropping() && !q.head.called:
		return "its head is to be discarded"
	}
	return ""
}

// Awaited returns the largest Target of the waiters; 0 if none waits. Mu is held.
func (q *Queue) Awaited() (target uint64) {
	for _, w := range q.waiters {
		target = max(target, w.Target)
	}
	return target
}

// awakens reports whether a goroutine waits for tasks that are over. Mu is held.
func (q *Queue) awakens() bool {
	return slices.ContainsFunc(q.waiters, func(w *Waiter) bool { return w.Target <= q.completed })
}

// waits reports whether Ready has arranged that something unparks the queue whose head is op.
func (h *Head) waits(op *driver.Op) bool {
	switch op.Kind {
	case driver.OpAwait:
		return h.sets != 0
	case driver.OpHostFunc:
		return h.called
	}
	return op.Kind == driver.OpWaitCond
}
