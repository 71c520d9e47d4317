package check

import (
	"fmt"
	"slices"
)

// span is a range of addresses.
type span struct{ lo, hi uintptr }

// names is a front end that knows calls by their names.
type names struct {
	list   []string
	spans  [][]uint64
	device span

	registered, aliases []uint64
	pinned              span
	pages               spanSet
}

func (n *names) Describe(function uint32, arguments []uint64) (name, text string) {
	return n.list[function], fmt.Sprint(arguments)
}
func (n *names) PythonArguments(_ uint32, arguments []uint64) string {
	return fmt.Sprint("python ", arguments)
}
func (n *names) FrameName(id uint32) (file, function string) {
	return fmt.Sprintf("file%d.py", id), fmt.Sprintf("f%d", id)
}
func (n *names) SetSpans(pairs []uint64)      { n.spans = append(n.spans, pairs) }
func (n *names) SetDeviceSpan(lo, hi uintptr) { n.device = span{lo, hi} }
func (n *names) SetRegistered(pairs, aliases []uint64) {
	n.registered, n.aliases = pairs, aliases
}

func (n *names) SetPinnedSpan(lo, hi uintptr) { n.pinned = span{lo, hi} }

// caller is a thread whose calls a front end knows.
type caller struct {
	front   *names
	now     uint32
	line    uint32
	ignored bool
	inC     bool // the call does not come from an interpreter
}

func (c *caller) Calling() (uint32, []uint64, bool) { return c.now, []uint64{1, 2}, c.now != 0 }
func (c *caller) Stack(pcs []uintptr) int           { pcs[0] = 0x1234; return 1 }
func (c *caller) Frames(named [][2]uint32) int {
	if c.inC {
		return 0
	}
	named[0] = [2]uint32{1, c.line}
	return 1
}
func (c *caller) Ignored() bool { return c.ignored }

// in sets the function that the thread is in, and its place.
func (c *caller) in(function string, line uint32) {
	i := slices.Index(c.front.list, function)
	if i < 0 {
		i = len(c.front.list)
		c.front.list = append(c.front.list, function)
	}
	c.now, c.line = uint32(i), line
}

// withFrontEnd gives the program a front end that knows its calls.
func (p *program) withFrontEnd() *caller {
	by := &caller{front: &names{list: []string{""}}}
	p.c.SetFrontEnd(by.front)
	p.SetCaller(by)
	return by
}
