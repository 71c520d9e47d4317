package core

import (
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/share"
)

// Notify is one bit that records set and waits clear. It belongs to a device, which alone may wait for it once other processes have
// it too. Tasks that need it keep its cell: destroying it does not change what is queued.
type Notify struct {
	rt       *Runtime
	handle   Handle
	dev      *Device // that it was created on; nil if that is another process's and not visible here
	id       uint32
	used     *atomic.Int32 // the counter of ids it is in; nil if it was imported: the id is the exporter's
	cell     *cell
	imported bool
	// All of these are immutable.

	mu       sync.Mutex
	gone     bool      // guarded by mu; the handle was destroyed
	exported bool      // guarded by mu
	key      share.Key // guarded by mu; once it is exported
}

// notifyWords are the words of a notify: the bit.
const notifyWords = 1

func (n *Notify) set(w []atomic.Uint64)   { w[0].Store(1) }
func (n *Notify) reset(w []atomic.Uint64) { w[0].Store(0) }

// take clears the bit if it is set. Another process may do the same.
func (n *Notify) take(w []atomic.Uint64) bool { return w[0].Swap(0) != 0 }

// shared tells whether it was exported or imported.
func (n *Notify) shared() bool { return n.cell.shared() }

// notify finds the notify a handle names.
func (t *Thread) notify(api, arg string, h Handle) (*Notify, *Error) {
	if n := signalsOf(t.rt).notifies.get(h); n != nil {
		return n, nil
	}
	return nil, noNotify(api, arg, h)
}

// noNotify is the answer to a handle that names no notify.
func noNotify(api, arg string, h Handle) *Error {
	return fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no notify, or one that was destroyed", uintptr(h)).because(Gone, uintptr(h))
}

// numberNotify takes an id of device d for a notify or a count notify; nil if there is none left.
func (rt *Runtime) numberNotify(d *Device) (id uint32, used *atomic.Int32) {
	used = d.notifies.Load()
	if !take(used, int32(rt.prod.Notifies)) {
		return 0, nil
	}
	return signalsOf(rt).notifyIDs.Add(1), used
}

func noNotifies(api string, d *Device) *Error {
	return fail(api, abi.ErrRTNoNotifyResource, "", "device %d has its %d notifies in use; destroy some", d.user, d.rt.prod.Notifies)
}

// CreateNotify is aclrtCreateNotify.
func (t *Thread) CreateNotify(notify *Handle, flag uint64) *Error {
	const api = "aclrtCreateNotify"
	c, err := t.checkCreateNotify(notify, flag)
	if err != nil {
		return err
	}
	id, used := t.rt.numberNotify(c.dev)
	if used == nil {
		return noNotifies(api, c.dev)
	}
	n := &Notify{rt: t.rt, dev: c.dev, id: id, used: used, cell: newCell(notifyWords)}
	if n.handle = signalsOf(t.rt).notifies.add(n); n.handle == 0 {
		used.Add(-1)
		return fail(api, abi.ErrRTNoNotifyResource, "", "the process has as many notifies as there are handles; destroy some")
	}
	*notify = n.handle
	t.given(n.resource())
	return nil
}

// resource is n as a watcher knows it.
func (n *Notify) resource() Resource {
	r := Resource{Kind: NotifyHandle, Name: uintptr(n.handle), Number: int32(n.id), Device: -1}
	if n.dev != nil {
		r.Device = n.dev.user
	}
	return r
}

// DestroyNotify is aclrtDestroyNotify. Records and waits that are queued go on; other processes that have it keep it.
func (t *Thread) DestroyNotify(notify Handle) *Error {
	const api = "aclrtDestroyNotify"
	n, _, err := t.checkDestroyNotify(notify)
	if err != nil {
		return err
	}
	return t.gives(n.resource(), func() *Error {
		if signalsOf(t.rt).notifies.remove(notify) == nil {
			return noNotify(api, "notify", notify)
		}
		n.withdraw()
		if n.used != nil {
			n.used.Add(-1)
		}
		n.cell.release()
		return nil
	})
}

