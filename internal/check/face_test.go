package check

import (
	"fmt"
	"slices"

	"ropeway/internal/check/spans"
)

// span is a range of addresses.
type span struct{ lo, hi uintptr }

// names is a face that knows calls by their names.
type names struct {
	list   []string
	spans  [][]uint64
	device span

	registered, aliases []uint64
	pinned              span
	pages               spans.Set
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

// caller is a thread of which a face knows what it does.
type caller struct {
	face    *names
	now     uint32
	line    uint32
	ignored bool
	inC     bool // no interpreter is there
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

// in says which function the thread is in, and where.
func (c *caller) in(function string, line uint32) {
	i := slices.Index(c.face.list, function)
	if i < 0 {
		i = len(c.face.list)
		c.face.list = append(c.face.list, function)
	}
	c.now, c.line = uint32(i), line
}

// withFace makes the program one of which a face knows the calls.
func (p *program) withFace() *caller {
	by := &caller{face: &names{list: []string{""}}}
	p.c.SetFace(by.face)
	p.SetCaller(by)
	return by
}
