package check

import (
	"ropeway/internal/check/ranges"
	"ropeway/internal/driver"
)

// Registered memory that is mapped has two addresses: the program's own, and one for devices. What is known of
// memory is kept under the first, so every address of a task or of the program goes through canonical before it is
// judged.

// nameAlias notes the device address of a registration, if it has one. mu is held.
func (c *Checker) nameAlias(a *allocation) {
	if alias, err := c.under.Mapped(a.start); err == nil && alias != a.start {
		a.alias = alias
		c.reused(alias, alias+uintptr(a.size))
		c.aliases.Set(alias, a)
	}
}

// dropAlias forgets it. The stale address is remembered like freed memory. mu is held.
func (c *Checker) dropAlias(a *allocation) {
	if a.alias == 0 {
		return
	}
	c.aliases.Delete(a.alias)
	stale := *a
	stale.start, stale.alias = a.alias, 0
	c.wasFreed(&stale)
}

// aliased is the registration of which addr is a device address, nil if it is none. mu is held.
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

// canonical is the address under which addr is known. mu is held.
func (c *Checker) canonical(addr uintptr) uintptr {
	if a := c.aliased(addr); a != nil {
		return addr - a.alias + a.start
	}
	return addr
}

// touches calls f with every range that op reads and writes, like the function of that name, by the addresses under
// which they are known. mu is held.
func (c *Checker) touches(op *driver.Op, f func(lo, hi uintptr, write bool) bool) {
	if c.aliases.Len() == 0 {
		ranges.Of(op, f)
		return
	}
	ranges.Of(op, func(lo, hi uintptr, write bool) bool {
		at := c.canonical(lo)
		return f(at, at+(hi-lo), write)
	})
}

// word is where the word lies that a gate waits for. Checker.mu is held.
func (t *task) word() (lo, hi uintptr) {
	lo = t.q.c.canonical(t.op.Src)
	return lo, lo + uintptr(t.op.N)
}
