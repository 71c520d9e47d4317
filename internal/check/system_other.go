//go:build !linux

package check

// systemThread returns 0: the number of the calling thread is not known here.
func systemThread() uint32 { return 0 }

// isMapped returns false: mappings are not known here.
func isMapped(uintptr) bool { return false }
