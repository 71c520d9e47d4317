//go:build cgo

package main

// #include "shim/entry.h"
import "C"

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// wait waits with a timeout, for a front end that checks for signals in between (Python: Ctrl-C). Slots: kind of the
// object, its handle, milliseconds, address of the result "over". A timeout is not an error and is not recorded.
func wait(t *thread, a *slots) uint64 {
	ms := int32(a[2])
	limit := core.WaitLimit{Timeout: time.Duration(ms) * time.Millisecond}
	var err *core.Error
	switch a[0] {
	case C.ROPEWAY_WAIT_STREAM:
		err = t.SynchronizeStreamWithin(core.Handle(a[1]), limit)
	case C.ROPEWAY_WAIT_EVENT:
		err = t.SynchronizeEventWithin(core.Handle(a[1]), limit)
	case C.ROPEWAY_WAIT_DEVICE:
		err = t.SynchronizeDeviceWithin(limit)
	case C.ROPEWAY_WAIT_REPORT:
		err = t.ProcessReport(ms)
	}
	if err != nil && timedOut(err.Code) {
		*pointer[int32](a[3]) = 0
		return 0
	}
	return uint64(t.Done(err))
}

// timedOut reports whether a wait ended by its timeout.
func timedOut(code abi.Code) bool {
	switch code {
	case abi.ErrRTStreamSyncTimeout, abi.ErrRTEventSyncTimeout, abi.ErrRTReportTimeout:
		return true
	}
	return false
}
