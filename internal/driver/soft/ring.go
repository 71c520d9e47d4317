package soft

import "ropeway/internal/driver"

const (
	maxDepth  = 1 << 17 // tasks a queue holds before submitters wait
	keepDepth = 1 << 10 // larger rings are given back when they have run empty
)

// ring is a first-in first-out list of operations that grows as needed.
type ring struct {
	ops   []driver.Op // length a power of two, or 0
	first int
	n     int
}

func (r *ring) full() bool { return r.n >= maxDepth }

func (r *ring) push(op *driver.Op) {
	if r.n == len(r.ops) {
		grown := make([]driver.Op, max(16, 2*len(r.ops)))
		k := copy(grown, r.ops[r.first:])
		copy(grown[k:], r.ops[:r.first])
		r.ops, r.first = grown, 0
	}
	r.ops[(r.first+r.n)&(len(r.ops)-1)] = *op
	r.n++
}

func (r *ring) head() *driver.Op { return &r.ops[r.first] }

// pop moves the head into op and forgets what it pointed to.
func (r *ring) pop(op *driver.Op) {
	h := &r.ops[r.first]
	*op = *h
	*h = driver.Op{}
	r.first = (r.first + 1) & (len(r.ops) - 1)
	r.n--
}

// shrink gives a large ring's memory back. The ring is empty.
func (r *ring) shrink() {
	if len(r.ops) > keepDepth {
		*r = ring{}
	}
}
