package check

import (
	"ropeway/internal/driver"
)

// Registered memory that is mapped has two addresses: the program's own, and an alias for devices. The checker keeps
// memory under the first, and converts every address of a task or of the program with canonical before it judges it.

// nameAlias adds the device address of a registration, if it has one. Checker.mu is held.
func (l *ledger) nameAlias(a *allocation) {
	if alias, err := l.under.Mapped(a.start); err == nil && alias != a.start {
		a.alias = alias
		l.reused(alias, alias+uintptr(a.size))
		l.aliases.Set(alias, a)
	}
}

// aliased returns the registration that has addr as a device address, or nil. Checker.mu is held.
func (l *ledger) aliased(addr uintptr) *allocation {
	_, a := holding(&l.aliases, addr)
	return a
}

// canonical returns the program's own address for addr. Checker.mu is held.
func (l *ledger) canonical(addr uintptr) uintptr {
	if a := l.aliased(addr); a != nil {
		return addr - a.alias + a.start
	}
	return addr
}

// manyRows is the number of rows from which a 2-D copy counts as touching all bytes from its first to its last row.
const manyRows = 1 << 16

// touches calls f with the canonical range of every access of op. Checker.mu is held.
func (l *ledger) touches(op *driver.Op, f func(lo, hi uintptr, write bool) bool) {
	if l.aliases.Len() == 0 {
		op.Ranges(manyRows, f)
		return
	}
	op.Ranges(manyRows, func(lo, hi uintptr, write bool) bool {
		at := l.canonical(lo)
		return f(at, at+(hi-lo), write)
	})
}

// polled returns the range of the word that a gate waits for. Checker.mu is held.
func (t *task) polled() (lo, hi uintptr) {
	lo = t.q.s.ledger.canonical(t.op.Src)
	return lo, lo + uintptr(t.op.N)
}