// RecordNotify is aclrtRecordNotify.
func (t *Thread) RecordNotify(notify, stream Handle) *Error {
	const api = "aclrtRecordNotify"
	n, s, _, err := t.checkRecordNotify(notify, stream)
	if err != nil {
		return err
	}
	return t.recordCell(api, s, n.cell, notify, n.set)
}

// sharedElsewhere refuses to wait for a notify that other processes have too and that belongs to another device.
func (t *Thread) sharedElsewhere(api string, n *Notify, c *Context) *Error {
	if n.dev != c.dev && n.shared() {
		return refused(api, "notify", "is shared with other processes and belongs to device %s: only streams of that device may wait for it", deviceName(n.dev))
	}
	return nil
}

// recordCell queues a change of the cell that handle h names. Under launch blocking it is not waited for, as records of events are not.
func (t *Thread) recordCell(api string, s *Stream, c *cell, h Handle, change func(words []atomic.Uint64)) *Error {
	if err := s.admit(api); err != nil {
		return err
	}
	if !c.hold() {
		return noNotify(api, "notify", h)
	}
	op := driver.Op{Kind: driver.OpPost, Fn: func() { c.change(change) }, Order: &c.order, Done: c.release}
	s.put(api, t, task{op: op, kind: observe.NotifyRecord, about: uint64(h)})
	return nil
}

// waitCell queues a wait for the cell that handle h names, which fails after a timeout (0: never).
func (t *Thread) waitCell(api string, s *Stream, w *cellWait, h Handle, timeout time.Duration) *Error {
	if err := s.admit(api); err != nil {
		return err
	}
	if !w.c.hold() {
		return noNotify(api, "notify", h)
	}
	op := driver.Op{Kind: driver.OpGate, Gate: w, Timeout: timeout, Order: &w.c.order, Done: w.c.release}
	s.put(api, t, task{op: op, kind: observe.NotifyWait, about: uint64(h)})
	return nil
}

// notifyTimeout is how long a wait for a notify may last, 0 for ever, given the seconds that a program says.
func (rt *Runtime) notifyTimeout(seconds uint32) time.Duration {
	if seconds == 1<<32-1 { // what libraries that know no limit say
		if rt.prod.Name == "310P" {
			return rt.opWait()
		}
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// WaitAndResetNotify is aclrtWaitAndResetNotify: the stream waits, the host does not.
func (t *Thread) WaitAndResetNotify(notify, stream Handle, timeout uint32) *Error {
	const api = "aclrtWaitAndResetNotify"
	n, s, _, err := t.checkWaitAndResetNotify(notify, stream, timeout)
	if err != nil {
		return err
	}
	w := &cellWait{c: n.cell, met: n.take, back: n.set}
	return t.waitCell(api, s, w, notify, t.rt.notifyTimeout(timeout))
}

// GetNotifyId is aclrtGetNotifyId.
func (t *Thread) GetNotifyId(notify Handle, notifyID *uint32) *Error {
	n, _, err := t.checkGetNotifyId(notify, notifyID)
	if err != nil {
		return err
	}
	*notifyID = n.id
	return nil
}

// NotifyBatchReset is aclrtNotifyBatchReset. The notifies are cleared one after the other, at once, in no stream's order; those before one
// that is refused stay cleared.
func (t *Thread) NotifyBatchReset(notifies *Handle, num uint64) *Error {
	const api = "aclrtNotifyBatchReset"
	if err := t.checkNotifyBatchReset(notifies, num); err != nil {
		return err
	}
	for i, h := range array(notifies, uint64(uint32(num))) {
		if err := t.resetNotify(api, h); err != nil {
			return err.at(i)
		}
	}
	return nil
}

func (t *Thread) resetNotify(api string, h Handle) *Error {
	if h == 0 {
		return refused(api, "notifies", "is NULL")
	}
	n, err := t.notify(api, "notifies", h)
	if err != nil {
		return err
	}
	if t.current() == nil {
		return noContext(api)
	}
	if t.rt.prod.UB && n.shared() {
		return fail(api, abi.ErrRTTaskTypeNotSupport, "notifies", "%#x is shared with other processes, and %s does not clear such notifies", uintptr(h), t.rt.prod.Name)
	}
	n.cell.change(n.reset)
	return nil
}
