package check

import (
	"ropeway/internal/check/shadow"
	"ropeway/internal/driver"
)

// judge decides which accesses collide: it has what orders tasks, and what they touched. It sees a task only when it
// runs, and neither holds work back nor closes memory; what does that sets backlog and learned. Checker.mu guards it.
type judge struct {
	report  *report
	ledger  *ledger
	backlog backlog // tasks that are held back
	learned func()  // called after the host has learned of complete tasks

	known  *clock   // what the host knows to be complete; replaced, never changed
	lines  []*line  // by id
	free   []uint32 // ids of unused lines
	shadow shadow.Shadow[maker]
	paged  shadow.Shadow[maker] // pages that kernels were seen to touch

	serving   map[uint32]*serving // functions of the program that run in the order of a stream, by thread
	unawaited map[uint32]launched // running functions that their streams do not wait for, by thread
}

func newJudge(l *ledger, r *report) *judge {
	return &judge{report: r, ledger: l, backlog: noBacklog{}, learned: func() {}, known: new(clock),
		serving: map[uint32]*serving{}, unawaited: map[uint32]launched{}}
}

// backlog has the tasks that were submitted and have not run.
type backlog interface {
	// pendingOn returns an access of such a task that collides with a write or a read of [lo, hi), except on lines for
	// which skip, if it is not nil, is true.
	pendingOn(skip func(*line) bool, lo, hi uintptr, write bool) (flight, bool)
	// unsignalled reports whether the next task of a line waits for a signal that nothing queued sends.
	unsignalled(*line) bool
	// polls reports whether f is an access of a kernel that runs, which may poll a word.
	polls(f flight) bool
	// isLent reports whether a page has host memory that is given to a kernel which is not over.
	isLent(page uintptr) bool
}

// noBacklog is the backlog where all work runs at once.
type noBacklog struct{}

func (noBacklog) pendingOn(func(*line) bool, uintptr, uintptr, bool) (f flight, found bool) { return }
func (noBacklog) unsignalled(*line) bool                                                    { return false }
func (noBacklog) polls(flight) bool                                                         { return false }
func (noBacklog) isLent(uintptr) bool                                                       { return false }

// line is an order of numbered tasks, that of a stream. Checker.mu guards it.
type line struct {
	id        uint32 // immutable; its index in clocks
	stream    int32  // immutable; number of the stream
	submitted uint64 // number of the last task or pool allocation
	mark      uint64 // number of times that its progress was recorded
	clock     clock  // tasks before the next one
	born      uint64 // ledger.born at the submission of the task that runs
	play      play   // of the task that runs
	model     *model // the model of a hidden stream; nil: a stream of the program
}

// work is an operation in the order of a line, as it is judged.
type work struct {
	play
	op      driver.Op
	line    *line
	n       uint64 // number on its line
	mark    uint64 // mark of its line at its submission
	born    uint64 // ledger.born at its submission
	known   *clock // what the host knew at its submission
	from    origin
	early   *earlyWait    // queue.early at its submission
	word    bool          // it writes one word atomically, for waits
	reached []reach       // ranges reached through device memory, by its contents at the submission
	lost    []*allocation // memory freed while it runs, a kernel, which was reported
}

// reach is a range that a task reaches through device memory.
type reach struct {
	lo, hi uintptr
	write  bool
	open   bool // known only after it has run
}

// number returns the number of a new task. Checker.mu is held.
func (l *line) number() uint64 {
	l.submitted++
	return l.submitted
}

// newLine returns a line for a stream: a new one, or one whose stream was destroyed. Checker.mu is held.
func (j *judge) newLine(stream int32) *line {
	n := len(j.free)
	if n == 0 {
		j.free, n = append(j.free, uint32(len(j.lines))), 1
		j.lines = append(j.lines, new(line))
	}
	id := j.free[n-1]
	j.free = j.free[:n-1]
	old := j.lines[id]
	j.lines[id] = &line{id: id, stream: stream, submitted: old.submitted, mark: old.mark}
	return j.lines[id]
}
