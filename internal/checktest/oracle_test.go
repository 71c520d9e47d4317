package checktest

import (
	"fmt"
	"math/bits"
)

// The oracle knows what a program orders, from the rules of the API (spec/semantics.md, sections 6, 7, 12, 18) and from
// nothing that happened. A step is up to three points: the call on the host, the task on its stream, the function that
// a thread of the program runs. Edges between them say "before"; what is ordered is their transitive closure. The host
// is one line of calls, whichever thread makes them: threads hand over to each other.

// point is one of 3*len(steps): calls, tasks, functions.
type point = int

// set is a set of points.
type set []uint64

func (s set) has(p point) bool { return s[p/64]>>(p%64)&1 != 0 }
func (s set) add(p point)      { s[p/64] |= 1 << (p % 64) }
func (s set) join(o set) {
	for i := range s {
		s[i] |= o[i]
	}
}
func (s set) meet(o set) {
	for i := range s {
		s[i] &= o[i]
	}
}
func (s set) size() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// access is a use of bytes at a point.
type access struct {
	use
	step int
	at   point
}

// pair is two accesses of which nothing says which comes first.
type pair [2]access

// byTasks reports whether a task is part of it: a race between functions and the program is its own affair.
func (x pair) byTasks() bool { return x[0].by == byTask || x[1].by == byTask }

// oracle is what is known of a program.
type oracle struct {
	p      *program
	n      int
	direct [][]point // points right before a point
	given  []set     // what waits for states are after; nil if they are not, or not yet
	before []set     // everything before a point
	waits  []int     // waits for states
}

// judge is the oracle's word: the accesses that nothing orders. The error says why the program means nothing: a wait
// that may never end, or whose meaning depends on timing.
func judge(p *program) ([]pair, error) {
	o := &oracle{p: p, n: len(p.steps)}
	if err := o.connect(); err != nil {
		return nil, err
	}
	if err := o.close(); err != nil {
		return nil, err
	}
	return o.conflicts(), nil
}

func (o *oracle) call(i int) point     { return i }
func (o *oracle) task(i int) point     { return o.n + i }
func (o *oracle) function(i int) point { return 2*o.n + i }

func (o *oracle) edge(from, to point) { o.direct[to] = append(o.direct[to], from) }

// recorded is the latest record of an event, as of some step of the host.
type recorded struct {
	step  int
	some  bool
	reset bool // a reset was queued since
}

// connect makes the edges that follow from the order of the calls.
func (o *oracle) connect() error {
	o.direct = make([][]point, 3*o.n)
	o.given = make([]set, 3*o.n)
	last := map[int]int{}   // latest task of a stream
	posted := map[int]int{} // latest callback of a stream that ran beside it
	records := map[int]recorded{}
	known := func(i, stream int) { // the host learns that a stream is done
		if t, ok := last[stream]; ok {
			o.edge(o.task(t), o.call(i))
		}
	}
	for i := range o.p.steps {
		s := &o.p.steps[i]
		if i > 0 {
			o.edge(o.call(i-1), o.call(i))
		}
		r := records[s.event]
		switch s.op {
		case syncStream, queryStream, destroyStream:
			known(i, s.stream)
		case syncDevice:
			for k, plan := range o.p.streams {
				if plan.dev == s.dev {
					known(i, k)
				}
			}
		case syncEvent, queryEvent:
			switch {
			case r.some && !r.reset:
				o.edge(o.task(r.step), o.call(i))
			case o.p.events[s.event].kind != exEvent:
				return fmt.Errorf("step %d: the host waits for an event without a record", i)
			}
		case await:
			o.edge(o.function(s.target), o.call(i))
		}
		if !o.p.queued(s) {
			continue
		}
		t := o.task(i)
		o.edge(o.call(i), t)
		if before, ok := last[s.stream]; ok {
			o.edge(o.task(before), t)
		}
		last[s.stream] = i
		switch s.op {
		case record:
			records[s.event] = recorded{step: i, some: true}
		case reset:
			r.reset = true
			records[s.event] = r
		case wait:
			switch kind := o.p.events[s.event].kind; {
			case kind.signal():
				list := o.changes(s.event, record)
				if len(list) == 0 {
					return fmt.Errorf("step %d: the wait never ends", i)
				}
				o.edge(o.task(list[0]), t)
			case kind == stateEvent:
				o.waits = append(o.waits, i)
			case r.some && !r.reset:
				o.edge(o.task(r.step), t)
			case kind == timedEvent:
				return fmt.Errorf("step %d: a wait for an event without a record is refused", i)
			}
		case post:
			o.edge(t, o.function(i))
			if before, ok := posted[s.stream]; ok {
				o.edge(o.function(before), o.function(i))
			}
			posted[s.stream] = i
		}
	}
	return nil
}

// close makes the closure. A wait for a state is after every record that can let it go, and what is before one record
// is before the wait only if it is before all of those. Knowing more rules records out, so it goes round until nothing
// is new.
func (o *oracle) close() error {
	for {
		if err := o.sweep(); err != nil {
			return err
		}
		more := false
		for _, w := range o.waits {
			after := o.letGo(w)
			if after == nil {
				return fmt.Errorf("step %d: the wait never ends", w)
			}
			if old := o.given[o.task(w)]; old == nil || old.size() != after.size() {
				o.given[o.task(w)], more = after, true
			}
		}
		if !more {
			break
		}
	}
	for _, w := range o.waits {
		if !o.certain(w) {
			return fmt.Errorf("step %d: the wait may never end", w)
		}
	}
	return nil
}

