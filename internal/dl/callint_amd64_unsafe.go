//go:build amd64

package dl

import "unsafe"

// frame is what plain reads.
type frame struct {
	fn   uintptr
	args [mostArgs]uintptr
}

// plainAddr is the address of plain, as C sees it.
var plainAddr unsafe.Pointer

// cgocall calls a function of C, on a stack of C's, with the address of what it takes.
//
//go:linkname cgocall runtime.cgocall
//go:noescape
func cgocall(fn, arg unsafe.Pointer) int32

// callInt is CallInt. What C returns comes back in a register, so the frame may be on the stack.
func callInt(fn uintptr, args []uintptr) int32 {
	f := frame{fn: fn}
	copy(f.args[:], args)
	return cgocall(plainAddr, unsafe.Pointer(&f))
}
