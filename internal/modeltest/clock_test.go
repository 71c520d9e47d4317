package modeltest

// Which work is ordered is a matter of vector clocks. The host submits everything, so whatever the host knows to be
// done is before whatever it submits later; what it did itself is too. Component i of a clock is how many tasks of
// stream i are known to be over.

// clock is a vector clock; missing components are 0.
type clock []uint64

func (c clock) at(i int) uint64 {
	if i < len(c) {
		return c[i]
	}
	return 0
}

// join is the knowledge of both.
func join(a, b clock) clock {
	if len(a) < len(b) {
		a, b = b, a
	}
	sum := append(clock(nil), a...)
	for i, n := range b {
		sum[i] = max(sum[i], n)
	}
	return sum
}

// with is c with component i raised to n.
func (c clock) with(i int, n uint64) clock {
	one := make(clock, i+1)
	one[i] = n
	return join(c, one)
}
