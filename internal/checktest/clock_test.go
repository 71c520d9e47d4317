package checktest

import "slices"

// The generator keeps programs correct with clocks, as it goes: component i of a clock is how many tasks of line i are
// known to be over, where a line is a stream or a callback that runs beside its stream. The oracle does without them.

// clock is a vector clock; missing components are 0.
type clock []int

func (c clock) covers(m mark) bool { return m.line < len(c) && c[m.line] >= m.task }

// join is the knowledge of both.
func join(a, b clock) clock {
	if len(a) < len(b) {
		a, b = b, a
	}
	sum := slices.Clone(a)
	for i, n := range b {
		sum[i] = max(sum[i], n)
	}
	return sum
}

// with is c and the mark.
func (c clock) with(m mark) clock {
	one := make(clock, m.line+1)
	one[m.line] = m.task
	return join(c, one)
}

// mark is a task of a line; tasks count from 1.
type mark struct{ line, task int }

// pending is an access that the host has not seen the end of.
type pending struct {
	use
	mark
}

// line is a stream, or a callback that runs beside one.
type line struct {
	clock  clock // what the next task comes after
	tasks  int
	stream int // whose it is
	step   int // of a callback; -1 for a stream
	posted int // of a stream: the line of its latest callback, or -1
	live   bool
}

// eventState is what the generator knows of an event.
type eventState struct {
	live     bool
	recorded bool
	reset    bool  // queued since the record
	clock    clock // of the latest record
	last     mark  // and its task
	// Of a state event only.
	set     bool
	waits   []mark // since it was set
	cleared mark   // by the latest reset; line -1 if there is none
}

// usable reports whether waiting for the event means its latest record.
func (e *eventState) usable() bool { return e.live && e.recorded && !e.reset }

// bufferState is what the generator knows of a buffer.
type bufferState struct {
	live  bool
	busy  []pending
	slots []move // of a table: what is described there; n is 0 if nothing is
	cells []int  // of a table: which buffer's address is there, or -1
}
