//go:build !linux

// Package system asks the operating system about the calling thread and about memory.
package system

// Thread is the system's number of the calling thread, which is not known here.
func Thread() uint32 { return 0 }

// IsMapped reports whether the process has something mapped at an address, which is not known here.
func IsMapped(uintptr) bool { return false }
