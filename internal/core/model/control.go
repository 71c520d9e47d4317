package model

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Executions of a model that keeps its streams. Each lane is a list of items (modelplan.go); a goroutine passes them to
// the queue of the lane one after another. If the next item depends on a value in memory, the goroutine first waits for
// the earlier ones, reads the value, and continues where that directs it: the items are compiled, and their order is
// decided here.

// pass is one run of a model or a sub-model.
//
// A started lane runs in a goroutine. A lane that is started while it runs starts again when it has stopped.
type pass struct {
	run   *run
	m     *Model
	lanes []*lane
	plan  *plan
	round uint64
	after *branch // the condition task that runs it, or nil

	wg    sync.WaitGroup
	mu    sync.Mutex
	busy  []bool    // guarded by mu; running lanes
	next  [][]entry // guarded by mu; by lane: where to start again
	ended bool      // guarded by mu; the mark was reached
}

// entry is where a lane starts.
type entry struct {
	item int
	by   *core.Order // order from the task that starts it, for a checker; nil: it starts with the model
}

// assign sets conditions to their initial values.
func (r *run) assign() {
	for _, m := range r.m.within() { // lockcheck: a model that is ready keeps its sub-models
		for _, c := range m.conds { // lockcheck: and its conditions
			if !c.used || !c.assign {
				continue
			}
			if err := c.write(c.value); err != nil {
				r.Stop(modelFailure{err})
				return
			}
		}
	}
}

// play runs a model with lanes once.
func (r *run) play(m *Model, after *branch) {
	p := &pass{run: r, m: m, after: after}
	core.Locked(&m.mu, func() {
		m.round++
		p.round, p.lanes, p.plan = m.round, m.lanes, m.plan
	})
	p.busy, p.next = make([]bool, len(p.lanes)), make([][]entry, len(p.lanes))
	for _, l := range p.lanes {
		if !l.waits {
			p.start(l, entry{})
		}
	}
	p.wg.Wait()
	if !p.ended && m.built && needsMark(m.rt) { // lockcheck: no lane runs
		r.Stop(modelFailure{errNoEnd})
	}
}

// errNoEnd is the error of an execution whose streams have all stopped before its end.
var errNoEnd = errors.New("all streams of the model have stopped, and none has reached its end (aclmdlRIEndTask)")

// errElsewhere is the error of an execution that started something outside of the model.
var errElsewhere = errors.New("a stream or a label that is to be started is not in the model")

// hasLeft reports whether the stream of l has left the model: it was unbound, or the model is being destroyed.
func (l *lane) hasLeft() bool {
	l.model.mu.Lock()
	defer l.model.mu.Unlock()
	return l.left
}

