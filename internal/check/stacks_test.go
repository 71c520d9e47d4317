package check

import (
	"strings"
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/finding"
)

// walked is a stack as a caller returns it.
type walked struct {
	core.Caller
	pcs   []uintptr
	named [][2]uint32
}

func (w walked) Stack(pcs []uintptr) int      { return copy(pcs, w.pcs) }
func (w walked) Frames(named [][2]uint32) int { return copy(named, w.named) }

// TestStacks proves that a stack is kept once, that frames of an interpreter replace those of C, and the names of
// frames.
func TestStacks(t *testing.T) {
	var table stacks
	one := table.by(walked{pcs: []uintptr{1, 2}})
	one.drops = true
	if again := table.by(walked{pcs: []uintptr{1, 2}}); again != one || !again.drops {
		t.Error("a stack that is known is another one")
	}
	if table.by(walked{pcs: []uintptr{2, 1}}) == one {
		t.Error("another stack is the same")
	}
	python := table.by(walked{pcs: []uintptr{1, 2}, named: [][2]uint32{{3, 40}}})
	if python != table.by(walked{pcs: []uintptr{9}, named: [][2]uint32{{3, 40}}}) {
		t.Error("what an interpreter does in C makes another stack")
	}
	name := func(n uint32) (file, function string) { return "step.py", strings.Repeat("f", int(n)) }
	symbols := func(pc uintptr) []finding.Frame { return []finding.Frame{{Function: "c", Address: uint64(pc)}} }
	if got := python.frames(name, symbols); len(got) != 1 || got[0].Function != "fff" || got[0].Line != 40 {
		t.Errorf("frames of an interpreter: %v", got)
	}
	if got := one.frames(name, symbols); len(got) != 2 || got[1].Address != 2 {
		t.Errorf("frames of C: %v", got)
	}
}

// TestGoStack proves that a stack of Go begins with the caller outside of ropeway, and ends before the frames of
// package testing.
func TestGoStack(t *testing.T) {
	var table stacks
	s, _ := func() (*stack, string) { return table.here() }()
	list := s.frames(nil, nil)
	if !s.inGo || len(list) != 1 || !strings.HasSuffix(list[0].Function, ".TestGoStack") {
		t.Errorf("%v", list)
	}
}
