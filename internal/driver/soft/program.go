package soft

import (
	"runtime/debug"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// lookAfter is how many steps of a program, or hundreds of copies in order, run between two looks whether the queue
// was dropped.
const lookAfter = 64

// program runs the steps of a program from number op.N on. Copies of a step that may run in any order are a batch,
// and large ones are shared with helpers of q, if that is not nil. It takes times.
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
	// The list would be changed: parts of it are cut.
	op.Segs = driver.NewSegments()
	defer op.Segs.Release()
	op.Segs.List, op.Segs.Bytes = append(op.Segs.List, s.Segs.List...), s.Segs.Bytes
	return d.move(&op, false, q)
}

// inOrder makes the copies of a step one after the other.
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

// run copies a list in its order, by way of the cache: what one copy has written the next one often reads.
func (d *Driver) run(list []driver.Segment) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	return d.segments(list, 0, false, nil)
}

// Sole implements driver.Sole: memory of an arena has one address, as long as none was shared.
func (d *Driver) Sole(addr uintptr) bool { return d.arenaOf(addr) != nil && !d.shares.Load() }
