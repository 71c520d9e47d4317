package dl

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/ebitengine/purego"
)

// Symbol is the address of a C function, for [Call]; one that is missing is an error.
func (l *Library) Symbol(name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w", l.name, name, err)
	}
	return p, nil
}

// mostArgs is how many arguments a call takes.
const mostArgs = 14

var callArgs = sync.Pool{New: func() any { return new([mostArgs]uintptr) }}

// Call calls the C function at fn with up to 14 words and returns the word it returned. It allocates
// nothing. What an argument points to must not be on a stack, and the caller keeps it alive.
func Call(fn uintptr, args ...uintptr) uintptr {
	a := callArgs.Get().(*[mostArgs]uintptr)
	n := copy(a[:], args)
	r, _, _ := purego.SyscallN(fn, a[:n]...)
	callArgs.Put(a)
	return r
}

// CallInt is Call for a function that returns an int. It takes half the time, and touches less memory, which counts
// where a call is made now and then.
func CallInt(fn uintptr, args ...uintptr) int32 {
	if fn == 0 || len(args) > mostArgs {
		panic("BUG: no function, or too many arguments")
	}
	return callInt(fn, args)
}
