//go:build cgo

package main

// #include <stdint.h>
// #include "shim/entry.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// ropeway_core_call is the entry point: see shim/entry.h.
//
//export ropeway_core_call
func ropeway_core_call(function C.uint32_t, t unsafe.Pointer, a unsafe.Pointer) C.uint64_t {
	if t != nil && opening.tracer != nil {
		return C.uint64_t(observed(uint32(function), (*thread)(t), (*slots)(a)))
	}
	return C.uint64_t(carryOut(uint32(function), (*thread)(t), (*slots)(a)))
}

// carryOut carries out a call. A panic ends the call, not the program: a wild pointer of the program, or a bug of ours.
// It is a function of its own because a deferred call costs twice as much in one that C calls.
func carryOut(function uint32, t *thread, a *slots) (result uint64) {
	defer catch(function, t, &result)
	debug.SetPanicOnFault(true) // for this goroutine; it only runs calls like this one
	if function >= uint32(len(functions)) {
		return ask(function, t, a)
	}
	if t == nil {
		result = opening.refuse(function)
		noSegment(function, a)
		return result
	}
	f := functions[function]
	if f == nil {
		return notBuilt(function, t, a)
	}
	if opening.check != nil {
		if code := opening.injected(function, t, a); code != 0 {
			noSegment(function, a)
			return code
		}
	}
	return f(t, a)
}

// noSegment writes SIZE_MAX to the failIndex of a batch that fails before the core looks at it.
func noSegment(function uint32, a *slots) {
	if function != C.ROPEWAY_aclrtMemcpyBatch && function != C.ROPEWAY_aclrtMemcpyBatchAsync {
		return
	}
	for i, q := range parameters[function] {
		if q.name == "failIndex" && a[i] != 0 {
			*pointer[uint64](a[i]) = math.MaxUint64
		}
	}
}

// ask carries out requests of the shim itself.
func ask(function uint32, t *thread, a *slots) uint64 {
	switch function {
	case C.ROPEWAY_TABLE_OF_CORE:
		return fingerprint
	case C.ROPEWAY_ENTER:
		return uint64(uintptr(unsafe.Pointer(enter(a))))
	case C.ROPEWAY_LEAVE:
		t.leave()
	case C.ROPEWAY_QUIET:
		opening.quiet()
	case C.ROPEWAY_WAIT:
		if t == nil {
			return uint64(opening.code)
		}
		return wait(t, a)
	case C.ROPEWAY_RETIRE:
		retire(a[0])
	case C.ROPEWAY_EXECUTIONS:
		if t != nil {
			return uint64(model.Executions(t.Runtime))
		}
	case C.ROPEWAY_KERNELS:
		useKernels(a)
	case C.ROPEWAY_SYMBOL, C.ROPEWAY_LOAD_FUNCTIONS:
		if t == nil {
			return uint64(opening.code)
		}
		return uint64(t.Done(besides(function, t, a)))
	case C.ROPEWAY_EMPTY:
	case C.ROPEWAY_NAME_FRAME:
		return uint64(nameFrame(C.GoString(pointer[C.char](a[0])), C.GoString(pointer[C.char](a[1]))))
	default:
		return askChecking(function, t, a)
	}
	return 0
}

// besides carries out functions for programs that are not in the table.
func besides(function uint32, t *thread, a *slots) *core.Error {
	if function == C.ROPEWAY_LOAD_FUNCTIONS {
		return loadFunctions(t, a)
	}
	return transfer.RegisterSymbol(t.Thread, core.Addr(a[0]), a[1], core.Addr(a[2]))
}

// besideNames are the names of these functions.
var besideNames = map[uint32]string{
	C.ROPEWAY_SYMBOL:         "ropewayRegisterSymbol",
	C.ROPEWAY_LOAD_FUNCTIONS: "ropeway_load_functions",
}

// catch turns a panic in a call into an error.
func catch(function uint32, t *thread, result *uint64) {
	p := recover()
	if p == nil {
		return
	}
	api, coded := called(function)
	if api != "" && t == nil {
		return // the result has been set
	}
	*result = 0
	if api == "" {
		fmt.Fprintf(os.Stderr, "ropeway: BUG: %v\n%s", p, debug.Stack())
		return
	}
	err := &core.Error{API: api, Index: -1}
	var fault interface{ Addr() uintptr }
	if e, ok := p.(error); ok && errors.As(e, &fault) {
		err.Code = abi.ErrInvalidParam
		err.Text = fmt.Sprintf("an argument points to memory that the process cannot access: %#x", fault.Addr())
	} else if isNil(p) {
		err.Code, err.Text = abi.ErrInvalidParam, "a pointer inside an argument is NULL or invalid"
	} else {
		err.Code, err.Text = abi.ErrInternalError, fmt.Sprintf("BUG: %v", p)
		fmt.Fprintf(os.Stderr, "ropeway: %v\n%s", err, debug.Stack())
	}
	if code := t.Done(err); coded {
		*result = uint64(code)
	}
}

// called returns the name of a function that programs call, and whether it returns an aclError; "" for requests of
// the shim.
func called(function uint32) (api string, coded bool) {
	if function < uint32(len(functions)) {
		return functionNames[function], returnsCode[function]
	}
	api, coded = besideNames[function]
	return api, coded
}

// isNil reports whether a panic is a fault in the first page of memory. Only pointers inside structures of the
// program can lead there; other pointers are checked before.
func isNil(p any) bool {
	e, ok := p.(runtime.Error)
	return ok && strings.Contains(e.Error(), "nil pointer dereference")
}

// said marks the functions that have already reported that they are not built.
var said [len(functionNames)]atomic.Bool

// notBuilt carries out a function that is not implemented: it checks the arguments, then reports that.
func notBuilt(function uint32, t *thread, a *slots) uint64 {
	api := functionNames[function]
	var args []uint64
	if n := len(parameters[function]); n > 0 { // else a is nil
		args = a[:n]
	}
	err := t.NotBuilt(api, args)
	if err != nil && err.Unbuilt && said[function].CompareAndSwap(false, true) {
		fmt.Fprintf(os.Stderr, "ropeway: %s %s; it returns ACL_ERROR_RT_FEATURE_NOT_SUPPORT (207000)\n", api,
			core.Unbuilt(api))
	}
	if code := t.Done(err); returnsCode[function] {
		return uint64(code)
	}
	return 0
}
