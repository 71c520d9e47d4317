package model

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Executions of a model that keeps its streams. Each lane is a list of items (plan.go); a goroutine passes them to
// the queue of the lane one after another. If the next item depends on a value in memory, the goroutine first waits for
// the earlier ones, reads the value, and continues where that directs it: the items are compiled, and their order is
// decided here.

// pass is one run of a model or a sub-model.
//
// A started lane runs in a goroutine. A lane that is started while it runs starts again when it has stopped.
type pass struct {
	run   *run
	plan  *plan
	after *branch // the condition task that runs it, or nil

	wg    sync.WaitGroup
	mu    sync.Mutex
	busy  []bool                      // guarded by mu; running lanes
	next  [][]entry                   // guarded by mu; by lane: where to start again
	flags map[*innerEvent]driver.Flag // guarded by mu; of records that a lane has reached
	ended atomic.Bool                 // the mark was reached
}

// entry is where a lane starts.
type entry struct {
	item int
	by   *core.Order // order from the task that starts it, for a checker; nil: it starts with the model
}

// pass runs a model with lanes once.
func (r *run) pass(of *plan, after *branch) {
	m := of.model
	n := len(of.lanes)
	p := &pass{run: r, plan: of, after: after, busy: make([]bool, n),
		next: make([][]entry, n), flags: map[*innerEvent]driver.Flag{}}
	for _, l := range of.streams[:n] {
		if !l.waits {
			p.start(l, entry{})
		}
	}
	p.wg.Wait()
	if !p.ended.Load() && m.built && needsMark(m.rt) {
		r.Stop(modelFailure{errNoEnd})
	}
}

// errNoEnd is the error of an execution whose streams have all stopped before its end.
var errNoEnd = errors.New("all streams of the model have stopped, and none has reached its end (aclmdlRIEndTask)")

// errElsewhere is the error of an execution that started something outside of the model.
var errElsewhere = errors.New("a stream or a label that is to be started is not in the model")

// has reports whether a lane is one of the model whose stream is still bound to it.
func (p *plan) has(l *lane) bool { return l.model == p.model && !p.lanes[l.index].left }

// start starts a lane.
func (p *pass) start(l *lane, at entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.plan.has(l):
		p.run.Stop(modelFailure{errElsewhere})
	case p.busy[l.index]:
		p.next[l.index] = append(p.next[l.index], at)
	default:
		p.busy[l.index] = true
		p.wg.Go(func() {
			for more := true; more; at, more = p.nextEntry(l) {
				p.lane(l, at)
			}
		})
	}
}

// nextEntry returns where a stopped lane starts again; false if it does not, or the execution is stopped.
func (p *pass) nextEntry(l *lane) (at entry, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.next[l.index]
	if len(list) == 0 || p.run.stopped.Load() {
		p.busy[l.index] = false
		return entry{}, false
	}
	p.next[l.index] = list[1:]
	return list[0], true
}

// lane runs a lane until it stops.
func (p *pass) lane(l *lane, from entry) {
	q, r, at := l.own, p.run, from.item
	defer q.Drain()
	if p.after != nil {
		p.reportOrder(q, &p.after.begins, true)
		defer p.reportOrder(q, &p.after.ends, false)
	}
	if from.by != nil {
		p.reportOrder(q, from.by, true)
	}
	items := p.plan.lanes[l.index].items
	waited := false // the queue has a task that may wait for something outside of the model
	for at >= 0 && at < len(items) && !r.stopped.Load() {
		it := &items[at]
		at++
		tag, part := driver.Tag{Task: it.number}, it.part(p.plan.model)
		if it.graph != nil {
			p.submit(l, driver.Op{Kind: driver.OpProgram, Program: it.graph.Program(), Tag: tag}, nil, part)
			continue
		}
		switch d := it.work.detail.(type) {
		case *branch, activate, *choice, *jump, endMark, *kernelUpdate:
			began := r.now()
			at = p.control(l, it, at)
			r.report(part, began)
			continue
		case *kernel:
			if d.late || d.group != nil && waited { // the wait may end after a change of the kernel
				q.Drain()
				waited = false
			}
		}
		waited = waited || it.work.waits()
		op, order := p.operation(it.work)
		op.Tag = tag
		p.submit(l, op, order, part)
	}
}

