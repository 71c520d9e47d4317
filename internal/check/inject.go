package check

import (
	"ropeway/internal/abi"
	"ropeway/internal/check/inject"
	"ropeway/internal/core"
	"ropeway/internal/finding"
)

// fires counts a call and reports whether it is the one to fail, which the sink gets at once. mu is held.
func (c *Checker) fires(i *inject.Injection, function string, stream int32, run bool) bool {
	if !i.Fires(function, stream, run) {
		return false
	}
	if !c.ended {
		c.sink.Fired(finding.Shot{What: i.What, Times: i.Fired()})
	}
	return true
}

// injected is how an injected task fails.
type injected struct{ code abi.Code }

func (e injected) Error() string  { return "injected" }
func (e injected) Code() abi.Code { return e.code }

// arm makes a task fail if it is one that is to fail when it runs. mu is held.
func (c *Checker) arm(t *task) {
	if len(c.inject) == 0 || t.from.site == nil {
		return
	}
	name := c.function(t.from.site)
	for _, i := range c.inject {
		if c.fires(i, name, t.q.stream, true) {
			t.fails = injected{i.Code}
		}
	}
}

// Injecting reports whether faults are injected at all.
func (c *Checker) Injecting() bool { return len(c.inject) > 0 }

// Before is called by a front end before it carries a call out; if it returns an error, the call returns that instead.
// stream is the handle that the call is given, 0 if it takes none.
func (c *Checker) Before(function string, stream core.Handle) *core.Error {
	if !c.Injecting() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	number := int32(-1)
	if h := c.handles[uintptr(stream)]; h != nil {
		number = h.r.Number
	}
	for _, i := range c.inject {
		if c.fires(i, function, number, false) {
			return &core.Error{API: function, Code: i.Code, Index: -1, Text: "injected by --inject " + i.What,
				Injected: true}
		}
	}
	return nil
}
