package signal

import (
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// cntNotify is a 32-bit number that records change and waits compare. Tasks that need it hold its cell.
type cntNotify struct {
	handle core.Handle   // immutable
	id     uint32        // immutable
	device int32         // immutable; user id
	used   *atomic.Int32 // immutable; the counter of ids that counts it
	cell   *cell         // immutable
}

// findCntNotify returns the count notify of a handle.
func findCntNotify(t *core.Thread, api, arg string, h core.Handle) (*cntNotify, *core.Error) {
	if n := signalsOf(t.Runtime).cntNotifies.Get(h); n != nil {
		return n, nil
	}
	return nil, core.Fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no count notify, or one that was destroyed",
		uintptr(h)).Because(core.Gone, uintptr(h))
}

// CntNotifyCreate is aclrtCntNotifyCreate.
func CntNotifyCreate(t *core.Thread, created *core.Handle, flag uint64) *core.Error {
	const api = "aclrtCntNotifyCreate"
	c, err := checkCntNotifyCreate(t, created, flag)
	if err != nil {
		return err
	}
	id, used := numberNotify(t.Runtime, c.Device)
	if used == nil {
		return noNotifies(api, c.Device)
	}
	n := &cntNotify{id: id, device: c.Device.User, used: used, cell: newCell(1)}
	if n.handle = signalsOf(t.Runtime).cntNotifies.Add(n); n.handle == 0 {
		used.Add(-1)
		return core.Fail(api, abi.ErrRTNoNotifyResource, "",
			"the process has as many count notifies as there are handles; destroy some")
	}
	*created = n.handle
	t.Acquired(n.resource())
	return nil
}

// resource describes n to the checker.
func (n *cntNotify) resource() core.Resource {
	return core.Resource{Kind: core.CountNotifyHandle, Name: uintptr(n.handle), Number: int32(n.id), Device: n.device}
}

// CntNotifyDestroy is aclrtCntNotifyDestroy. Queued records and waits still run.
func CntNotifyDestroy(t *core.Thread, cntNotify core.Handle) *core.Error {
	const api = "aclrtCntNotifyDestroy"
	n, err := checkCntNotifyDestroy(t, cntNotify)
	if err != nil {
		return err
	}
	return t.Releasing(n.resource(), func() *core.Error {
		if signalsOf(t.Runtime).cntNotifies.Remove(cntNotify) == nil {
			return core.Fail(api, abi.ErrRTInvalidHandle, "cntNotify", "%#x was destroyed by another thread meanwhile",
				uintptr(cntNotify)).Because(core.Gone, uintptr(cntNotify))
		}
		n.used.Add(-1)
		n.cell.release()
		return nil
	})
}

// CntNotifyRecord is aclrtCntNotifyRecord.
func CntNotifyRecord(t *core.Thread, cntNotify, stream core.Handle, info *abi.CntNotifyRecordInfo) *core.Error {
	const api = "aclrtCntNotifyRecord"
	n, s, _, err := checkCntNotifyRecord(t, cntNotify, stream, info)
	if err != nil {
		return err
	}
	change := changeOf(info.Mode, info.Value)
	return recordCell(t, api, s, n.cell, cntNotify, func(w []atomic.Uint64) {
		w[0].Store(uint64(change(uint32(w[0].Load()))))
	})
}

// changeOf returns the effect of a record on the value; nil for an unknown mode. Mode 4 keeps the given bits, as
// documented, and does not clear them.
func changeOf(mode abi.CntNotifyRecordMode, given uint32) func(value uint32) uint32 {
	switch mode {
	case abi.CntNotifyRecordSetValueMode:
		return func(uint32) uint32 { return given }
	case abi.CntNotifyRecordAddMode:
		return func(v uint32) uint32 { return v + given }
	case abi.CntNotifyRecordBitOrMode:
		return func(v uint32) uint32 { return v | given }
	case abi.CntNotifyRecordBitAndMode:
		return func(v uint32) uint32 { return v & given }
	}
	return nil
}

// CntNotifyWaitWithTimeout is aclrtCntNotifyWaitWithTimeout: the stream waits, the host does not.
func CntNotifyWaitWithTimeout(t *core.Thread, cntNotify, stream core.Handle, info *abi.CntNotifyWaitInfo) *core.Error {
	const api = "aclrtCntNotifyWaitWithTimeout"
	n, s, _, err := checkCntNotifyWaitWithTimeout(t, cntNotify, stream, info)
	if err != nil {
		return err
	}
	met, clears := conditionOf(info.Mode, info.Value), info.IsClear != 0
	w := &cellWait{c: n.cell, met: func(w []atomic.Uint64) bool {
		ok := met(uint32(w[0].Load()))
		if ok && clears {
			w[0].Store(0)
		}
		return ok
	}}
	return waitCell(t, api, s, w, cntNotify, notifyTimeout(t.Runtime, info.Timeout))
}

// conditionOf returns the condition of a wait; nil for an unknown mode.
func conditionOf(mode abi.CntNotifyWaitMode, given uint32) func(value uint32) bool {
	switch mode {
	case abi.CntNotifyWaitLessMode:
		return func(v uint32) bool { return v < given }
	case abi.CntNotifyWaitEqualMode:
		return func(v uint32) bool { return v == given }
	case abi.CntNotifyWaitBiggerMode:
		return func(v uint32) bool { return v > given }
	case abi.CntNotifyWaitBiggerOrEqualMode:
		return func(v uint32) bool { return v >= given }
	case abi.CntNotifyWaitEqualWithBitmaskMode:
		return func(v uint32) bool { return v&given == given }
	}
	return nil
}

// CntNotifyReset is aclrtCntNotifyReset.
func CntNotifyReset(t *core.Thread, cntNotify, stream core.Handle) *core.Error {
	const api = "aclrtCntNotifyReset"
	n, s, _, err := checkCntNotifyReset(t, cntNotify, stream)
	if err != nil {
		return err
	}
	return recordCell(t, api, s, n.cell, cntNotify, func(w []atomic.Uint64) { w[0].Store(0) })
}

// CntNotifyGetId is aclrtCntNotifyGetId.
func CntNotifyGetId(t *core.Thread, cntNotify core.Handle, notifyID *uint32) *core.Error {
	n, err := checkCntNotifyGetId(t, cntNotify, notifyID)
	if err != nil {
		return err
	}
	*notifyID = n.id
	return nil
}
