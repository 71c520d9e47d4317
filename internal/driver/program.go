package driver

import "sync/atomic"

// Program is work that was compiled once and runs often: OpProgram. Its steps run one after another. It holds
// everything a queue needs to run it, so that running it does not allocate, and looks up only memory.
//
// A program belongs to its creator, which changes it only while no operation with it is queued. A queue neither changes
// nor releases it.
type Program struct {
	Steps []Step
	Bytes uint64 // bytes that all steps move
	Long  bool   // it may take longer than Bytes suggests, because the work of a step is known only when it runs
	Apart bool   // it is a part of another program: do not report its steps to Events.RanSteps

	// Kept is data of the driver that runs the program. Code that changes a step, while the program does not run,
	// clears it.
	Kept atomic.Pointer[Kept]
}

// Kept is a driver's own data.
type Kept struct{ Of any }

// Single returns the copy of a program that is a single copy.
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
	Ordered bool     // they run one after another; else in any order and at the same time, like a batch
	Op      *Op      // not nil: runs instead of the list. OpCopy, OpCopy2D, OpFill, OpDesc, OpOffset, OpFunc, OpCompute
	Task    uint32   // index of its first task in the model, for messages if the step fails
}
