//go:build linux

package arena

import "unsafe"

// peek reads the byte at an address of the window, as a program would.
//
//go:noinline
func peek(addr uintptr) byte { return **(**byte)(unsafe.Pointer(&addr)) }
