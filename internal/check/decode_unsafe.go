package check

import (
	"runtime"
	"unsafe"
)

// accessLength is how many bytes the instruction at pc touches.
func accessLength(pc uintptr) uintptr {
	if runtime.GOARCH != "amd64" || pc == 0 {
		return 1
	}
	// The processor has just read the instruction; what lies behind it may be the end of a page that is not there.
	n := longest
	if room := int(pageBytes - pc%pageBytes); room < n {
		n = room
	}
	return lengthOf(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&pc))), n))
}
