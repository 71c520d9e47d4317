package hostqueue

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"ropeway/internal/driver"
)

// Guarded stores a memory fault in *err. It must be deferred with the result of debug.SetPanicOnFault(true).
func Guarded(old bool, err *error) {
	if !old {
		debug.SetPanicOnFault(false)
	}
	if r := recover(); r != nil {
		*err = asFault(r)
	}
}

// asFault returns the error for a recovered memory fault; it repeats any other panic.
func asFault(r any) error {
	if e, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		return fmt.Errorf("%w: memory fault at %#x", driver.ErrFault, e.Addr())
	}
	panic(r)
}
