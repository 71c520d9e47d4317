package check

import (
	"fmt"
	"maps"
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Unloading a binary does not wait for its kernels. Here they keep their code; on hardware they may lose it. So it is a
// mistake if a kernel is in flight when its binary is unloaded, or if a model runs it later.

// loaded is a binary on a device with the launches of its kernels.
type loaded struct {
	last launches
	gone bool   // it was unloaded
	by   origin // where it was unloaded
}

// launched is a launch of a kernel, or an execution of a model.
type launched struct {
	line uint32
	n    uint64 // number on its line
	from origin
}

// launches has the last launch on each line.
type launches []launched

// add replaces the launch on t's line by t.
func (list *launches) add(w *work) {
	now := launched{w.line.id, w.n, w.from}
	if i := slices.IndexFunc(*list, func(l launched) bool { return l.line == now.line }); i >= 0 {
		(*list)[i] = now
		return
	}
	*list = append(*list, now)
}

// pending returns a launch that is not known to be complete, or nil.
func (list launches) pending(known clock) *launched {
	if i := slices.IndexFunc(list, func(l launched) bool { return !known.Has(l.line, l.n) }); i >= 0 {
		return &list[i]
	}
	return nil
}

// module returns the record of a binary, and makes it at first. Checker.mu is held.
func (l *ledger) module(of driver.Module) *loaded {
	if l.modules[of] == nil {
		l.modules[of] = new(loaded)
	}
	return l.modules[of]
}

// usesModule records the launch of a binary's kernel, and reports a model that launches it after the binary was
// unloaded: the core refuses other launches. Checker.mu is held.
func (j *judge) usesModule(w *work) {
	m := j.ledger.module(w.op.Launch.Module)
	if m.gone {
		j.report.add(draft{
			rule: "use-after-free", role: "submitted", offence: w.from, others: []other{{"unloaded", m.by}},
			summary: fmt.Sprintf("%s runs after its binary was unloaded", j.report.task(w.from)),
			advice:  "Destroy the model before aclrtBinaryUnLoad, or execute it no more.",
		})
	}
	m.last.add(w)
}

// Unloading implements core.CheckHooks.
func (c *Checker) Unloading(t *core.Thread, modules []driver.Module, handles []core.Resource) {
	c.schedule.calls.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.judge.originOf(t)
	known := c.judge.knownTo(from)
	found := false
	for _, of := range modules {
		m := c.ledger.module(of)
		if l := m.last.pending(known); l != nil && !found {
			found = true
			c.report.add(draft{
				rule: "free-in-flight", role: "unloaded", offence: from, others: []other{{"submitted", l.from}},
				summary: fmt.Sprintf("a binary is unloaded while %s is pending", c.report.task(l.from)),
				advice:  "Synchronise before the binary is unloaded: a device may take the code away at once.",
			})
		}
		m.gone, m.by, m.last = true, from, nil
	}
	for _, r := range handles {
		c.ledger.handles[r.Name] = &handle{r: r, freed: true, freedBy: from}
	}
	c.ledger.trimHandles()
	if len(c.ledger.modules) >= mostGone {
		maps.DeleteFunc(c.ledger.modules, func(_ driver.Module, m *loaded) bool { return m.gone })
	}
}
