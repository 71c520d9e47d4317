package stacks

import (
	"strings"
	"testing"

	"ropeway/internal/finding"
)

// walked is a stack as a caller returns it.
type walked struct {
	pcs   []uintptr
	named [][2]uint32
}

func (w walked) Stack(pcs []uintptr) int      { return copy(pcs, w.pcs) }
func (w walked) Frames(named [][2]uint32) int { return copy(named, w.named) }

// TestTable proves that a stack is kept once, that frames of an interpreter replace those of C, and the names of
// frames.
func TestTable(t *testing.T) {
	var table Table[int]
	one := table.By(walked{pcs: []uintptr{1, 2}})
	one.Of = 7
	if again := table.By(walked{pcs: []uintptr{1, 2}}); again != one || again.Of != 7 {
		t.Error("a stack that is known is another one")
	}
	if table.By(walked{pcs: []uintptr{2, 1}}) == one {
		t.Error("another stack is the same")
	}
	python := table.By(walked{pcs: []uintptr{1, 2}, named: [][2]uint32{{3, 40}}})
	if python != table.By(walked{pcs: []uintptr{9}, named: [][2]uint32{{3, 40}}}) {
		t.Error("what an interpreter does in C makes another stack")
	}
	name := func(n uint32) (file, function string) { return "step.py", strings.Repeat("f", int(n)) }
	symbols := func(pc uintptr) []finding.Frame { return []finding.Frame{{Function: "c", Address: uint64(pc)}} }
	if got := python.Frames(name, symbols); len(got) != 1 || got[0].Function != "fff" || got[0].Line != 40 {
		t.Errorf("frames of an interpreter: %v", got)
	}
	if got := one.Frames(name, symbols); len(got) != 2 || got[1].Address != 2 {
		t.Errorf("frames of C: %v", got)
	}
}

// TestHere proves that a stack of Go begins with the caller outside of ropeway, and ends before the frames of package
// testing.
func TestHere(t *testing.T) {
	var table Table[int]
	s, _ := func() (*Stack[int], string) { return table.Here() }()
	list := s.Frames(nil, nil)
	if !s.InGo || len(list) != 1 || !strings.HasSuffix(list[0].Function, ".TestHere") {
		t.Errorf("%v", list)
	}
}