// start starts a lane.
func (p *pass) start(l *lane, at entry) {
	elsewhere := l.model != p.m || l.bound && l.hasLeft()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case elsewhere:
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

// lane runs a lane until it stops (lockcheck: the tasks of a running model do not change).
func (p *pass) lane(l *lane, from entry) {
	q, r, at := l.own, p.run, from.item
	defer q.Drain()
	if p.after != nil {
		p.orders(q, &p.after.begins, true)
		defer p.orders(q, &p.after.ends, false)
	}
	if from.by != nil {
		p.orders(q, from.by, true)
	}
	items := p.plan.lanes[l.index]
	waited := false // the queue has a task that may wait for something outside of the model
	for at >= 0 && at < len(items) && !r.stopped.Load() {
		it := &items[at]
		at++
		if it.graph != nil {
			tag := driver.Tag{Task: p.m.tasks[it.tasks[0]].number}
			p.give(l, driver.Op{Kind: driver.OpProgram, Program: it.graph.Program(), Tag: tag}, nil, it.part(p.m))
			continue
		}
		v := &p.m.tasks[it.task]
		switch v.more.kind {
		case branchTask:
			began := r.now()
			p.branch(l, v.more.branch, v.number)
			r.took(it.part(p.m), began)
		case activateTask, switchTask, jumpTask, endTask, updateTask:
			began := r.now()
			at = p.control(l, v.more, at)
			r.took(it.part(p.m), began)
		default:
			if v.more.late || v.more.group != nil && waited { // the wait may have ended after a change of the kernel
				q.Drain()
				waited = false
			}
			waited = waited || v.more.waits()
			op, order := r.operation(p.m, v.more, p.round)
			op.Tag = driver.Tag{Task: v.number}
			p.give(l, op, order, it.part(p.m))
		}
	}
}

// control carries out a task that starts a lane or jumps, or is the end. It returns the next item, or -1 if the lane
// stops.
func (p *pass) control(l *lane, k *taskMore, at int) int {
	switch k.kind {
	case switchTask:
		p.looks(l.own, k.op.Dst, k.op.N)
		fallthrough
	case jumpTask:
		p.looks(l.own, k.op.Src, k.op.N)
	}
	by := new(core.Order)
	p.orders(l.own, by, false)
	l.own.Drain()
	switch k.kind {
	case endTask:
		core.Locked(&p.mu, func() { p.ended = true })
	case activateTask:
		p.start(k.target, entry{by: by})
	case updateTask:
		if !p.update(k) {
			return -1
		}
	case switchTask:
		left, ok := p.read(k.op.Src, k.op.N)
		if !ok {
			return -1
		}
		right, ok := p.read(k.op.Dst, k.op.N)
		if !ok {
			return -1
		}
		if holds(k.cond, left, right, k.op.N) {
			p.start(k.target, entry{by: by})
			return -1
		}
	case jumpTask:
		index, ok := p.read(k.op.Src, k.op.N)
		if !ok {
			return -1
		}
		to, task, ok := k.list.at(p.m, min(index, uint64(k.most)))
		switch {
		case !ok || to.hasLeft():
			p.run.Stop(modelFailure{errElsewhere})
		case to == l:
			return p.plan.labels[task]
		default:
			p.start(to, entry{p.plan.labels[task], by})
		}
		return -1
	}
	return at
}

// orders submits a task that signals an order or waits for it. Only a checker needs it: the queue reaches the task
// after the wait anyway.
func (p *pass) orders(q *core.Stream, o *core.Order, waits bool) {
	if !p.m.rt.Checked() {
		return
	}
	op := driver.Op{Kind: driver.OpFunc, Fn: func() {}}
	if waits {
		op = driver.Op{Kind: driver.OpWaitCond, Gate: passed{}}
	}
	q.Submit(op, o)
}

// looks submits a task that reads the value which decides the next item. Only a checker needs it: read reads the value.
func (p *pass) looks(q *core.Stream, addr core.Addr, n uint64) {
	if p.m.rt.Checked() {
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
		p.looks(q, b.cond.addr, condBytes)
		p.orders(q, &b.begins, false)
		q.Drain()
		value, ok := p.read(b.cond.addr, condBytes)
		if !ok {
			return
		}
		sub := b.chosen(value)
		if sub == nil {
			return
		}
		if all := sub.plan.all; all != nil { // lockcheck: a model that is ready keeps it
			op := driver.Op{Kind: driver.OpProgram, Program: all.Program(), Tag: driver.Tag{Task: number}}
			p.give(l, op, nil, pieces{model: sub.id, count: uint32(len(all.Program().Steps))})
		} else {
			p.run.play(sub, b)
			p.orders(q, &b.ends, true)
		}
		if b.typ != abi.ModelRiCondTypeWhile || p.run.stopped.Load() {
			return
		}
	}
}

// chosen returns the sub-model for a value, or nil.
func (b *branch) chosen(value uint64) *Model {
	at := value
	if b.typ != abi.ModelRiCondTypeSwitch {
		if at = 1; value != 0 {
			at = 0
		}
	}
	if at >= uint64(len(b.subs)) {
		return nil
	}
	return b.subs[at]
}

// read reads a number of 4 or 8 bytes. It stops the execution if the memory is not accessible, and returns false if the
// execution is stopped.
func (p *pass) read(addr core.Addr, n uint64) (uint64, bool) {
	if p.run.stopped.Load() {
		return 0, false
	}
	var b [8]byte
	err := p.m.rt.Caps.Base.Run(driver.Op{Kind: driver.OpCopy, Dst: core.AddrOf(b[:]), Src: addr, N: n})
	runtime.KeepAlive(&b)
	if err != nil {
		p.run.Stop(modelFailure{err})
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[:]), true
}
