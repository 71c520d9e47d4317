package check

import (
	"fmt"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// What tasks of models touch: which call was captured that a finding is about, and memory that is no longer there when
// a model is executed.

// isStale reports whether memory that a task names is not the one that was there when it was captured. What is mapped
// or registered again at its address is meant.
func (c *Checker) isStale(s touched) bool {
	a := s.memory
	if a == nil || !a.freed && !a.left {
		return false
	}
	now := c.find(s.lo)
	return now == nil || a.what != core.MappedMemory && a.what != core.RegisteredMemory
}

// judgeStale looks whether memory that a model refers to was freed since; true if there is such memory, and a finding.
// mu is held.
func (c *Checker) judgeStale(from origin, m *model) (found bool) {
	for i := range m.tasks {
		t := &m.tasks[i]
		for _, s := range t.spans {
			if !c.isStale(s) {
				continue
			}
			found = true
			what := "and is no longer there"
			if now := c.find(s.lo); now != nil {
				what = "and another allocation has its address now"
			}
			c.report(draft{
				rule: "stale-model", role: "called", offence: from, others: []other{{"captured", t.from}}, lo: s.lo,
				hi: min(s.hi, s.memory.end()), memory: s.memory,
				summary: fmt.Sprintf("model %d is executed, and task %d of it %s %s of %s memory that was %s after "+
					"the capture, %s", m.id, i, does(s.write), count(s.hi-s.lo), s.memory.kind(), s.memory.gone(),
					what),
			})
		}
	}
	return found
}

// launches reports whether a task executes a model that has streams of its own: what these do is submitted when the
// task runs.
func (t *task) launches() bool {
	return t.op.Kind == driver.OpHostFunc && t.from.model != nil && t.q.model == nil
}

// leads notes where a task that executes a model will lead: everything that the model touches is in flight. mu is held.
func (c *Checker) leads(t *task) {
	for i := range t.from.model.tasks {
		for _, s := range t.from.model.tasks[i].spans {
			t.led = append(t.led, led{s.lo, s.hi, s.write})
			c.shut(t, s.lo, s.hi, s.write)
		}
	}
}

// touching is the call that was captured as the first task which touches [lo, hi) in one of the ways that are wanted,
// nil if there is none.
func (m *model) touching(lo, hi uintptr, how string) *capturedTask {
	for i := range m.tasks {
		for _, s := range m.tasks[i].spans {
			if s.lo < hi && lo < s.hi && (how == "" || how == does(s.write)) {
				return &m.tasks[i]
			}
		}
	}
	return nil
}

// nameCaptured adds to a finding which captured calls it is about: those of tasks of models. mu is held.
func (c *Checker) nameCaptured(d *draft) {
	var last *site
	add := func(from origin, how string) {
		if from.model == nil || d.lo == d.hi {
			return
		}
		if t := from.model.touching(d.lo, d.hi, how); t != nil && t.from.site != last {
			last = t.from.site
			d.others = append(d.others, other{"captured", t.from})
		}
	}
	list := d.others
	add(d.offence, d.does)
	for _, o := range list {
		add(o.from, d.did)
	}
}

// capturedIn is the stack of the first captured call that a finding names, nil if it names none.
func capturedIn(list []other) *stack {
	for _, o := range list {
		if o.role == "captured" {
			return stackOf(o.from)
		}
	}
	return nil
}
