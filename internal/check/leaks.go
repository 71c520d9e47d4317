package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/finding"
)

// leakCounted adds to a leak of retained physical memory which references are left.
func (h *handle) leakCounted(d *draft) {
	d.summary += fmt.Sprintf(": aclrtMemRetainAllocationHandle or an import retained it %s, so it takes %d calls of "+
		"aclrtFreePhysical, and there %s", finding.Plural(h.took, "time"), 1+h.took, were(1+h.took-len(h.refs)))
	d.advice = "Call aclrtFreePhysical once for the call that made the handle and once for each " +
		"aclrtMemRetainAllocationHandle."
	d.inGo = "Call Physical.Close once."
	left := h.refs[0]
	d.role, d.offence = left.role, left.from
	if left.role != "made" {
		d.others = []other{{"made", h.by}}
	}
	d.others = slices.Concat(d.others, h.refs[1:min(len(h.refs), mostNamed)], h.past)
}

// leaks reports resources that are not released, oldest first. Checker.mu is held.
func (l *ledger) leaks() {
	for _, a := range l.oldest(func(*allocation) bool { return true }) {
		l.leakMemory(a)
	}
	for _, h := range l.unreleased(func(*handle) bool { return true }) {
		l.leak(h)
	}
}

// oldest returns the live memory and registrations that ok selects, oldest first. Checker.mu is held.
func (l *ledger) oldest(ok func(*allocation) bool) (list []*allocation) {
	l.memory.Scan(func(_ uintptr, a *allocation) bool {
		list = append(list, a)
		return true
	})
	list = slices.DeleteFunc(slices.AppendSeq(list, maps.Values(l.inner)), func(a *allocation) bool { return !ok(a) })
	slices.SortFunc(list, func(a, b *allocation) int { return cmp.Compare(a.born, b.born) })
	return list
}

// unreleased returns the live handles that ok selects, oldest first. Checker.mu is held.
func (l *ledger) unreleased(ok func(*handle) bool) (list []*handle) {
	for _, h := range l.handles {
		if !h.freed && ok(h) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *handle) int { return cmp.Compare(a.born, b.born) })
	return list
}

// leakMemory reports memory that is never freed. In a Go program, Close of the device or of the runtime frees it.
// Checker.mu is held.
func (l *ledger) leakMemory(a *allocation) {
	if a.leaked || l.report.language == finding.Go {
		return
	}
	a.leaked = true
	l.report.add(draft{
		rule: "leak", role: "allocated", offence: a.by, lo: a.start, hi: a.end(), memory: a,
		summary: fmt.Sprintf("%s of %s memory %s never freed", count(uintptr(a.size)), a.kind(),
			are(uintptr(a.size), "is", "are")),
	})
}

// leak reports a handle that is never destroyed, unless Close does it. Checker.mu is held.
func (l *ledger) leak(h *handle) {
	if h.leaked || l.report.language == finding.Go {
		return
	}
	h.leaked = true
	d := draft{
		rule: "leak", role: "made", offence: h.by, detail: h.kind(),
		summary: fmt.Sprintf("%s is never %s", h, h.gone()),
	}
	if h.swept {
		d.summary = fmt.Sprintf("%s is not %s before its context goes", h, h.gone())
		if stackOf(h.freedBy) != nil { // else the process ends
			d.others = []other{{"freed", h.freedBy}}
		}
	}
	if h.took > 0 {
		h.leakCounted(&d)
	}
	l.report.add(d)
}

// sweep reports and forgets the memory of a device that closes.
func (c *Checker) sweep(phys int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	onIt := func(a *allocation) bool { return a.what == core.DeviceMemory && a.phys == phys }
	for _, a := range c.ledger.oldest(onIt) {
		c.ledger.leakMemory(a)
		c.forget(a, origin{})
	}
}
