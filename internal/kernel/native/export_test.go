package native

// SetMostSeen changes how many touched pages are seen, to fewer, and returns what undoes that.
func SetMostSeen(n uint32) (undo func()) {
	was := mostSeen
	mostSeen = n
	return func() { mostSeen = was }
}