// sweep computes what is before each point.
func (o *oracle) sweep() error {
	o.before = make([]set, 3*o.n)
	busy := make([]bool, 3*o.n)
	var visit func(p point) error
	visit = func(p point) error {
		if o.before[p] != nil {
			return nil
		}
		if busy[p] {
			return fmt.Errorf("step %d waits for itself", p%o.n)
		}
		busy[p] = true
		b := make(set, (3*o.n+63)/64)
		for _, q := range o.direct[p] {
			if err := visit(q); err != nil {
				return err
			}
			b.join(o.before[q])
			b.add(q)
		}
		if o.given[p] != nil {
			b.join(o.given[p])
		}
		o.before[p] = b
		return nil
	}
	for p := range o.before {
		if err := visit(p); err != nil {
			return err
		}
	}
	return nil
}

// ordered reports whether a is before b.
func (o *oracle) ordered(a, b point) bool { return o.before[b].has(a) }

// changes are the steps that record or reset an event.
func (o *oracle) changes(event int, what op) (list []int) {
	for i := range o.p.steps {
		if s := &o.p.steps[i]; s.op == what && s.event == event {
			list = append(list, i)
		}
	}
	return list
}

// letGo is what is before every record that can let a wait go; nil if there is no such record.
func (o *oracle) letGo(w int) (common set) {
	event, at := o.p.steps[w].event, o.task(w)
	resets := o.changes(event, reset)
next:
	for _, r := range o.changes(event, record) {
		from := o.task(r)
		if o.ordered(at, from) {
			continue
		}
		for _, x := range resets {
			if o.ordered(from, o.task(x)) && o.ordered(o.task(x), at) {
				continue next // it was taken back before the wait
			}
		}
		b := append(set(nil), o.before[from]...)
		b.add(from)
		if common == nil {
			common = b
		} else {
			common.meet(b)
		}
	}
	return common
}

// certain reports whether some record lets the wait go whatever the order of what is unordered.
func (o *oracle) certain(w int) bool {
	event, at := o.p.steps[w].event, o.task(w)
	resets := o.changes(event, reset)
next:
	for _, r := range o.changes(event, record) {
		if o.ordered(at, o.task(r)) {
			continue
		}
		for _, x := range resets {
			if !o.ordered(o.task(x), o.task(r)) && !o.ordered(at, o.task(x)) {
				continue next
			}
		}
		return true
	}
	return false
}

// accesses are all uses, with the points they are made at.
func (o *oracle) accesses() (list []access) {
	for i := range o.p.steps {
		s := &o.p.steps[i]
		for _, u := range o.p.uses(s) {
			at := o.call(i)
			switch {
			case u.by == byFunction && s.op == post:
				at = o.function(i)
			case u.by == byTask || u.by == byFunction:
				at = o.task(i)
			}
			list = append(list, access{u, i, at})
		}
	}
	return list
}

// conflicts are the pairs of overlapping accesses, at least one a write, that are not ordered. At least one is by a
// task or by a function that a stream runs: the host itself is one line.
func (o *oracle) conflicts() (pairs []pair) {
	byBuffer := map[int][]access{}
	for _, a := range o.accesses() {
		for _, b := range byBuffer[a.buf] {
			if a.lo < b.hi && b.lo < a.hi && (a.write || b.write) && a.at != b.at &&
				!o.ordered(a.at, b.at) && !o.ordered(b.at, a.at) {
				pairs = append(pairs, pair{b, a})
			}
		}
		byBuffer[a.buf] = append(byBuffer[a.buf], a)
	}
	return append(pairs, o.destroyed()...)
}

// destroyed are streams that are destroyed while they may have work that touches memory.
func (o *oracle) destroyed() (pairs []pair) {
	for i := range o.p.steps {
		s := &o.p.steps[i]
		if s.op != destroyStream || i == 0 || o.p.streams[s.stream].isDefault {
			continue
		}
		for k := range i {
			t := &o.p.steps[k]
			if o.p.queued(t) && t.stream == s.stream && t.op != post && len(o.p.uses(t)) > 0 &&
				!o.ordered(o.task(k), o.call(i-1)) {
				pairs = append(pairs, pair{{use{buf: -1, by: byTask}, k, o.task(k)},
					{use{buf: -1, by: byFree}, i, o.call(i)}})
			}
		}
	}
	return pairs
}

// pairLine is a pair for people.
func (p *program) pairLine(x pair) string {
	name := func(a access) string { return fmt.Sprintf("%d (%s)", a.step, p.line(a.step)) }
	if x[0].buf < 0 {
		return name(x[0]) + " and " + name(x[1])
	}
	return fmt.Sprintf("%s and %s, in b%d[%d,%d)", name(x[0]), name(x[1]), x[0].buf, max(x[0].lo, x[1].lo),
		min(x[0].hi, x[1].hi))
}
