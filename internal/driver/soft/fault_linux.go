package soft

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"ropeway/internal/driver"
)

// guarded, deferred with what debug.SetPanicOnFault(true) returned, turns a memory fault into *err.
func guarded(old bool, err *error) {
	if !old {
		debug.SetPanicOnFault(false)
	}
	if r := recover(); r != nil {
		*err = asFault(r)
	}
}

// asFault is the error for a recovered memory fault; any other panic goes on.
func asFault(r any) error {
	if e, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		return fmt.Errorf("%w: memory fault at %#x", driver.ErrFault, e.Addr())
	}
	panic(r)
}
