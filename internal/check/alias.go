package check

import (
	"ropeway/internal/driver"
)

// Registered memory that is mapped has two addresses: the program's own, and an alias for devices. The checker keeps
// memory under the first, and converts every address of a task or of the program with canonical before it judges it.

// nameAlias adds the device address of a registration, if it has one. mu is held.
func (c *Checker) nameAlias(a *allocation) {
	if alias, err := c.under.Mapped(a.start); err == nil && alias != a.start {
		a.alias = alias
		c.reused(alias, alias+uintptr(a.size))
		c.aliases.Set(alias, a)
	}
}

// dropAlias removes the device address of a registration, and keeps it like that of freed memory. mu is held.
func (c *Checker) dropAlias(a *allocation) {
	if a.alias == 0 {
		return
	}
	c.aliases.Delete(a.alias)
	stale := *a
	stale.start, stale.alias = a.alias, 0
	c.wasFreed(&stale)
}

// aliased returns the registration that has addr as a device address, or nil. mu is held.
func (c *Checker) aliased(addr uintptr) (found *allocation) {
	if c.aliases.Len() == 0 {
		return nil
	}
	c.aliases.Descend(addr, func(start uintptr, a *allocation) bool {
		if uint64(addr-start) < a.size {
			found = a
		}
		return false
	})
	return found
}

// canonical returns the program's own address for addr. mu is held.
func (c *Checker) canonical(addr uintptr) uintptr {
	if a := c.aliased(addr); a != nil {
		return addr - a.alias + a.start
	}
	return addr
}

// manyRows is the number of rows from which a 2-D copy counts as touching all bytes from its first to its last row.
const manyRows = 1 << 16

// touches calls f with the canonical range of every access of op. mu is held.
func (c *Checker) touches(op *driver.Op, f func(lo, hi uintptr, write bool) bool) {
	if c.aliases.Len() == 0 {
		op.Ranges(manyRows, f)
		return
	}
	op.Ranges(manyRows, func(lo, hi uintptr, write bool) bool {
		at := c.canonical(lo)
		return f(at, at+(hi-lo), write)
	})
}

// word returns the range of the word that a gate waits for. Checker.mu is held.
func (t *task) word() (lo, hi uintptr) {
	lo = t.q.c.canonical(t.op.Src)
	return lo, lo + uintptr(t.op.N)
}
