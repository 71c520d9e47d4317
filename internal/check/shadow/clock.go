package shadow

// Clock has for each line (a stream's queue) the number of its tasks that have happened: task n of line i has if c[i]
// >= n.
type Clock []uint64

// Has reports whether task n of a line has happened.
func (c Clock) Has(line uint32, n uint64) bool { return int(line) < len(c) && c[line] >= n }

// Raise adds task n of a line, and all before it.
func (c *Clock) Raise(line uint32, n uint64) {
	for int(line) >= len(*c) {
		*c = append(*c, 0)
	}
	(*c)[line] = max((*c)[line], n)
}

// Join adds all tasks in o.
func (c *Clock) Join(o Clock) {
	for len(*c) < len(o) {
		*c = append(*c, 0)
	}
	for i, n := range o {
		(*c)[i] = max((*c)[i], n)
	}
}

// Covers reports whether all tasks in o are in c.
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
