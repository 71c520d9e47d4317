package check

import (
	"fmt"
	"slices"

	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// addCaptured appends a task that carries out op to a model. op may be nil. Checker.mu is held.
func (j *judge) addCaptured(m *model, t capturedTask, op *driver.Op) {
	if t.fails != nil {
		root := m.root()
		root.faults = append(root.faults, fault{m, len(m.tasks)})
	}
	m.tasks = append(m.tasks, t)
	j.capturedTask(&m.tasks[len(m.tasks)-1], op)
}

// capturedTask sets the accesses of a captured task to those of op, and judges its addresses. It does so at the capture
// because the model may execute copies as a batch, and a batch of one segment as a copy. Checker.mu is held.
func (j *judge) capturedTask(t *capturedTask, op *driver.Op) {
	t.spans, t.given = j.ledger.spansOf(op), nil
	if op != nil {
		t.kernel = kernelOf(op)
	}
	if op != nil && op.Launch != nil && op.Launch.Copied {
		t.given = j.ledger.given(op.Launch)
	}
	if op != nil && !t.batch {
		j.alignment(t.from, "captured", op)
		j.selfOverlap(t.from, "captured", op)
	}
}

// modelGone reports a model that was built by hand and is destroyed while it is executed: for other models the core
// waits. Checker.mu is held.
func (j *judge) modelGone(from origin, id uint32) {
	m := j.ledger.models[id]
	if m == nil || !m.built {
		return
	}
	if l := m.ran.pending(j.knownTo(from)); l != nil {
		j.report.add(draft{
			rule: "free-in-flight", role: "freed", offence: from, others: []other{{"submitted", l.from}},
			summary: fmt.Sprintf("model %d is destroyed while %s is pending", id, j.report.task(l.from)),
			advice:  "Synchronise before aclmdlRIDestroy: for a model that was built by hand it does not wait.",
		})
	}
}

// repeatedRun reports an execution of a model on q that is not ordered after the one before, which may have been on
// another stream: both use the same hidden streams. Checker.mu is held.
func (j *judge) repeatedRun(on *line, n uint64, m *model) {
	before := m.last
	m.last, m.beside = &past{Line: on.id, N: n, Of: maker{from: m.run}}, nil
	if before == nil || before.Line == on.id || on.clock.Has(before.Line, before.N) {
		return
	}
	if t := m.touching(0, ^uintptr(0), does(true)); t != nil {
		s := t.spans[slices.IndexFunc(t.spans, func(s touched) bool { return s.write })]
		j.race(access{}, m.last, true, before, true, s.lo, s.hi, s.memory)
		return
	}
	m.beside = before // the writes of its kernels are known after they have run
}

// repeatedKernel reports the first write by a kernel in an execution that is not ordered after the one before. Both
// executions make that write, on the same hidden stream. Checker.mu is held.
func (j *judge) repeatedKernel(on *line, k *account) {
	m := on.model.root()
	if m == nil || m.beside == nil {
		return
	}
	for i, list := range [][]kernel.Touch{k.said, k.seen} {
		for _, w := range list {
			lo := j.ledger.canonical(w.Addr)
			a := j.ledger.find(lo)
			if !w.Write || a == nil {
				continue
			}
			p := *m.last
			p.Paged = i > 0
			j.race(access{}, &p, true, m.beside, true, lo, min(lo+uintptr(w.N), a.end()), a)
			m.beside = nil
			return
		}
	}
}

// inOneRun reports whether two tasks belong to the same execution of a model.
func inOneRun(a, b origin) bool {
	return a.is().model.root() == b.is().model.root() && a.stream == b.stream && a.task == b.task
}

// nameTasks turns a race of two tasks in one run of m into one of the captured calls. It puts first the call that
// writes, whichever order they ran in, and adds the call that executes the model. Checker.mu is held.
func (j *judge) nameTasks(d *draft, m *model, p, before *past) {
	w := d.whole
	if w.lo == w.hi {
		w = access{d.lo, d.hi}
	}
	a, b := j.taskOf(p, w, d.does), j.taskOf(before, access{d.lo, d.hi}, d.did)
	if a == nil || b == nil || a == b {
		return
	}
	if writes := does(true); d.does != writes || d.did == writes && after(a.name, b.name) {
		a, b, d.does, d.did = b, a, d.did, d.does
	}
	d.summary = fmt.Sprintf("in one run of model %d, %%s %s %s that %%s %s, and nothing orders the two", m.id, d.does,
		amount(p, before, d.lo, d.hi), d.did)
	d.calls, d.advice = true, ""
	d.role, d.others = "captured", []other{{"captured", b.from}, {"submitted", d.offence}}
	d.offence = a.from
}

// after reports whether a comes after b in a fixed order of a model's tasks.
func after(a, b taskName) bool {
	return a.stream > b.stream || a.stream == b.stream && a.task > b.task
}

// taskOf returns the task of a model that made an access to w, or nil if several may have. Checker.mu is held.
func (j *judge) taskOf(p *past, w access, how string) *capturedTask {
	on, kernel := j.lines[p.Line], p.Of.from.is().kernel
	if on.model == nil {
		return nil
	}
	if kernel == "" {
		t, _ := on.model.nearest(on.stream, w.lo, w.hi, how)
		return t
	}
	var found *capturedTask
	for i := range on.model.tasks {
		if t := &on.model.tasks[i]; t.name.stream == on.stream && t.kernel == kernel {
			if found != nil {
				return nil
			}
			found = t
		}
	}
	return found
}

// Updates of kernels in models, in the order of a stream. The kernel that a task of a model runs is like memory: an
// update writes it, an execution of the task reads it, and two accesses that are not ordered are a race.

// slot is the history of the kernel of a model's task: its updates and executions.
type slot struct {
	cell
	task   int    // index in model.tasks; set by an update
	update origin // the captured call of the last update; without a site if that was not captured
}

// updatedKernel reports a kernel that is about to run on q and is not ordered with its updates. Checker.mu is held.
func (j *judge) updatedKernel(w *work, p *past) {
	if m := w.line.model; m != nil {
		s := m.slotOf(w.line.stream, w.op.Tag.Task)
		j.slotAccess(m, s, p, w.line.clock, false)
		s.AddRead(p, w.line.clock)
	}
}

// slotAccess reports an update of a kernel and an execution of it, or two updates, that are not ordered. Checker.mu is
// held.
func (j *judge) slotAccess(m *model, s *slot, p *past, k clock, write bool) {
	s.Judge(p, k, write, 0, 0, func(before *past, wrote bool, _, _ uintptr) {
		run, update, how := p.Of.from, before.Of.from, "is updated by"
		if write && wrote {
			how = fmt.Sprintf("updates the same kernel of model %d as", m.id)
		} else if write {
			run, update = update, run
		}
		d := draft{rule: "stream-race", role: "submitted", offence: run,
			others: []other{{"submitted", update}, {"captured", m.tasks[s.task].from}},
			summary: fmt.Sprintf("%s %s %s, and nothing orders the two: the old one may run, or the new one",
				j.report.task(run), how, j.report.task(update))}
		if s.update.site != nil {
			d.others = append(d.others, other{"captured", s.update})
		} else if !write || !wrote {
			d.advice = updateAdvice
		}
		j.report.add(d)
	})
}

const updateAdvice = "Let the model wait for the update: capture a wait for an external event before the task group, " +
	"and record the event after the update. Or let the stream of the execution wait for the update " +
	"(aclrtStreamWaitEvent), or synchronise before the execution. Update no kernel while an execution that is to run " +
	"the former one is in flight."
