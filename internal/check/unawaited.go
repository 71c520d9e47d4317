package check

import (
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// A stream does not wait for a function submitted with ACL_CALLBACK_NO_BLOCK. So the tasks after the function on its
// stream are in flight for the function, even if the program has waited for them.

// RunningBeside implements core.CheckHooks.
func (c *Checker) RunningBeside(t *core.Thread, stream int32, turn driver.Flag) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := turn.(*flag)
	q := c.schedule.byStream[stream]
	if !ok || q == nil || int(q.id) >= len(f.clock) {
		return func() {}
	}
	thread := t.ID()
	c.judge.unawaited[thread] = launched{line: q.id, n: f.clock[q.id]}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.judge.unawaited, thread)
	}
}
