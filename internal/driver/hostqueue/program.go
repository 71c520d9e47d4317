package hostqueue

import (
	"fmt"

	"ropeway/internal/driver"
)

// StepFailed is how a program fails of which a step did.
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

// mostStepTimes is how many times a program has: of one with more steps, several share one.
const mostStepTimes = 256

// StepTimes takes the times of a program's steps, for the observer of a queue.
type StepTimes struct {
	q     *Queue // nil: nobody wants them
	op    *driver.Op
	every int // steps that share a time
	first int // the first of which the time is not reported
	began int64
}

// TimeSteps begins to take the times of the steps of a program that q is about to run. If there is but one, its time is
// that of the program.
func (q *Queue) TimeSteps(op *driver.Op) (t StepTimes) {
	if n := len(op.Program.Steps); q.steps != nil && n-int(op.N) > 1 && !op.Program.Apart {
		t = StepTimes{q: q, op: op, every: (n-1)/mostStepTimes + 1, first: int(op.N), began: q.Observer.Now()}
	}
	return t
}

// Ran says that the step with a number has run.
func (t *StepTimes) Ran(step int) {
	if t.q == nil || step+1 < t.first+t.every && step+1 < len(t.op.Program.Steps) {
		return
	}
	now := t.q.Observer.Now()
	t.q.steps.RanSteps(t.op.Tag, t.first, step+1-t.first, t.began, now)
	t.first, t.began = step+1, now
}

// EachStep calls f with operations that do what the program of op does, for a queue that has no way of its own to run
// one: all but the last have Tag.More. The operations may be changed and released as any other.
func EachStep(op *driver.Op, f func(op driver.Op)) {
	steps := op.Program.Steps[op.N:]
	put := func(next driver.Op, last bool) {
		next.Tag, next.Tag.More = op.Tag, op.Tag.More || !last
		if next.Launch != nil {
			next.Launch = next.Launch.Lend() // it stays the program's
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
