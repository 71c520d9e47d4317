package hostqueue

import "fmt"

// State says which goroutine may do what with the tasks of a queue. A queue is in one state at a time.
type State uint32

const (
	Rest     State = iota // there is nothing for the host to do
	Inline                // a submitter runs its own operation; there was nothing else when it began
	Ready                 // there is something to do, and no goroutine does it; the back end has been asked for one
	Running               // a goroutine runs the head of the list
	Starting              // a goroutine gives tasks to a device
	Ending                // a goroutine ends tasks that a device has done
	Parked                // the head of the list waits for a flag, a condition, a time or a host function

	stateCount
)

var stateNames = [stateCount]string{"Rest", "Inline", "Ready", "Running", "Starting", "Ending", "Parked"}

func (s State) String() string { return stateNames[s] }

// transitions has a bit for each state that a state can be followed by. docs/architecture.md says when, and which
// goroutine does it; a test compares the two.
var transitions = [stateCount]uint32{
	Rest:     1<<Inline | 1<<Ready,
	Inline:   1<<Rest | 1<<Ready,
	Ready:    1<<Running | 1<<Starting | 1<<Ending,
	Running:  1<<Rest | 1<<Ready | 1<<Parked,
	Starting: 1<<Rest | 1<<Ready,
	Ending:   1<<Rest | 1<<Ready,
	Parked:   1 << Ready,
}

// The word of a queue is its state and three bits. It changes with Mu held, but for two transitions: from 0 to Inline,
// and from Inline to 0 by the submitter that made it Inline. So the common case, a small operation on a queue at rest,
// is two atomic operations.
const (
	stateMask = 7

	// Inline: something has come meanwhile, and the end of the operation takes Mu. Running: a goroutine waits for or
	// watches what runs, or has dropped it, and the end of the task takes Mu.
	late   = 1 << 3
	shut   = 1 << 4 // what is submitted is discarded, so nothing runs inline
	paused = 1 << 5 // nothing runs, inline or not, until Resume

	atRest = shut | paused // what the word of a queue in Rest may have
)

func stateOf(w uint32) State { return State(w & stateMask) }

// State is the state at this moment. It changes without Mu only between Rest and Inline.
func (q *Queue) State() State { return stateOf(q.word.Load()) }

// TryInline makes q Inline, if it is in Rest and neither shut nor paused. EndInline has to follow.
func (q *Queue) TryInline() bool { return q.word.CompareAndSwap(uint32(Rest), uint32(Inline)) }

// EndInline ends what TryInline has begun. Mu is free.
func (q *Queue) EndInline() {
	if !q.word.CompareAndSwap(uint32(Inline), uint32(Rest)) {
		q.endLate()
	}
}

// become makes the transition to another state. Mu is held, and the state is none that changes without it.
func (q *Queue) become(to State) {
	w := q.word.Load()
	q.legal(stateOf(w), to)
	q.word.Store(uint32(to) | w&atRest)
}

func (q *Queue) legal(from, to State) {
	if transitions[from]&(1<<to) == 0 {
		panic(fmt.Sprintf("BUG: a queue goes from %v to %v", from, to))
	}
}

// Activate makes q Ready if it is in Rest, and reports whether it did: the back end is to be asked for a goroutine. A
// submitter that runs its own operation does that when it ends. Mu is held.
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

// watch sees to it that the end of what runs takes Mu, and returns the state it found. Mu is held.
func (q *Queue) watch() State {
	for {
		w := q.word.Load()
		s := stateOf(w)
		if s != Inline && s != Running || q.word.CompareAndSwap(w, w|late) {
			return s
		}
	}
}

// Claim takes the right to do what there is to do, for one of the states Running, Starting and Ending. It fails if
// another goroutine has it, if there is nothing to do, or if q is paused. Mu is held.
func (q *Queue) Claim(to State) bool {
	w := q.word.Load()
	if stateOf(w) != Ready || w&paused != 0 {
		return false
	}
	q.become(to)
	return true
}
