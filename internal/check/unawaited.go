package check

import (
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// A stream does not wait for a function submitted with ACL_CALLBACK_NO_BLOCK. So the tasks after the function on its
// stream are in flight for the function, even if the program has waited for them.

// unawaited has the running functions that their streams do not wait for, by thread. Checker.mu guards them.
type unawaited map[uint32]launched

// RunningBeside implements core.CheckHooks.
func (c *Checker) RunningBeside(t *core.Thread, stream int32, turn driver.Flag) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := turn.(*flag)
	q := c.byStream[stream]
	if !ok || q == nil || int(q.line) >= len(f.clock) {
		return func() {}
	}
	thread := t.ID()
	c.unawaited[thread] = launched{line: q.line, n: f.clock[q.line]}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.unawaited, thread)
	}
}

// known returns the clock of what is complete for a thread. In a function that its stream does not wait for, the
// stream's tasks after the function are left out. Checker.mu is held.
func (b unawaited) known(c *Checker, thread uint32) clock {
	at, ok := b[thread]
	if !ok || thread == 0 || !c.known.Has(at.line, at.n+1) {
		return *c.known
	}
	k := c.known.Clone()
	k[at.line] = at.n
	return k
}
