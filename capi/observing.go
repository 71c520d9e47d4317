//go:build cgo

package main

// #include "shim/entry.h"
import "C"

import (
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/observe"
)

// observedAs has the tracer's number for each function, plus 1; 0: not requested yet.
var observedAs [len(functionNames)]atomic.Uint32

// startObserving sets the tracer of the runtime, if it has one.
func (p *process) startObserving() {
	if p.rt != nil {
		p.tracer = p.rt.Tracer()
	}
}

// numberOf returns the tracer's number for a function.
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
		f = waitedFor[a[0]] // a slice of a wait by a function of the API
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
