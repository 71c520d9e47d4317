package check

import "slices"

// Captures and models. The checker knows the call that began a capture and the call that captured each task of a model.
// The tasks of an execution are judged like all others, and count as submitted by the call that executes the model;
// findings about them also name the captured call.

// model is a capture, and the model made from it.
type model struct {
	id      uint32
	parent  *model              // the model with the condition task that this one belongs to; nil: none
	subs    []*model            // models of its condition tasks
	built   bool                // built by hand: its tasks may run in any order, often, or not at all
	device  int32               // user id; -1 if it is not known
	began   origin              // the call that began the capture
	open    bool                // the capture is not over
	streams []captured          // captured streams, in the order in which they joined
	tasks   []capturedTask      // in the order of submission
	runs    map[taskName]origin // executions launched that have not begun in hidden streams
	looked  uint64              // ledger.frees when all its memory was last seen to be allocated
	run     origin              // the execution that its hidden streams carry out
	before  *clock              // what came before that execution; nil: none runs
	last    *past               // the last execution that began in hidden streams; nil: none
	beside  *past               // an earlier one not ordered with last and not reported yet; nil: none
	parts   map[string]*part    // parts of its tasks, by their kernels
	faults  []fault             // tasks of it and its sub-models that are to fail; nil in a sub-model
	ran     launches            // executions
	slots   map[taskName]*slot  // kernels that have run or were updated, by hidden stream and number
}

// captured is a stream in a capture.
type captured struct {
	stream, own int32 // the program's stream, and the hidden one with the captured tasks
	joined      origin
}

// capturedTask is a task of a model: the call, and the memory that it touches.
type capturedTask struct {
	from   origin
	spans  []touched
	batch  bool      // a segment of a batch: its addresses need no alignment
	kernel string    // the kernel that it launches; "": none
	given  []uintptr // arguments of the kernel
	name   taskName  // its hidden stream and its number there
	fails  *injected // injected failure; nil: none
}

// touched is a range that a task of a model reads or writes.
type touched struct {
	lo, hi uintptr
	write  bool
	memory *allocation // allocation at lo when the task was captured; nil: none
}

// captured returns the program's stream whose tasks a hidden stream has, -1 if there is none.
func (m *model) captured(own int32) int32 {
	i := slices.IndexFunc(m.streams, func(s captured) bool { return s.own == own })
	if i < 0 {
		return -1
	}
	return m.streams[i].stream
}

// root returns the model whose executions run m, which is m unless m is a sub-model. m may be nil.
func (m *model) root() *model {
	for m != nil && m.parent != nil {
		m = m.parent
	}
	return m
}

// touching returns the task of a model, or of its sub-models, that touches [lo, hi) in the way how; "" is any. It
// prefers a task that touches exactly these bytes, then one that touches all of them, then the first that touches some;
// nil if there is none.
func (m *model) touching(lo, hi uintptr, how string) *capturedTask {
	t, _ := m.nearest(anyStream, lo, hi, how)
	return t
}

// anyStream is not a hidden stream: it stands for all of them.
const anyStream = -1

// nearest is touching for the tasks of one hidden stream or of anyStream. It also returns how near the task is: see
// touched.near.
func (m *model) nearest(own int32, lo, hi uintptr, how string) (best *capturedTask, near int) {
	for i := range m.tasks {
		if own != anyStream && m.tasks[i].name.stream != own {
			continue
		}
		for _, s := range m.tasks[i].spans {
			if n := s.near(lo, hi); n > near && (how == "" || how == does(s.write)) {
				if best, near = &m.tasks[i], n; n == nearExact {
					return best, near
				}
			}
		}
	}
	for _, sub := range m.subs {
		if t, n := sub.nearest(own, lo, hi, how); n > near {
			best, near = t, n
		}
	}
	return best, near
}

// Results of touched.near.
const (
	nearNot   = iota
	nearSome  // it touches some of them
	nearAll   // it touches all of them
	nearExact // it touches them and nothing else
)

// near returns how closely an access matches [lo, hi).
func (s *touched) near(lo, hi uintptr) int {
	switch {
	case s.lo == lo && s.hi == hi:
		return nearExact
	case s.lo <= lo && hi <= s.hi:
		return nearAll
	case s.lo < hi && lo < s.hi:
		return nearSome
	}
	return nearNot
}

// within reports whether m is a model, or belongs to a condition task in it, at any depth.
func (m *model) within(id uint32) bool {
	for ; m != nil; m = m.parent {
		if m.id == id {
			return true
		}
	}
	return false
}

// slotOf returns the slot of a task of a model, by its hidden stream and its number there. mu is held.
func (m *model) slotOf(own int32, number uint32) *slot {
	name := taskName{own, number}
	if m.slots[name] == nil {
		m.slots[name] = new(slot)
	}
	return m.slots[name]
}
