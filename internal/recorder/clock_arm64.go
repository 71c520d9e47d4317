package recorder

// counter reads the processor's virtual counter.
//
//go:noescape
func counter() int64

// counts reports whether the counter is usable as a clock. On arm64 it is by definition: all processors share it, at
// a constant rate.
func counts() bool { return true }
