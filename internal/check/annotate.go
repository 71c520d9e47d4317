package check

import (
	"encoding/json"
	"os"

	"ropeway/internal/core"
	"ropeway/internal/finding"
)

// The functions that a program may call: capi/include/ropeway/check.h.

// InFlight reports whether an access to n bytes at addr is in flight.
func (c *Checker) InFlight(addr uintptr, n uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr = c.ledger.canonical(addr)
	c.schedule.runUndecided(addr, addr+uintptr(n))
	c.schedule.runGiven(addr)
	_, found := c.judge.inFlight(nil, *c.judge.known, addr, addr+uintptr(n), true)
	return found
}

// Complete declares the work on n bytes at addr that has run to be complete: the program knows by its own means.
func (c *Checker) Complete(addr uintptr, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr = c.ledger.canonical(addr)
	k := c.judge.known.Clone()
	raise := func(s *cell) {
		if s.Write != nil {
			k.Raise(s.Write.Line, s.Write.N)
		}
		for _, r := range s.Reads {
			k.Raise(r.Line, r.N)
		}
	}
	c.judge.shadow.Each(addr, addr+uintptr(n), raise)
	c.judge.paged.Each(addr, addr+uintptr(n), raise)
	c.judge.know(k)
}

// Findings returns the number of different findings so far, without notes and those that a suppression describes.
func (c *Checker) Findings() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, f := range c.report.kept {
		if f.Counts() {
			n++
		}
	}
	return n
}

// Tell begins (1) or ends (-1) a time in which the program prints findings itself, as a test framework does.
func (c *Checker) Tell(change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.telling += change
}

// News returns the text of the findings since the last call, including repeated ones; "" if there are none. Notes and
// those that a suppression describes do not count.
func (c *Checker) News() string {
	var news []finding.Finding
	c.mu.Lock()
	for i, f := range c.report.kept {
		if i == len(c.report.told) {
			c.report.told = append(c.report.told, 0)
		}
		again := *f
		again.Count -= c.report.told[i]
		c.report.told[i] = f.Count
		if again.Count > 0 && f.Counts() {
			news = append(news, again)
		}
	}
	c.mu.Unlock()
	l, text := layout(), ""
	for i := range news {
		text += l.Text(&news[i])
	}
	return text
}

// layout returns the layout in which the program's own process writes findings.
func layout() finding.Layout {
	dir, _ := os.Getwd() //nolint:errcheck // then files have their full names
	return finding.Layout{Dir: dir, Sources: &finding.Sources{}}
}

// Report returns the findings so far as a JSON array, each with its text, without those that a suppression describes.
func (c *Checker) Report() []byte {
	type entry struct {
		finding.Finding
		Text string `json:"text"`
	}
	list := []entry{}
	c.mu.Lock()
	for _, f := range c.report.kept {
		if !f.Known {
			list = append(list, entry{Finding: *f})
		}
	}
	c.mu.Unlock()
	l := layout()
	for i := range list {
		list[i].Text = l.Text(&list[i].Finding)
	}
	b, err := json.Marshal(list)
	if err != nil {
		return []byte("[]")
	}
	return b
}

// Judge judges an access of the host to n bytes at addr. A Go program reports its accesses here: they do not fault.
func (c *Checker) Judge(t *core.Thread, addr uintptr, n uint64, write bool) {
	c.schedule.calls.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule.runUndecided(addr, addr+uintptr(n))
	c.schedule.runGiven(c.ledger.canonical(addr))
	c.judge.hostAccess(c.judge.originOf(t), addr, addr+uintptr(n), write)
}

// Note adds a line to the report about a limitation of this run.
func (c *Checker) Note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.note(text)
}

// Injecting reports whether any faults are injected.
func (c *Checker) Injecting() bool { return len(c.schedule.inject.list) > 0 }

// Before is called by a front end before it carries a call out. If it returns an error, the call returns that instead.
// stream is the handle that the call is given, 0 if it takes none.
func (c *Checker) Before(function string, stream core.Handle) *core.Error {
	if !c.Injecting() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	number := int32(-1)
	if h := c.ledger.handles[uintptr(stream)]; h != nil {
		number = h.r.Number
	}
	for _, i := range c.schedule.inject.list {
		i.Called(function, number)
	}
	for _, i := range c.schedule.inject.list {
		if i.Fires(function, number, false) {
			c.schedule.inject.fired(i)
			return &core.Error{API: function, Code: i.Code, Index: -1, Text: "injected by --inject " + i.What,
				Injected: true}
		}
	}
	return nil
}
