package check

// clock says of each line (a stream's queue) how many of its tasks have happened: task n of line i has if clock[i] >=
// n.
type clock []uint64

func (c clock) has(line uint32, n uint64) bool { return int(line) < len(c) && c[line] >= n }

// raise makes task n of a line happened, and all before it.
func (c *clock) raise(line uint32, n uint64) {
	for int(line) >= len(*c) {
		*c = append(*c, 0)
	}
	(*c)[line] = max((*c)[line], n)
}

// join adds what has happened according to o.
func (c *clock) join(o clock) {
	for len(*c) < len(o) {
		*c = append(*c, 0)
	}
	for i, n := range o {
		(*c)[i] = max((*c)[i], n)
	}
}

// covers reports whether everything in o is in c.
func (c clock) covers(o clock) bool {
	for i, n := range o {
		if n > 0 && !c.has(uint32(i), n) {
			return false
		}
	}
	return true
}

func (c clock) clone() clock { return append(clock(nil), c...) }
