package model

import (
	"cmp"
	"sync"
	"sync/atomic"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Times inside an execution, for a tracer that wants them (observe.PartTracer). Without one the cost is a nil check for
// each item of a lane.
//
// A compiled model has pieces: the steps of its programs, and each task between programs. Copies of one step run
// together, and share its time. The pieces of a model that is one program are its steps, which the driver reports. A
// model with lanes has the pieces of its items, in order; the queue of a lane runs its operations in order, so each
// report belongs to the oldest one that has not ended.

// mostParts is the most times reported for an execution in lanes: a loop may run for ever.
const mostParts = 4096

// pieces returns the number of pieces of the item.
func (it *item) pieces() int {
	if it.graph != nil {
		return len(it.graph.Program().Steps)
	}
	return 1
}

// part returns the pieces of an item of m.
func (it *item) part(m *Model) pieces {
	part := pieces{first: uint32(it.piece), count: uint32(it.pieces())}
	if m.parent != nil {
		part.model = m.id
	}
	return part
}

// pieces is a range of pieces of a model that run together.
type pieces struct {
	model        uint32 // id of a sub-model; 0: the executed model
	first, count uint32
}

// findPieces numbers the pieces of a plan that is being made, and finds the piece of each of n tasks.
func (p *plan) findPieces(n int) {
	p.pieces = make([]int32, n)
	for i := range p.pieces {
		p.pieces[i] = observe.None
	}
	if p.all != nil {
		p.all.Pieces(func(task, step int) { p.pieces[task] = int32(step) })
	}
	next := int32(0)
	for _, l := range p.lanes {
		for i := range l.items {
			it := &l.items[i]
			if it.piece = next; it.graph == nil {
				p.pieces[it.tasks[0]] = next
			} else {
				it.graph.Pieces(func(task, step int) { p.pieces[it.tasks[task]] = next + int32(step) })
			}
			next += int32(it.pieces())
		}
	}
}

// times reports the times of one execution.
type times struct {
	to     observe.PartTracer // immutable
	now    func() int64       // immutable
	stream int32              // immutable; stream of the execution
	number uint32             // immutable
	count  atomic.Int32       // reported so far
}

// timesOf returns the times of an execution; nil if no tracer wants them.
func timesOf(rt *core.Runtime, s *core.Stream, tag driver.Tag) *times {
	if to := rt.PartTracer(); to != nil {
		return &times{to: to, now: rt.Tracer().Now, stream: s.ID, number: tag.Task}
	}
	return nil
}

// report reports when pieces ran.
func (t *times) report(p pieces, began, ended int64) {
	if p.count == 0 || t.count.Add(1) > mostParts {
		return
	}
	t.to.Part(observe.Part{Stream: t.stream, Number: t.number, Model: p.model, First: p.first, Count: p.count,
		Began: began, Ended: ended})
}

// now returns the time, or 0 if no tracer wants it.
func (r *run) now() int64 {
	if r.times == nil {
		return 0
	}
	return r.times.now()
}

// report reports a piece that the execution itself has carried out.
func (r *run) report(p pieces, began int64) {
	if r.times != nil {
		r.times.report(p, began, r.times.now())
	}
}

// pending is the list of operations in the queue of a lane that have not ended, oldest first.
type pending struct {
	mu   sync.Mutex
	list []pendingOp // guarded by mu
}

type pendingOp struct {
	times   *times
	part    pieces
	at      int64 // time of submission
	began   int64 // time of its begin; 0: not known
	stepped bool  // the times of its steps were reported
}

// submit submits an operation that has pieces to the queue of a lane.
func (p *pass) submit(l *lane, op driver.Op, o *core.Order, part pieces) {
	if t := p.run.times; t != nil {
		l.pending.mu.Lock()
		l.pending.list = append(l.pending.list, pendingOp{times: t, part: part, at: t.now()})
		l.pending.mu.Unlock()
	}
	l.own.Submit(op, o)
}

// oldest returns the operation that the queue is running; nil if there is none. mu is held.
func (g *pending) oldest() *pendingOp {
	if len(g.list) == 0 {
		return nil
	}
	return &g.list[0]
}

// Ran implements core.HiddenOwner.
func (l *lane) Ran(tag driver.Tag, began, ended int64, err error) {
	l.pending.mu.Lock()
	defer l.pending.mu.Unlock()
	op := l.pending.oldest()
	if op == nil {
		return
	}
	if op.began == 0 {
		op.began = cmp.Or(began, op.at)
	}
	if tag.More { // the queue has split it into several
		return
	}
	if !op.stepped && err != driver.ErrAborted {
		op.times.report(op.part, op.began, ended)
	}
	if l.pending.list = l.pending.list[1:]; len(l.pending.list) == 0 {
		l.pending.list = nil
	}
}

// RanSteps implements core.HiddenOwner.
func (l *lane) RanSteps(tag driver.Tag, first, count int, began, ended int64) {
	l.pending.mu.Lock()
	defer l.pending.mu.Unlock()
	if op := l.pending.oldest(); op != nil {
		op.stepped = true
		part := pieces{op.part.model, op.part.first + uint32(first), uint32(count)}
		op.times.report(part, began, ended)
	}
}

// Execution implements core.HiddenOwner.
func (l *lane) Execution() (at observe.At) {
	l.pending.mu.Lock()
	defer l.pending.mu.Unlock()
	if op := l.pending.oldest(); op != nil {
		at = observe.At{Stream: op.times.stream, Number: op.times.number}
	}
	return at
}
