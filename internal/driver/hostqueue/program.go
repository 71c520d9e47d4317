package hostqueue

import (
	"fmt"

	"ropeway/internal/driver"
)

// StepFailed wraps a step's error as the program's error.
func StepFailed(s *driver.Step, err error) error {
	if err == driver.ErrAborted {
		return err
	}
	what := "task"
	if s.Op == nil && len(s.Segs.List) > 1 {
		what = "a copy of the step that begins with task"
	}
	return fmt.Errorf("%s %d of the model: %w", what, s.Task, err)
}

// mostStepTimes is the largest number of times reported for a program. With more steps, several share a time.
const mostStepTimes = 256

// StepTimes measures the steps of a program for the observer of a queue.
type StepTimes struct {
	q     *Queue // nil: no observer wants them
	op    *driver.Op
	every int // steps that share a time
	first int // first step whose time is not reported yet
	began int64
}

// TimeSteps begins to measure the steps of a program that q is about to run. A single step is not measured: its time is
// that of the program.
func (q *Queue) TimeSteps(op *driver.Op) (t StepTimes) {
	if n := len(op.Program.Steps); q.Events.RanSteps != nil && n-int(op.N) > 1 && !op.Program.Apart {
		t = StepTimes{q: q, op: op, every: (n-1)/mostStepTimes + 1, first: int(op.N), began: q.Events.Now()}
	}
	return t
}

// Ran records that step number step has run.
func (t *StepTimes) Ran(step int) {
	if t.q == nil || step+1 < t.first+t.every && step+1 < len(t.op.Program.Steps) {
		return
	}
	now := t.q.Events.Now()
	t.q.Events.RanSteps(t.op.Tag, t.first, step+1-t.first, t.began, now)
	t.first, t.began = step+1, now
}

// EachStep calls f with operations that together do the work of the program of op, for a queue that cannot run
// programs. All but the last have Tag.More. f owns the operations, like any others.
func EachStep(op *driver.Op, f func(op driver.Op)) {
	steps := op.Program.Steps[op.N:]
	put := func(next driver.Op, last bool) {
		next.Tag, next.Tag.More = op.Tag, op.Tag.More || !last
		if next.Launch != nil {
			next.Launch = next.Launch.Lend() // the program keeps its own
		}
		if last {
			next.Done = op.Done
		}
		f(next)
	}
	if len(steps) == 0 {
		put(driver.Op{Kind: driver.OpFunc, Fn: func() {}}, true)
	}
	for i := range steps {
		s := &steps[i]
		end := i == len(steps)-1
		switch {
		case s.Op != nil:
			put(*s.Op, end)
		case s.Ordered:
			for j, c := range s.Segs.List {
				put(driver.Op{Kind: driver.OpCopy, Dst: c.Dst, Src: c.Src, N: c.N}, end && j == len(s.Segs.List)-1)
			}
		default:
			segs := driver.NewSegments()
			segs.List, segs.Bytes = append(segs.List, s.Segs.List...), s.Segs.Bytes
			put(driver.Op{Kind: driver.OpBatch, Segs: segs}, end)
		}
	}
}
