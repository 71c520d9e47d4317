package far

import (
	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// A program that uses memory of other servers goes to the queue in parts: programs of steps that do not use it, and
// gates for copies that do. The first part that fails ends the program. Each program part has an extra last step, which
// does not run if an earlier one fails; so the gate after it notices, and empties the later parts. All of this happens
// in the order of the queue, so no lock is needed.

// course is one run of such a program.
type course struct {
	parts []part
	over  int // parts that have succeeded
}

// part is one operation for the queue: a program, or the gate of a copy.
type part struct {
	program *driver.Program
	op      driver.Op   // of a gate
	step    driver.Step // of a gate: the step that fails with it
}

// stepGate is the gate of a copy in a program.
type stepGate struct {
	*flight
	of   *course
	at   int // index of its part
	skip bool
}

// Pass implements driver.Gate.
func (g *stepGate) Pass(wake func()) bool {
	if g.of.over != g.at {
		g.of.cut(g.at)
		g.skip = true
		return true
	}
	return g.flight.Pass(wake)
}

// Err implements driver.FailingGate.
func (g *stepGate) Err() error {
	if g.skip {
		return nil // another part has reported the failure
	}
	if err := g.flight.Err(); err != nil {
		g.of.cut(g.at)
		return hostqueue.StepFailed(&g.of.parts[g.at].step, err)
	}
	g.of.over++
	return nil
}

// cut empties the programs after a part. The queue has not reached them.
func (c *course) cut(at int) {
	for i := at + 1; i < len(c.parts); i++ {
		if p := c.parts[i].program; p != nil {
			p.Steps = nil // only this field: the submitter may read the others
		}
	}
}

// reaches reports whether a program may use memory of another server.
func (d *Driver) reaches(op *driver.Op) bool {
	for i := range op.Program.Steps[op.N:] {
		if d.stepReaches(&op.Program.Steps[op.N+uint64(i)]) {
			return true
		}
	}
	return false
}

func (d *Driver) stepReaches(s *driver.Step) bool {
	if s.Op != nil {
		return d.touches(s.Op)
	}
	return d.touches(&driver.Op{Kind: driver.OpBatch, Segs: &s.Segs})
}

// submitProgram submits the parts of a program.
func (q *queue) submitProgram(op driver.Op) {
	c := &course{parts: q.d.takeApart(&op)}
	last := len(c.parts) - 1
	for _, p := range c.parts[:last] {
		if p.program != nil { // its last step runs only if it succeeds
			end := driver.Step{Op: &driver.Op{Kind: driver.OpFunc, Fn: func() { c.over++ }}}
			p.program.Steps = append(p.program.Steps, end)
		}
	}
	for i := range c.parts {
		p := &c.parts[i]
		tag := op.Tag
		tag.More = tag.More || i < last
		var done func()
		if i == last {
			done = op.Done
		}
		if p.program == nil {
			g := &stepGate{flight: &flight{d: q.d}, of: c, at: i}
			q.gate(p.op, g.flight, g, tag, done)
			continue
		}
		q.Queue.Submit(driver.Op{Kind: driver.OpProgram, Program: p.program, Tag: tag, Done: done})
	}
}

// takeApart divides a program into parts.
func (d *Driver) takeApart(op *driver.Op) (parts []part) {
	near := func() *driver.Program {
		if n := len(parts); n > 0 && parts[n-1].program != nil {
			return parts[n-1].program
		}
		p := &driver.Program{Long: true, Apart: true} // Long: not in the submitter, as earlier parts may be running
		parts = append(parts, part{program: p})
		return p
	}
	steps := op.Program.Steps[op.N:]
	for i := range steps {
		s := &steps[i]
		switch {
		case !d.stepReaches(s):
			p := near()
			p.Steps = append(p.Steps, *s)
			p.Bytes += s.Segs.Bytes
			if s.Op != nil {
				p.Bytes += s.Op.N
			}
		case s.Op != nil:
			parts = append(parts, part{op: *s.Op, step: *s})
		case s.Ordered:
			for _, g := range s.Segs.List {
				one := driver.Op{Kind: driver.OpCopy, Dst: g.Dst, Src: g.Src, N: g.N}
				if d.touches(&one) {
					parts = append(parts, part{op: one, step: *s})
					continue
				}
				p := near()
				p.Steps = append(p.Steps, driver.Step{Op: &one, Task: s.Task})
				p.Bytes += g.N
			}
		default:
			segs := driver.NewSegments()
			segs.List, segs.Bytes = append(segs.List, s.Segs.List...), s.Segs.Bytes
			parts = append(parts, part{op: driver.Op{Kind: driver.OpBatch, Segs: segs}, step: *s})
		}
	}
	return parts
}
