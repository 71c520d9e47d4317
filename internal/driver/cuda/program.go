package cuda

import (
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// A program goes to the stream step by step: copies that may run in any order are a launch of the batch kernel, or go
// to the copy engines where these are faster, as those of a batch; kernels are graphs: see sections.go. op.N is the
// next step, and op.Height how many of its copies are on the stream, if they run in order: what the stream cannot do is
// done by the host, which goes on from there.

// moveProgram gives the steps of a program to the stream; false if the host has to do the next one. Mu is held.
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

// moveStep gives a step to the stream. Mu is held.
func (q *queue) moveStep(op *driver.Op, s *driver.Step) bool {
	switch {
	case s.Op != nil:
		switch s.Op.Kind {
		case driver.OpCopy, driver.OpCopy2D, driver.OpFill:
			return q.move(s.Op)
		case driver.OpLaunch: // the program keeps it
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

// program does the steps of a program that are not on the stream yet. The stream may still be at those before.
func (q *queue) program(op *driver.Op) error {
	if op.N > 0 || op.Height > 0 {
		if err := q.settle(); err != nil {
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

// settle waits for what is on the stream, whether it counts as taken or not. The caller is the one that is busy.
func (q *queue) settle() error {
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

// LaunchesInPrograms implements driver.ProgramLauncher.
func (d *Driver) LaunchesInPrograms() {}
