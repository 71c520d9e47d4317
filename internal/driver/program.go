package driver

import "sync/atomic"

// Program is work that was compiled once and runs often: OpProgram. Its steps run one after the other, each when the
// one before it is over. What a queue needs to run it is here, so that running it allocates nothing and looks up
// nothing but memory.
//
// A program belongs to its maker, which changes it only while no operation with it is queued. A queue neither changes
// nor releases it.
type Program struct {
	Steps []Step
	Bytes uint64 // that all steps move
	Long  bool   // it may take longer than Bytes says: what a step does is known only when it runs
	Apart bool   // it is a part of another program: the numbers of its steps mean nothing to a StepObserver

	// Kept is what the driver that runs the program keeps of it. Code that changes a step empties it; the program does
	// not run then.
	Kept atomic.Pointer[Kept]
}

// Kept is something of a driver's own.
type Kept struct{ Of any }

// Single is the only thing that the program does, if that is one copy.
func (p *Program) Single() (Segment, bool) {
	if len(p.Steps) != 1 || p.Steps[0].Op != nil || len(p.Steps[0].Segs.List) != 1 {
		return Segment{}, false
	}
	return p.Steps[0].Segs.List[0], true
}

// Step is one step of a program: a list of copies, or another operation.
type Step struct {
	Segs    Segments // the copies; none overlaps itself
	Largest uint64   // bytes of the longest of them
	Ordered bool     // they run one after the other; else in any order and together, as those of a batch
	Op      *Op      // not nil: this instead of copies. OpCopy, OpCopy2D, OpFill, OpDesc, OpOffset, OpFunc, OpCompute
	Task    uint32   // place in the model of its first task, which messages name if the step fails
}

// Sole is a driver that knows which memory has one address only. Of memory for which it cannot, or of which it says no,
// two ranges that are apart may be the same bytes.
type Sole interface {
	Sole(addr uintptr) bool
}
