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
