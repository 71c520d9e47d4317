//go:build !linux

package check

// threadNumber is the system's number of the calling thread, which is not known here.
func threadNumber() uint32 { return 0 }

// isMapped reports whether the program has something mapped at an address, which is not known here.
func isMapped(uintptr) bool { return false }
