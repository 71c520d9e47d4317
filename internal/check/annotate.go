package check

import (
	"encoding/json"

	"ropeway/internal/core"
	"ropeway/internal/finding"
)

// What a program may call for the checker: capi/include/ropeway/check.h.

// InFlight reports whether a copy that is not known to be complete touches n bytes at addr.
func (c *Checker) InFlight(addr uintptr, n uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr = c.canonical(addr)
	c.decide(addr, addr+uintptr(n))
	_, found := c.inFlight(*c.known, addr, addr+uintptr(n), true)
	return found
}

// Complete says that the program knows by its own means that the work on n bytes at addr that has run is complete.
func (c *Checker) Complete(addr uintptr, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr = c.canonical(addr)
	k := c.known.Clone()
	c.shadow.Each(addr, addr+uintptr(n), func(s *cell) {
		if s.Write != nil {
			k.Raise(s.Write.Line, s.Write.N)
		}
		for _, r := range s.Reads {
			k.Raise(r.Line, r.N)
		}
	})
	c.know(k)
}

// Findings is how many different findings there were so far.
func (c *Checker) Findings() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, f := range c.kept {
		if f.Severity != finding.Notice {
			n++
		}
	}
	return n
}

// Report is the findings so far as a JSON array.
func (c *Checker) Report() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.kept
	if list == nil {
		list = []*finding.Finding{}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return []byte("[]")
	}
	return b
}

// Judge looks at an access of the host to n bytes at addr. A Go program reports its accesses here: they do not fault.
func (c *Checker) Judge(t *core.Thread, addr uintptr, n uint64, write bool) {
	c.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decide(addr, addr+uintptr(n))
	c.judgeAccess(c.originOf(t), addr, addr+uintptr(n), write)
}

// Note adds a line to the report: what could not be done.
func (c *Checker) Note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(text)
}
