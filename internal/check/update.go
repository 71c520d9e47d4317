package check

import "fmt"

// Updates of kernels in models, in the order of a stream. The kernel that a task of a model runs is like memory: an
// update writes it, an execution of the task reads it, and two accesses that are not ordered are a race.

// slot is the history of the kernel of a model's task: its updates and executions.
type slot struct {
	cell
	task   int    // index in model.tasks; set by an update
	update origin // the captured call of the last update; without a site if that was not captured
}

// slotOf returns the slot of a task of a model, by its hidden stream and its number there. mu is held.
func (m *model) slotOf(own int32, number uint32) *slot {
	name := taskName{own, number}
	if m.slots[name] == nil {
		m.slots[name] = new(slot)
	}
	return m.slots[name]
}

// Updated implements core.CheckHooks.
func (c *Checker) Updated(id uint32, task int, own int32, number uint32, by int32, byTask int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, q := c.ledger.models[id], c.schedule.byStream[by]
	if m == nil || q == nil || q.model == nil && q.current == nil {
		return
	}
	s, p := m.slotOf(own, number), &past{Line: q.id}
	s.task = task
	if q.model == nil {
		p.N, p.Of.from, s.update = q.current.n, q.current.from, origin{}
	} else {
		p.N, p.Of.from, s.update = q.over(), q.model.root().run, q.model.tasks[byTask].from
	}
	c.judge.slotAccess(m, s, p, q.clock, true)
	s.Write, s.Reads = p, s.Reads[:0]
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
