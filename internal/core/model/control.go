package model

import (
	"encoding/binary"
	"runtime"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// How a model that keeps its streams runs. Each lane is a list of items (modelplan.go); a goroutine gives them to the
// queue of the lane one after the other. Where the next one depends on a value in memory, it first waits until the
// queue has done all before it, reads the value, and goes on where that says: the pieces between are compiled, and what
// connects them is decided here.

// pass is a model or a sub-model that runs once.
type pass struct {
	run   *run
	m     *Model
	lanes []*lane
	plan  *plan
	round uint64
	after *branch // the condition task that runs it; nil: none

	wg sync.WaitGroup
}

// assign gives conditions the values that executions begin with.
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

// play runs a model that has lanes, once.
func (r *run) play(m *Model, after *branch) {
	p := &pass{run: r, m: m, after: after}
	core.Locked(&m.mu, func() {
		m.round++
		p.round, p.lanes, p.plan = m.round, m.lanes, m.plan
	})
	for i := range p.lanes {
		p.wg.Go(func() { p.lane(p.lanes[i]) })
	}
	p.wg.Wait()
}

// lane runs the items of a lane (lockcheck: nobody changes the tasks of a model that runs).
func (p *pass) lane(l *lane) {
	q, r := l.own, p.run
	defer q.Drain()
	if p.after != nil {
		p.orders(q, &p.after.begins, true)
		defer p.orders(q, &p.after.ends, false)
	}
	items := p.plan.lanes[l.index]
	for i := range items {
		if r.stopped.Load() {
			return
		}
		it := &items[i]
		if it.graph != nil {
			tag := driver.Tag{Task: p.m.tasks[it.tasks[0]].number}
			q.Submit(driver.Op{Kind: driver.OpProgram, Program: it.graph.Program(), Tag: tag}, nil)
			continue
		}
		v := &p.m.tasks[it.task]
		if b := v.more.branch; b != nil {
			p.branch(q, b, v.number)
			continue
		}
		op, order := r.again(p.m, v.more, p.round)
		op.Tag = driver.Tag{Task: v.number}
		q.Submit(op, order)
	}
}

// orders puts a task on a queue that signals an order or waits for it. Only a checker needs it: the queue gets there
// after the wait.
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

// passed is a gate that lets everything pass.
type passed struct{}

func (passed) Pass(func()) bool { return true }
func (passed) Leave()           {}

// branch runs a condition task.
func (p *pass) branch(q *core.Stream, b *branch, number uint32) {
	for {
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
			q.Submit(driver.Op{Kind: driver.OpProgram, Program: all.Program(), Tag: driver.Tag{Task: number}}, nil)
		} else {
			p.run.play(sub, b)
			p.orders(q, &b.ends, true)
		}
		if b.typ != abi.ModelRiCondTypeWhile || p.run.stopped.Load() {
			return
		}
	}
}

// chosen is the sub-model that a value stands for; nil: none.
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

// read reads a number of 4 or 8 bytes. The execution is stopped if it is not there, or was stopped before.
func (p *pass) read(addr core.Addr, n uint64) (uint64, bool) {
	if p.run.stopped.Load() {
		return 0, false
	}
	var b [8]byte
	err := driver.Base(p.m.rt.Driver).Run(driver.Op{Kind: driver.OpCopy, Dst: core.AddrOf(b[:]), Src: addr, N: n})
	runtime.KeepAlive(&b)
	if err != nil {
		p.run.Stop(modelFailure{err})
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[:]), true
}
