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
// What took too long then is not waited for again: there is againLimit for what has come since.
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
	code abi.Code      // what every call returns then
	why  *C.char       // and what aclGetRecentErrMsg says

	check  *check.Checker // nil unless the program is checked
	tracer observe.Tracer // nil unless the program is recorded

	ending atomic.Pointer[bool] // whether quiet gave up; nil: it was not called yet
}

// runtime is the runtime of the process; nil if it cannot be opened, which is said once on standard error.
func (p *process) runtime() *core.Runtime {
	p.once.Do(func() {
		p.code = abi.ErrInternalError // if what follows does not return
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

// refuse is the result of a call when there is no runtime.
func (p *process) refuse(function uint32) uint64 {
	switch {
	case function == C.ROPEWAY_aclGetRecentErrMsg:
		return uint64(uintptr(unsafe.Pointer(p.why)))
	case returnsCode[function]:
		return uint64(p.code)
	}
	return 0
}

// quiet returns when nothing copies any more: the process ends. That is asked for more than once: when main's thread
// ends, and when exit has run the handlers of the program. The first may be no end of the process, if there are other
// threads; they keep what main's thread has queued.
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

// environment looks a variable up where C does: what the program has set since it began is not in Go's copy. In a
// program with more rights than its caller none is set.
func environment(name string) (string, bool) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	v := C.secure_getenv(n)
	return C.GoString(v), v != nil
}

// onlyThread reports whether no other thread than one has called and lives.
func onlyThread() bool {
	threads.mu.Lock()
	defer threads.mu.Unlock()
	return len(threads.live) <= 1
}
