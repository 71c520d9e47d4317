package dl

import "unsafe"

// cText is text as C has it, on the heap.
func cText(s string) []byte { return append([]byte(s), 0) }

// kept makes what cAddr is asked for escape.
var kept []byte

func cAddr(b []byte) uintptr {
	kept = b
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}
