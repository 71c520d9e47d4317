package cuda

import (
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// A program goes to the stream step by step. Like a batch, copies that may run in any order become a launch of the
// batch kernel, or go to the copy engines if those are faster; kernels become graphs: see sections.go. op.N is the next
// step and, if its copies run in order, op.Height the number of them on the stream. The host does the next step if the
// stream cannot, and continues from there.

// moveProgram passes the steps of a program to the stream; false if the host has to do the next one. Mu is held.
func (q *queue) moveProgram(op *driver.Op) bool {
	steps, list := op.Program.Steps, q.sectionsOf(op.Program)
	for op.N < uint64(len(steps)) {
		for len(list) > 0 && list[0].first < op.N {
			list = list[1:]
		}
		if len(list) > 0 && list[0].first == op.N && op.Height == 0 && q.launchSection(&list[0], op.Tag) {
			op.N = list[0].end
			continue
		}
		if !q.moveStep(op, &steps[op.N]) {
			return false
		}
		op.N, op.Height = op.N+1, 0
	}
	return true
}

// moveStep passes a step to the stream. Mu is held.
func (q *queue) moveStep(op *driver.Op, s *driver.Step) bool {
	switch {
	case s.Op != nil:
		switch s.Op.Kind.Class() {
		case driver.Moves:
			return q.move(s.Op)
		case driver.Launches: // the program keeps it
			l := s.Op.Launch
			if l.Limit > 0 || !l.Copied || !q.put(l) {
				return false
			}
			q.noteKernels(1, latestKernel{upto: q.Taken() + 1, tag: op.Tag, launch: l, kept: true})
			return true
		}
		return false
	case s.Ordered:
		op.Height += uint64(q.give(s.Segs.List[op.Height:]))
		return op.Height == uint64(len(s.Segs.List))
	}
	return q.moveList(&s.Segs)
}

// program does the steps of a program that are not on the stream. Earlier steps may still be running there.
func (q *queue) program(op *driver.Op) error {
	if op.N > 0 || op.Height > 0 {
		if err := q.synchronize(); err != nil {
			return err
		}
	}
	steps := op.Program.Steps
	for ; op.N < uint64(len(steps)); op.N, op.Height = op.N+1, 0 {
		s := &steps[op.N]
		if err := q.hostStep(op, s); err != nil {
			return hostqueue.StepFailed(s, err)
		}
	}
	return nil
}

// hostStep does a step on the host.
func (q *queue) hostStep(op *driver.Op, s *driver.Step) error {
	switch {
	case s.Op != nil:
		return q.Exec(s.Op)
	case s.Ordered:
		for _, c := range s.Segs.List[op.Height:] {
			if err := q.v.d.carry(&driver.Op{Kind: driver.OpCopy, Dst: c.Dst, Src: c.Src, N: c.N}, false); err != nil {
				return err
			}
		}
		return nil
	}
	return q.v.d.carry(&driver.Op{Kind: driver.OpBatch, Segs: &s.Segs}, false)
}

// synchronize waits for all work on the stream. The caller is the goroutine that runs
// the queue.
func (q *queue) synchronize() error {
	c := q.v.gpu
	q.Mu.Lock()
	stream := q.stream
	q.Mu.Unlock()
	c.Enter()
	defer c.Leave()
	event, r := c.Event(libcuda.SleptEvent)
	if r != libcuda.Success {
		return c.Check("cuEventCreate", r)
	}
	defer c.GiveEvent(event, libcuda.SleptEvent)
	if r = c.d.lib.EventRecord(event, stream); r == libcuda.Success {
		r = c.d.lib.EventSynchronize(event)
	}
	return c.Check("a step of a model", r)
}
