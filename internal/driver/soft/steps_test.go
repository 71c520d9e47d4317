package soft

import (
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// stepTimes records the step times that a queue reports.
type stepTimes struct {
	clock int64
	parts [][4]int64 // first, count, began, ended
	ended int64      // of the operation
}

func (s *stepTimes) Now() int64 {
	s.clock++
	return s.clock
}
func (s *stepTimes) Ran(tag driver.Tag, began, ended int64, err error) { s.ended = ended }
func (s *stepTimes) RanSteps(tag driver.Tag, first, count int, began, ended int64) {
	s.parts = append(s.parts, [4]int64{int64(first), int64(count), began, ended})
}

// TestStepTimes: each step of a program is in exactly one reported time, the times are consecutive, and their number is
// limited. A queue without such an observer reports none, nor does a program inside another one.
func TestStepTimes(t *testing.T) {
	d := open(t, Options{Devices: 1, Memory: 64 << 20})
	dev, err := d.Open(0)
	testenv.OK(t, err)
	for _, c := range []struct{ steps, from, want int }{
		{1, 0, 0}, {2, 0, 2}, {2, 1, 0}, {7, 3, 4}, {256, 0, 256}, {257, 0, 129}, {1000, 0, 250},
	} {
		for _, long := range []bool{false, true} { // in the submitter, or by a worker
			p := driver.Program{Long: long}
			ran := 0
			for range c.steps {
				p.Steps = append(p.Steps, driver.Step{Op: &driver.Op{Kind: driver.OpFunc, Fn: func() { ran++ }}})
			}
			for _, wanted := range []bool{true, false} {
				p.Apart = !wanted && long
				o := new(stepTimes)
				opts := driver.QueueOptions{Events: driver.Events{
					Now: o.Now, Ran: o.Ran, RanSteps: o.RanSteps, Failed: newLog().TaskFailed,
				}}
				if !wanted && !long {
					opts.Events.RanSteps = nil
				}
				q := dev.NewQueue(opts)
				ran = 0
				q.Submit(driver.Op{Kind: driver.OpProgram, Program: &p, N: uint64(c.from)})
				q.Wait(0, nil)
				want := c.want
				if !wanted {
					want = 0
				}
				if ran != c.steps-c.from || len(o.parts) != want {
					t.Errorf("%d steps from %d on: %d ran, %d times, want %d", c.steps, c.from, ran, len(o.parts), want)
				}
				next, at := int64(c.from), int64(0)
				for _, part := range o.parts {
					if part[0] != next || part[2] < at || part[3] < part[2] || part[3] > o.ended {
						t.Fatalf("%d steps from %d on: %v", c.steps, c.from, o.parts)
					}
					next, at = next+part[1], part[3]
				}
				if want > 0 && next != int64(c.steps) {
					t.Errorf("%d steps: the times end with step %d", c.steps, next)
				}
				q.Close()
			}
		}
	}
}
