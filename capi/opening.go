//go:build cgo

package main

// #define _GNU_SOURCE
// #include <stdlib.h>
// #include "shim/entry.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/check"
	"ropeway/internal/core"
	"ropeway/internal/kernel/native"
	"ropeway/internal/observe"
	"ropeway/internal/setup"
	_ "ropeway/internal/setup/checker"    // ROPEWAY_CHECK
	_ "ropeway/internal/setup/cudadriver" // ROPEWAY_DRIVER=cuda
	"ropeway/internal/setup/podservers"   // ROPEWAY_POD
	"ropeway/internal/symbol"
)

func init() {
	podservers.CloseInChild(closeInChild)
	setup.RegisterLocator(func() setup.Locator { return symbol.New().Locate }) // callers of C functions are addresses
}

// A process that ends waits for its copies for quietLimit, and for a kernel, which may be endless, for kernelLimit.
// Work that took too long is not waited for again: later work gets againLimit.
const (
	quietLimit  = 10 * time.Second
	kernelLimit = 2 * time.Second
	againLimit  = time.Second
)

// opening is the runtime of the process, opened by the first thread that calls.
var opening process

type process struct {
	once sync.Once
	rt   *core.Runtime // nil if it could not be opened
	code abi.Code      // result of every call in that case
	why  *C.char       // result of aclGetRecentErrMsg in that case

	check  *check.Checker // nil unless the program is checked
	tracer observe.Tracer // nil unless the program is recorded

	ending atomic.Pointer[bool] // whether quiet gave up; nil: not called yet
}

// runtime returns the runtime of the process; nil if it cannot be opened, which is reported once on standard error.
func (p *process) runtime() *core.Runtime {
	p.once.Do(func() {
		p.code = abi.ErrInternalError // in case the following code panics
		s, err := setup.Read(environment)
		if err == nil {
			s.Shade = shade()
			p.rt, err = s.Open(os.Stderr)
			p.startChecking()
			p.startObserving()
		}
		if err == nil {
			return
		}
		lines := []string{err.Error()}
		var bad *setup.Error
		if errors.As(err, &bad) {
			p.code, lines = bad.Code, bad.Lines
		}
		p.why = cString(err.Error())
		for _, line := range lines {
			fmt.Fprintln(os.Stderr, "ropeway:", line)
		}
	})
	return p.rt
}

// refuse returns the result of a call if there is no runtime.
func (p *process) refuse(function uint32) uint64 {
	switch {
	case function == C.ROPEWAY_aclGetRecentErrMsg:
		return uint64(uintptr(unsafe.Pointer(p.why)))
	case returnsCode[function]:
		return uint64(p.code)
	}
	return 0
}

// quiet waits at the end of the process until no copy is running. It is called more than once: when main's thread
// ends, and after exit has run the handlers of the program. At the first call the process may go on, if it has other
// threads; then the work queued by main's thread is kept.
func (p *process) quiet() {
	if rt := p.runtime(); rt != nil {
		limit, kernels, again := quietLimit, kernelLimit, p.ending.Load() != nil
		if before := p.ending.Load(); again && *before {
			limit, kernels = againLimit, 0
		}
		overdue, end := native.Overdue(kernels)
		gaveUp := rt.Quiet(limit, overdue, again || onlyThread())
		end()
		p.ending.Store(&gaveUp)
		if p.tracer != nil {
			p.tracer.Ended()
		}
	}
}

// environment looks a variable up in C's environment: Go's copy lacks variables that the program has set since it
// began. In a program with more rights than its caller no variable is set.
func environment(name string) (string, bool) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	v := C.secure_getenv(n)
	return C.GoString(v), v != nil
}

// onlyThread reports whether at most one registered thread is alive.
func onlyThread() bool {
	threads.mu.Lock()
	defer threads.mu.Unlock()
	return len(threads.live) <= 1
}
