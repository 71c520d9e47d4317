package ascend

import (
	"time"

	"ropeway"
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/signal"
	"ropeway/internal/goapi"
)

// CountNotify is a number of 32 bits, 0 at first, that streams change and wait for. As with a [ropeway.Notify], a
// wait may be queued before the changes it waits for. Only some products have it (950).
type CountNotify struct {
	t *core.Thread // of its device
	h core.Handle
}

// NewCountNotify returns a new count notify, which is 0.
func NewCountNotify(d *ropeway.Device) (*CountNotify, error) {
	t, _ := goapi.Device(d)
	n := &CountNotify{t: t}
	if err := signal.CntNotifyCreate(t, &n.h, 0); err != nil {
		return nil, goapi.Result(t, err)
	}
	return n, nil
}

// Close closes the count notify. Work queued with it still runs.
func (n *CountNotify) Close() error { return goapi.Result(n.t, signal.CntNotifyDestroy(n.t, n.h)) }

// Change is a change of the number by [RecordCount].
type Change int32

// Changes; v is the value of the call.
const (
	SetCount Change = Change(abi.CntNotifyRecordSetValueMode) // the number becomes v
	AddCount Change = Change(abi.CntNotifyRecordAddMode)      // v is added, modulo 2^32
	SetBits  Change = Change(abi.CntNotifyRecordBitOrMode)    // the bits of v are set
	KeepBits Change = Change(abi.CntNotifyRecordBitAndMode)   // the bits that are not in v are cleared
)

// RecordCount queues a change of the number, which is made when all earlier work on the stream is done.
func RecordCount(s *ropeway.Stream, n *CountNotify, how Change, v uint32) error {
	q := on(s, "aclrtCntNotifyRecord")
	if n.t.Runtime != q.t.Runtime {
		return q.misuse("cntNotify", otherRuntime)
	}
	return q.result(signal.CntNotifyRecord(q.t, n.h, q.h, &abi.CntNotifyRecordInfo{Mode: abi.CntNotifyRecordMode(how),
		Value: v}))
}

// CountCondition is the condition of a [CountWait]. Unlike in a [ropeway.Condition], comparisons do not wrap around.
type CountCondition int32

// Conditions of a count; v is the value of the wait.
const (
	CountBelow   CountCondition = CountCondition(abi.CntNotifyWaitLessMode)             // the number is less than v
	CountEqual   CountCondition = CountCondition(abi.CntNotifyWaitEqualMode)            // the number is v
	CountAbove   CountCondition = CountCondition(abi.CntNotifyWaitBiggerMode)           // the number is greater than v
	CountAtLeast CountCondition = CountCondition(abi.CntNotifyWaitBiggerOrEqualMode)    // the number is v or greater
	CountHasBits CountCondition = CountCondition(abi.CntNotifyWaitEqualWithBitmaskMode) // all bits of v are set
)

// CountWait is a wait of [WaitCount].
type CountWait struct {
	Is      CountCondition
	Value   uint32
	Clear   bool          // the wait sets the number to 0 when it ends, atomically with the comparison
	Timeout time.Duration // limit after which the stream fails; whole seconds, rounded up; 0: none
}

// WaitCount makes later work of the stream wait until the number satisfies a condition. The caller does not wait.
func WaitCount(s *ropeway.Stream, n *CountNotify, w CountWait) error {
	q := on(s, "aclrtCntNotifyWaitWithTimeout")
	if n.t.Runtime != q.t.Runtime {
		return q.misuse("cntNotify", otherRuntime)
	}
	limit, err := q.seconds(w.Timeout)
	if err != nil {
		return err
	}
	info := abi.CntNotifyWaitInfo{Mode: abi.CntNotifyWaitMode(w.Is), Value: w.Value, Timeout: limit}
	if w.Clear {
		info.IsClear = 1
	}
	return q.result(signal.CntNotifyWaitWithTimeout(q.t, n.h, q.h, &info))
}
