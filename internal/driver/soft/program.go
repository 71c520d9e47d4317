package soft

import (
	"runtime/debug"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// lookAfter is the number of steps of a program, or of large copies in order, between two checks whether the queue was
// dropped. Small copies have a check every 256*lookAfter.
const lookAfter = 64

// program runs a program from step op.N and reports to times. It runs the unordered copies of a step as a batch, and
// shares large ones with helpers of q, if q is not nil.
func (d *Driver) program(op *driver.Op, q *queue, times hostqueue.StepTimes) error {
	steps := op.Program.Steps[op.N:]
	for i := range steps {
		if q != nil && i%lookAfter == lookAfter-1 && q.Dropped() {
			return driver.ErrAborted
		}
		if err := d.step(&steps[i], q); err != nil {
			return hostqueue.StepFailed(&steps[i], err)
		}
		times.Ran(int(op.N) + i)
	}
	return nil
}

func (d *Driver) step(s *driver.Step, q *queue) error {
	switch {
	case s.Op != nil:
		return d.exec(s.Op, q)
	case s.Ordered:
		return d.inOrder(s, q)
	}
	op := driver.Op{Kind: driver.OpBatch, Segs: &s.Segs}
	if !d.guard && s.Largest <= chunkBytes {
		return d.move(&op, false, q)
	}
	// A copy of the list: large segments in it are going to be cut.
	op.Segs = driver.NewSegments()
	defer op.Segs.Release()
	op.Segs.List, op.Segs.Bytes = append(op.Segs.List, s.Segs.List...), s.Segs.Bytes
	return d.move(&op, false, q)
}

// inOrder makes the copies of a step one after another.
func (d *Driver) inOrder(s *driver.Step, q *queue) error {
	list := s.Segs.List
	if d.guard || s.Largest >= parallelBytes {
		for i := range list {
			if q != nil && i%lookAfter == lookAfter-1 && q.Dropped() {
				return driver.ErrAborted
			}
			op := driver.Op{Kind: driver.OpCopy, Dst: list[i].Dst, Src: list[i].Src, N: list[i].N}
			if err := d.move(&op, false, q); err != nil {
				return err
			}
		}
		return nil
	}
	for len(list) > 0 {
		n := min(len(list), 256*lookAfter)
		if err := d.run(list[:n]); err != nil {
			return err
		}
		if list = list[n:]; len(list) > 0 && q != nil && q.Dropped() {
			return driver.ErrAborted
		}
	}
	return nil
}

// run copies a list in its order through the cache, since a copy often reads what the one before it wrote.
func (d *Driver) run(list []driver.Segment) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	return d.segments(list, 0, false, nil)
}

// Sole is Caps.Sole: memory of an arena has one address until any is shared.
func (d *Driver) Sole(addr uintptr) bool { return d.arenaOf(addr) != nil && !d.shares.Load() }
