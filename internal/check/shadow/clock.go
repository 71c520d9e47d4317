package shadow

// Clock says of each line (a stream's queue) how many of its tasks have happened: task n of line i has if c[i] >=
// n.
type Clock []uint64

// Has reports whether task n of a line has happened.
func (c Clock) Has(line uint32, n uint64) bool { return int(line) < len(c) && c[line] >= n }

// Raise makes task n of a line happened, and all before it.
func (c *Clock) Raise(line uint32, n uint64) {
	for int(line) >= len(*c) {
		*c = append(*c, 0)
	}
	(*c)[line] = max((*c)[line], n)
}

// Join adds what has happened according to o.
func (c *Clock) Join(o Clock) {
	for len(*c) < len(o) {
		*c = append(*c, 0)
	}
	for i, n := range o {
		(*c)[i] = max((*c)[i], n)
	}
}

// Covers reports whether everything in o is in c.
func (c Clock) Covers(o Clock) bool {
	for i, n := range o {
		if n > 0 && !c.Has(uint32(i), n) {
			return false
		}
	}
	return true
}

// Clone returns a copy of the clock.
func (c Clock) Clone() Clock { return append(Clock(nil), c...) }
