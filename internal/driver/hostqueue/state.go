package hostqueue

import "fmt"

// State says which goroutine may do what with the tasks of a queue. A queue is in one state at a time.
type State uint32

const (
	Rest     State = iota // the host has nothing to do
	Inline                // a submitter runs its own operation; the list was empty when it began
	Ready                 // there are tasks, and the back end was asked for a goroutine to run them
	Running               // a goroutine runs the head of the list
	Starting              // a goroutine passes tasks to a device
	Ending                // a goroutine ends tasks that a device has completed
	Parked                // the head of the list waits for a flag, a condition, a time or a host function

	stateCount
)

var stateNames = [stateCount]string{"Rest", "Inline", "Ready", "Running", "Starting", "Ending", "Parked"}

func (s State) String() string { return stateNames[s] }

// transitions has a bit for each state that can follow a state. The package comment says when, and which goroutine
// does it; TestTransitions compares the two.
var transitions = [stateCount]uint32{
	Rest:     1<<Inline | 1<<Ready,
	Inline:   1<<Rest | 1<<Ready,
	Ready:    1<<Running | 1<<Starting | 1<<Ending,
	Running:  1<<Rest | 1<<Ready | 1<<Parked,
	Starting: 1<<Rest | 1<<Ready,
	Ending:   1<<Rest | 1<<Ready,
	Parked:   1 << Ready,
}

// The word of a queue is its state and three bits. It changes with Mu held, except for two transitions: from 0 to
// Inline, and from Inline to 0 by the submitter that made it Inline. So the common case, a small operation on a queue
// at rest, takes two atomic operations.
const (
	stateMask = 7

	// The end of the running task has to take Mu. If Inline: a task or a waiter came after the operation began. If
	// Running: a goroutine waits for, watches or has dropped the task.
	late   = 1 << 3
	shut   = 1 << 4 // submitted tasks are discarded, so nothing runs inline
	paused = 1 << 5 // nothing runs, inline or not, until Resume

	atRest = shut | paused // the bits that may be set in Rest
)

func stateOf(w uint32) State { return State(w & stateMask) }

// State returns the current state. Without Mu it changes only between Rest and Inline.
func (q *Queue) State() State { return stateOf(q.word.Load()) }

// TryInline makes q Inline if it is in Rest and neither shut nor paused. If it returns true, the caller must call
// EndInline.
func (q *Queue) TryInline() bool { return q.word.CompareAndSwap(uint32(Rest), uint32(Inline)) }

// EndInline ends an inline operation. Mu is free.
func (q *Queue) EndInline() {
	if !q.word.CompareAndSwap(uint32(Inline), uint32(Rest)) {
		q.endLate()
	}
}

// become changes the state. Mu is held, and the state is not one that changes without it.
func (q *Queue) become(to State) {
	w := q.word.Load()
	q.legal(stateOf(w), to)
	q.word.Store(uint32(to) | w&atRest)
}

func (q *Queue) legal(from, to State) {
	if transitions[from]&(1<<to) == 0 {
		Bug(fmt.Sprintf("a queue goes from %v to %v", from, to))
	}
}

// Activate makes q Ready if it is in Rest, and reports whether it did; the caller must then call Schedule. In state
// Inline the submitter does both when its operation ends. Mu is held.
func (q *Queue) Activate() bool {
	for {
		w := q.word.Load()
		switch stateOf(w) {
		case Rest:
			if q.word.CompareAndSwap(w, uint32(Ready)|w&atRest) {
				return true
			}
		case Inline:
			if q.word.CompareAndSwap(w, w|late) {
				return false
			}
		default:
			return false
		}
	}
}

// watch makes the end of a running task take Mu, and returns the state. Mu is held.
func (q *Queue) watch() State {
	for {
		w := q.word.Load()
		s := stateOf(w)
		if s != Inline && s != Running || q.word.CompareAndSwap(w, w|late) {
			return s
		}
	}
}

// Claim gives the caller the right to run by changing the state from Ready to Running, Starting or Ending. It fails if
// another goroutine has the right, if there is nothing to do, or if q is paused. Mu is held.
func (q *Queue) Claim(to State) bool {
	w := q.word.Load()
	if stateOf(w) != Ready || w&paused != 0 {
		return false
	}
	q.become(to)
	return true
}
