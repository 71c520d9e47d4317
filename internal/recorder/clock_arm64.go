package recorder

// counter reads the processor's counter of time.
//
//go:noescape
func counter() int64

// counts reports whether the counter is a clock. Here it is one by definition: all processors share it, at one rate.
func counts() bool { return true }
