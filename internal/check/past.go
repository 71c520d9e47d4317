package check

import "ropeway/internal/check/shadow"

// past is an access that has been made, with the facts that a finding needs.
type (
	past  = shadow.Access[maker]
	cell  = shadow.Cell[maker]
	clock = shadow.Clock
)

// maker is the origin of an access.
type maker struct {
	from  origin
	early *earlyWait // the wait that should have ordered the access, and did not
}

// Like implements shadow.Owner.
func (m maker) Like(o maker) bool { return stackOf(m.from) == stackOf(o.from) }

// Values of past.Way: what made the access.
const (
	byTask uint8 = iota
	byHost       // a function of the program, in the order of its stream
	frees        // a free of pool memory
	gives        // an allocation of pool memory
)

// wordBytes is the size of the value that aclrtValueWrite writes.
const wordBytes = 8
