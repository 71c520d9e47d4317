package check

import (
	"fmt"
	"maps"
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Unloading a binary does not wait for its kernels. Here they keep their code; on a device they need not, so a kernel
// that is in flight when its binary goes, or that a model runs later, is a mistake.

// loaded is a binary on a device, as far as kernels of it were launched.
type loaded struct {
	last []launched // the last launch on each line
	gone bool       // it was unloaded
	by   origin     // where
}

// launched is a launch of a kernel.
type launched struct {
	line uint32
	n    uint64 // on its line
	from origin
}

// module is what is known of a binary. mu is held.
func (c *Checker) module(of driver.Module) *loaded {
	if c.modules[of] == nil {
		c.modules[of] = new(loaded)
	}
	return c.modules[of]
}

// usesModule notes the binary of a kernel that is submitted, and reports a model that runs it after the binary was
// unloaded: the core refuses other launches. mu is held.
func (c *Checker) usesModule(t *task) {
	m := c.module(t.op.Launch.Module)
	if m.gone {
		c.report(draft{
			rule: "use-after-free", role: "submitted", offence: t.from, others: []other{{"unloaded", m.by}},
			summary: fmt.Sprintf("%s runs after its binary was unloaded", c.task(t.from)),
			advice:  "Destroy the model before aclrtBinaryUnLoad, or execute it no more.",
		})
	}
	now := launched{t.q.line, t.n, t.from}
	if i := slices.IndexFunc(m.last, func(l launched) bool { return l.line == now.line }); i >= 0 {
		m.last[i] = now
		return
	}
	m.last = append(m.last, now)
}

// Unloading implements core.CheckHooks.
func (c *Checker) Unloading(t *core.Thread, modules []driver.Module) {
	c.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.originOf(t)
	known := c.knownTo(from)
	found := false
	for _, of := range modules {
		m := c.module(of)
		for _, l := range m.last {
			if found || known.Has(l.line, l.n) {
				continue
			}
			found = true
			c.report(draft{
				rule: "free-in-flight", role: "unloaded", offence: from, others: []other{{"submitted", l.from}},
				summary: fmt.Sprintf("a binary is unloaded, and %s is not known to be complete", c.task(l.from)),
				advice:  "Synchronise before the binary is unloaded: a device may take the code away at once.",
			})
		}
		m.gone, m.by, m.last = true, from, nil
	}
	if len(c.modules) >= mostGone {
		maps.DeleteFunc(c.modules, func(_ driver.Module, m *loaded) bool { return m.gone })
	}
}
