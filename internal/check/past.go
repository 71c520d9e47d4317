package check

import "ropeway/internal/check/shadow"

// past is an access that has been made: what a finding needs to know of it.
type (
	past  = shadow.Access[maker]
	cell  = shadow.Cell[maker]
	clock = shadow.Clock
)

// maker is what made an access.
type maker struct {
	from  origin
	early *earlyWait // what was to order it, and does not
}

// Like implements shadow.Owner.
func (m maker) Like(o maker) bool { return stackOf(m.from) == stackOf(o.from) }

// past.Way is what made an access.
const (
	byTask uint8 = iota
	byHost       // a function of the program, in the order of the stream
	frees        // memory of a pool went
	gives        // memory of a pool came
)

// wordBytes is the size of what aclrtValueWrite writes.
const wordBytes = 8
