package core

import (
	"sync/atomic"

	"ropeway/internal/abi"
)

// cntNotify is a number of 32 bits that records change and waits compare. Tasks that need it keep its cell.
type cntNotify struct {
	handle Handle        // immutable
	id     uint32        // immutable
	device int32         // immutable; user id
	used   *atomic.Int32 // immutable; the counter of ids it is in
	cell   *cell         // immutable
}

// cntNotify finds the count notify a handle names.
func (t *Thread) cntNotify(api, arg string, h Handle) (*cntNotify, *Error) {
	if n := signalsOf(t.rt).cntNotifies.get(h); n != nil {
		return n, nil
	}
	return nil, fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no count notify, or one that was destroyed", uintptr(h)).because(Gone, uintptr(h))
}

// CntNotifyCreate is aclrtCntNotifyCreate.
func (t *Thread) CntNotifyCreate(created *Handle, flag uint64) *Error {
	const api = "aclrtCntNotifyCreate"
	c, err := t.checkCntNotifyCreate(created, flag)
	if err != nil {
		return err
	}
	id, used := t.rt.numberNotify(c.dev)
	if used == nil {
		return noNotifies(api, c.dev)
	}
	n := &cntNotify{id: id, device: c.dev.user, used: used, cell: newCell(1)}
	if n.handle = signalsOf(t.rt).cntNotifies.add(n); n.handle == 0 {
		used.Add(-1)
		return fail(api, abi.ErrRTNoNotifyResource, "", "the process has as many count notifies as there are handles; destroy some")
	}
	*created = n.handle
	t.given(n.resource())
	return nil
}

// resource is n as a watcher knows it.
func (n *cntNotify) resource() Resource {
	return Resource{Kind: CountNotifyHandle, Name: uintptr(n.handle), Number: int32(n.id), Device: n.device}
}

// CntNotifyDestroy is aclrtCntNotifyDestroy. Records and waits that are queued go on.
func (t *Thread) CntNotifyDestroy(cntNotify Handle) *Error {
	const api = "aclrtCntNotifyDestroy"
	n, err := t.checkCntNotifyDestroy(cntNotify)
	if err != nil {
		return err
	}
	return t.gives(n.resource(), func() *Error {
		if signalsOf(t.rt).cntNotifies.remove(cntNotify) == nil {
			return fail(api, abi.ErrRTInvalidHandle, "cntNotify", "%#x was destroyed by another thread meanwhile", uintptr(cntNotify)).because(Gone, uintptr(cntNotify))
		}
		n.used.Add(-1)
		n.cell.release()
		return nil
	})
}

// CntNotifyRecord is aclrtCntNotifyRecord.
func (t *Thread) CntNotifyRecord(cntNotify, stream Handle, info *abi.CntNotifyRecordInfo) *Error {
	const api = "aclrtCntNotifyRecord"
	n, s, _, err := t.checkCntNotifyRecord(cntNotify, stream, info)
	if err != nil {
		return err
	}
	change := changeOf(info.Mode, info.Value)
	return t.recordCell(api, s, n.cell, cntNotify, func(w []atomic.Uint64) {
		w[0].Store(uint64(change(uint32(w[0].Load()))))
	})
}

// changeOf is what a record does to the value; nil if there is no such mode. Mode 4 keeps the bits that are given, as the documents
// say, and does not clear them.
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
func (t *Thread) CntNotifyWaitWithTimeout(cntNotify, stream Handle, info *abi.CntNotifyWaitInfo) *Error {
	const api = "aclrtCntNotifyWaitWithTimeout"
	n, s, _, err := t.checkCntNotifyWaitWithTimeout(cntNotify, stream, info)
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
	return t.waitCell(api, s, w, cntNotify, t.rt.notifyTimeout(info.Timeout))
}

// conditionOf is what a wait asks of the value; nil if there is no such mode.
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
func (t *Thread) CntNotifyReset(cntNotify, stream Handle) *Error {
	const api = "aclrtCntNotifyReset"
	n, s, _, err := t.checkCntNotifyReset(cntNotify, stream)
	if err != nil {
		return err
	}
	return t.recordCell(api, s, n.cell, cntNotify, func(w []atomic.Uint64) { w[0].Store(0) })
}

// CntNotifyGetId is aclrtCntNotifyGetId.
func (t *Thread) CntNotifyGetId(cntNotify Handle, notifyID *uint32) *Error {
	n, err := t.checkCntNotifyGetId(cntNotify, notifyID)
	if err != nil {
		return err
	}
	*notifyID = n.id
	return nil
}
