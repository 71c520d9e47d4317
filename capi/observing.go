//go:build cgo

package main

// #include "shim/entry.h"
import "C"

import (
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/observe"
)

// observedAs is what the tracer calls each function, and 1; 0 as long as it was not asked.
var observedAs [len(functionNames)]atomic.Uint32

// startObserving finds out whether the runtime is traced.
func (p *process) startObserving() {
	if p.rt != nil {
		p.tracer = p.rt.Tracer()
	}
}

// numberOf is what the tracer calls a function.
func numberOf(f uint32) uint16 {
	number := observedAs[f].Load()
	if number == 0 {
		number = 1 + uint32(opening.tracer.Function(functionNames[f]))
		observedAs[f].Store(number)
	}
	return uint16(number - 1)
}

// observed carries out a call of a thread and reports it to the tracer.
func observed(function uint32, t *thread, a *slots) uint64 {
	f := function
	if function == C.ROPEWAY_WAIT && a[0] < uint64(len(waitedFor)) {
		f = waitedFor[a[0]] // in slices what a function of the API does at once
	}
	if f >= uint32(len(functionNames)) {
		return carryOut(function, t, a)
	}
	outer := t.Begin(t.calls(f))
	result := carryOut(function, t, a)
	code, state := abi.Success, observe.Returned
	if returnsCode[f] {
		code = abi.Code(int32(result))
	}
	if function == C.ROPEWAY_WAIT && *pointer[int32](a[3]) == 0 {
		state = observe.Continued
	}
	t.End(outer, code, state)
	return result
}
