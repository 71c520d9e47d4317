package ropeway

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// CountNotify is a number of 32 bits, 0 at first, that streams change and wait for. As with a [Notify], a wait may be queued before the
// changes it waits for. Only some products have it (950).
type CountNotify struct {
	d *Device
	h core.Handle
}

// NewCountNotify makes a count notify.
func (d *Device) NewCountNotify() (*CountNotify, error) {
	n := &CountNotify{d: d}
	if err := d.t.CntNotifyCreate(&n.h, 0); err != nil {
		return nil, d.answer(err)
	}
	return n, nil
}

// Close ends the count notify. What is queued with it goes on.
func (n *CountNotify) Close() error { return n.d.answer(n.d.t.CntNotifyDestroy(n.h)) }

// Change is what [Stream.RecordCount] does to the number.
type Change = abi.CntNotifyRecordMode

// Changes; v is the value of the call.
const (
	SetCount = abi.CntNotifyRecordSetValueMode // the number becomes v
	AddCount = abi.CntNotifyRecordAddMode      // v is added; numbers go round
	SetBits  = abi.CntNotifyRecordBitOrMode    // the bits of v are set
	KeepBits = abi.CntNotifyRecordBitAndMode   // the bits that are not in v are cleared
)

// RecordCount queues a change of the number: it happens when everything queued before it is done.
func (s *Stream) RecordCount(n *CountNotify, how Change, v uint32) error {
	if n.d.r != s.d.r {
		return misuse("aclrtCntNotifyRecord", "cntNotify", otherRuntime)
	}
	return s.d.answer(s.d.t.CntNotifyRecord(n.h, s.h, &abi.CntNotifyRecordInfo{Mode: how, Value: v}))
}

// CountCondition is what a [CountWait] asks of the number. Unlike those of a [Condition], numbers do not go round.
type CountCondition = abi.CntNotifyWaitMode

// Conditions of a count; v is the value of the wait.
const (
	CountBelow   = abi.CntNotifyWaitLessMode             // the number is less than v
	CountEqual   = abi.CntNotifyWaitEqualMode            // the number is v
	CountAbove   = abi.CntNotifyWaitBiggerMode           // the number is greater than v
	CountAtLeast = abi.CntNotifyWaitBiggerOrEqualMode    // the number is v or greater
	CountHasBits = abi.CntNotifyWaitEqualWithBitmaskMode // all bits of v are set
)

// CountWait says what [Stream.WaitCount] waits for.
type CountWait struct {
	Is      CountCondition
	Value   uint32
	Clear   bool          // the wait makes the number 0 when it ends, in one step with the look at it
	Timeout time.Duration // after it the stream fails instead of waiting on; whole seconds, rounded up; 0 is for ever
}

// WaitCount makes what is queued from now on wait until the number fulfils a condition. The caller does not wait.
func (s *Stream) WaitCount(n *CountNotify, w CountWait) error {
	const api = "aclrtCntNotifyWaitWithTimeout"
	if n.d.r != s.d.r {
		return misuse(api, "cntNotify", otherRuntime)
	}
	limit, err := seconds(api, w.Timeout)
	if err != nil {
		return err
	}
	info := abi.CntNotifyWaitInfo{Mode: w.Is, Value: w.Value, Timeout: limit}
	if w.Clear {
		info.IsClear = 1
	}
	return s.d.answer(s.d.t.CntNotifyWaitWithTimeout(n.h, s.h, &info))
}
