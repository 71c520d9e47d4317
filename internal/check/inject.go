package check

import (
	"ropeway/internal/abi"
	"ropeway/internal/check/inject"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
)

// injections are the failures that the user asked for. Checker.mu guards them.
type injections struct {
	report *report
	ledger *ledger
	list   []*inject.Injection
}

// fired counts a failure of an injection. The sink gets it at once, because the process may die of it. Checker.mu is
// held.
func (x *injections) fired(i *inject.Injection) {
	i.Fired()
	if !x.report.ended {
		shot := i.Shot()
		x.report.sink.Fired(finding.Shot{What: shot.What, Times: shot.Times})
	}
}

// injected is the error of a task that an injection makes fail.
type injected struct{ by *inject.Injection }

func (e *injected) Error() string { return "injected" }

func (e *injected) Code() abi.Code { return e.by.Code }

// Injected reports that the program gets the code itself, even if the task is one of a model: see core/model.
func (e *injected) Injected() bool { return true }

// arm counts a task that a call has submitted to a stream. It returns the failure of the task when it runs, or nil.
// Checker.mu is held.
func (x *injections) arm(call *site, stream int32) (fails *injected) {
	if len(x.list) == 0 || call == nil {
		return nil
	}
	name := x.report.function(call)
	for _, i := range x.list {
		if i.Fires(name, stream, true) {
			fails = &injected{i}
		}
	}
	return fails
}

// fault is a task of a model that is to fail when it runs.
type fault struct {
	m    *model
	task int // index in m.tasks
}

// faultOf returns the failure of op, a part of an execution of m on q, or nil. A step of a program is identified by the
// bytes that it touches, other operations by their place. Checker.mu is held.
func (x *injections) faultOf(m *model, q *queue, op *driver.Op) *injected {
	for _, f := range m.root().faults {
		t := &f.m.tasks[f.task]
		if t.name == (taskName{q.stream, op.Tag.Task}) || x.ledger.touchesAll(op, t.spans) {
			return t.fails
		}
	}
	return nil
}

// failure returns the injected error of t, which has run, or nil. Checker.mu is held.
func (x *injections) failure(t *task) error {
	if t.fails == nil || t.mute {
		return nil
	}
	x.fired(t.fails.by)
	return t.fails
}