// control carries out a task that runs a sub-model, starts a lane or jumps, or is the end. It returns the next item: at
// if the lane goes on, -1 if it stops.
func (p *pass) control(l *lane, it *item, at int) int {
	w, q, n := it.work, l.own, it.work.op.N
	switch d := w.detail.(type) {
	case *branch:
		p.branch(l, d, it.number)
		return at
	case *kernelUpdate:
		n = 8 // the entry; the blocks have op.N bytes
	case *choice, *jump:
		p.reportRead(q, w.op.Dst, n)
		p.reportRead(q, w.op.Src, n)
	}
	by := new(core.Order)
	p.reportOrder(q, by, false)
	q.Drain()
	left, right := p.read(w.op.Src, n), p.read(w.op.Dst, w.op.N)
	if p.run.stopped.Load() {
		return -1
	}
	switch d := w.detail.(type) {
	case endMark:
		p.ended.Store(true)
	case activate:
		p.start(d.lane, entry{by: by})
	case *kernelUpdate:
		if err := d.apply(left, uint32(right)); err != nil {
			p.run.Stop(modelFailure{err})
		}
	case *choice:
		if d.holds(left, right, n) {
			p.start(d.target, entry{by: by})
			return -1
		}
	case *jump:
		to, task, ok := d.list.at(p.plan.model, min(left, uint64(d.most)))
		if !ok || !p.plan.has(to) {
			p.run.Stop(modelFailure{errElsewhere})
			return -1
		}
		next := p.plan.lanes[to.index].labels[task]
		if to == l {
			return next
		}
		p.start(to, entry{next, by})
		return -1
	}
	return at
}

// reportOrder submits a task that signals an order or waits for it. Only a checker needs it: the queue reaches the task
// after the wait anyway.
func (p *pass) reportOrder(q *core.Stream, o *core.Order, waits bool) {
	if !p.plan.model.rt.Checked() {
		return
	}
	op := driver.Op{Kind: driver.OpFunc, Fn: func() {}}
	if waits {
		op = driver.Op{Kind: driver.OpWaitCond, Gate: passed{}}
	}
	q.Submit(op, o)
}

// reportRead submits a task that reads the value which decides the next item. Only a checker needs it: read reads the
// value.
func (p *pass) reportRead(q *core.Stream, addr core.Addr, n uint64) {
	if p.plan.model.rt.Checked() && addr != 0 {
		q.Submit(driver.Op{Kind: driver.OpCompute, Src: addr, N: n, Work: func() error { return nil }}, nil)
	}
}

// passed is an open gate.
type passed struct{}

func (passed) Pass(func()) bool { return true }
func (passed) Leave()           {}

// branch runs a condition task.
func (p *pass) branch(l *lane, b *branch, number uint32) {
	for q := l.own; ; {
		p.reportRead(q, b.cond.addr, condBytes)
		p.reportOrder(q, &b.begins, false)
		q.Drain()
		sub := b.chosen(p.read(b.cond.addr, condBytes))
		if sub == nil || p.run.stopped.Load() {
			return
		}
		if all := sub.all; all != nil {
			op := driver.Op{Kind: driver.OpProgram, Program: all.Program(), Tag: driver.Tag{Task: number}}
			p.submit(l, op, nil, pieces{model: sub.model.id, count: uint32(len(all.Program().Steps))})
		} else {
			p.run.pass(sub, b)
			p.reportOrder(q, &b.ends, true)
		}
		if b.typ != abi.ModelRiCondTypeWhile || p.run.stopped.Load() {
			return
		}
	}
}

// chosen returns the plan of the sub-model for a value, or nil. Sub-models do not change.
func (b *branch) chosen(value uint64) *plan {
	at := value
	if b.typ != abi.ModelRiCondTypeSwitch {
		if at = 1; value != 0 {
			at = 0
		}
	}
	if at >= uint64(len(b.subs)) {
		return nil
	}
	return b.subs[at].plan.Load()
}

// read returns the number of 4 or 8 bytes at addr, 0 if addr is 0. It stops the execution if the memory is not
// accessible.
func (p *pass) read(addr core.Addr, n uint64) uint64 {
	var b [8]byte
	if addr == 0 || p.run.stopped.Load() {
		return 0
	}
	if err := load(p.plan.model.rt, b[:n], addr); err != nil {
		p.run.Stop(modelFailure{err})
	}
	return binary.LittleEndian.Uint64(b[:])
}
