package signal

import (
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/share"
)

// Notify is one bit that records set and waits clear. It belongs to a device; once other processes share it, only that
// device may wait for it. Tasks that need it hold its cell: destroying it does not affect queued tasks.
type Notify struct {
	rt       *core.Runtime
	handle   core.Handle
	dev      *core.Device // device it was created on; nil if that is not visible in this process
	id       uint32
	used     *atomic.Int32 // the counter of ids that counts it; nil if it was imported and has the exporter's id
	cell     *cell
	imported bool
	far      *farNotify // not nil: a notify of another server, without a cell
	// All of these are immutable.

	mu       sync.Mutex
	gone     bool      // guarded by mu; the handle was destroyed
	exported bool      // guarded by mu
	key      share.Key // guarded by mu; once it is exported
	// guarded by mu; set once a process of another server was allowed
	offered driver.FarKey
}

// notifyWords is the number of words of a notify: the bit.
const notifyWords = 1

func (n *Notify) set(w []atomic.Uint64)   { w[0].Store(1) }
func (n *Notify) reset(w []atomic.Uint64) { w[0].Store(0) }

// consume clears the bit if it is set. Another process may do the same.
func (n *Notify) consume(w []atomic.Uint64) bool { return w[0].Swap(0) != 0 }

// shared reports whether it was exported or imported.
func (n *Notify) shared() bool { return n.far != nil || n.cell.shared() }

// findNotify returns the notify of a handle.
func findNotify(t *core.Thread, api, arg string, h core.Handle) (*Notify, *core.Error) {
	if n := signalsOf(t.Runtime).notifies.Get(h); n != nil {
		return n, nil
	}
	return nil, noNotify(api, arg, h)
}

// noNotify returns the error for an invalid handle.
func noNotify(api, arg string, h core.Handle) *core.Error {
	return core.Fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no notify, or one that was destroyed",
		uintptr(h)).Because(core.Gone, uintptr(h))
}

// numberNotify takes an id of device d for a notify or a count notify; nil if none is left.
func numberNotify(rt *core.Runtime, d *core.Device) (id uint32, used *atomic.Int32) {
	used = d.Notifies.Load()
	if !core.TakeOne(used, int32(rt.Product.Notifies)) {
		return 0, nil
	}
	return signalsOf(rt).notifyIDs.Add(1), used
}

func noNotifies(api string, d *core.Device) *core.Error {
	return core.Fail(api, abi.ErrRTNoNotifyResource, "", "device %d has its %d notifies in use; destroy some", d.User,
		d.Runtime.Product.Notifies)
}

// CreateNotify is aclrtCreateNotify.
func CreateNotify(t *core.Thread, notify *core.Handle, flag uint64) *core.Error {
	const api = "aclrtCreateNotify"
	c, err := checkCreateNotify(t, notify, flag)
	if err != nil {
		return err
	}
	id, used := numberNotify(t.Runtime, c.Device)
	if used == nil {
		return noNotifies(api, c.Device)
	}
	n := &Notify{rt: t.Runtime, dev: c.Device, id: id, used: used, cell: newCell(notifyWords)}
	if n.handle = signalsOf(t.Runtime).notifies.Add(n); n.handle == 0 {
		used.Add(-1)
		return core.Fail(api, abi.ErrRTNoNotifyResource, "",
			"the process has as many notifies as there are handles; destroy some")
	}
	*notify = n.handle
	t.Acquired(n.resource())
	return nil
}

// resource describes n to the checker.
func (n *Notify) resource() core.Resource {
	r := core.Resource{Kind: core.NotifyHandle, Name: uintptr(n.handle), Number: int32(n.id), Device: -1}
	if n.dev != nil {
		r.Device = n.dev.User
	}
	return r
}

// DestroyNotify is aclrtDestroyNotify. Queued records and waits still run; other processes that have it keep it.
func DestroyNotify(t *core.Thread, notify core.Handle) *core.Error {
	const api = "aclrtDestroyNotify"
	n, _, err := checkDestroyNotify(t, notify)
	if err != nil {
		return err
	}
	return t.Releasing(n.resource(), func() *core.Error {
		if signalsOf(t.Runtime).notifies.Remove(notify) == nil {
			return noNotify(api, "notify", notify)
		}
		n.withdraw()
		if n.used != nil {
			n.used.Add(-1)
		}
		n.drop()
		return nil
	})
}

// RecordNotify is aclrtRecordNotify.
func RecordNotify(t *core.Thread, notify, stream core.Handle) *core.Error {
	const api = "aclrtRecordNotify"
	n, s, _, err := checkRecordNotify(t, notify, stream)
	if err != nil {
		return err
	}
	if n.far != nil {
		return n.far.record(t, api, s, notify)
	}
	return recordCell(t, api, s, n.cell, notify, n.set)
}

// sharedElsewhere refuses to wait for a shared notify of another device.
func sharedElsewhere(t *core.Thread, api string, n *Notify, c *core.Context) *core.Error {
	if n.far != nil {
		return core.Refused(api, "notify",
			"belongs to another server: only streams of its device there may wait for it")
	}
	if n.dev != c.Device && n.shared() {
		return core.Refused(api, "notify",
			"is shared with other processes and belongs to device %s: only streams of that device may wait for it",
			core.DeviceName(n.dev))
	}
	return nil
}

// recordCell queues a change of the cell of handle h. Like records of events it does not wait under launch blocking.
func recordCell(t *core.Thread, api string, s *core.Stream, c *cell, h core.Handle,
	change func(words []atomic.Uint64)) *core.Error {
	if err := s.Admit(api); err != nil {
		return err
	}
	if !c.hold() {
		return noNotify(api, "notify", h)
	}
	op := driver.Op{Kind: driver.OpFunc, Fn: func() { c.change(change) }, Done: c.release}
	s.Put(api, t, core.Task{Op: op, Kind: observe.NotifyRecord, About: uint64(h), Order: &c.order})
	return nil
}

// waitCell queues a wait for the cell of handle h, which fails after a timeout (0: never).
func waitCell(t *core.Thread, api string, s *core.Stream, w *cellWait, h core.Handle,
	timeout time.Duration) *core.Error {
	if err := s.Admit(api); err != nil {
		return err
	}
	if !w.c.hold() {
		return noNotify(api, "notify", h)
	}
	op := driver.Op{Kind: driver.OpWaitCond, Gate: w, Timeout: timeout, Done: w.c.release}
	s.Put(api, t, core.Task{Op: op, Kind: observe.NotifyWait, About: uint64(h), Order: &w.c.order})
	return nil
}

// notifyTimeout converts the seconds of a program to the timeout of a wait; 0 is no timeout.
func notifyTimeout(rt *core.Runtime, seconds uint32) time.Duration {
	if seconds == 1<<32-1 { // from libraries without a limit
		if rt.Product.Name == "310P" {
			return rt.WaitTimeout()
		}
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// WaitAndResetNotify is aclrtWaitAndResetNotify: the stream waits, the host does not.
func WaitAndResetNotify(t *core.Thread, notify, stream core.Handle, timeout uint32) *core.Error {
	const api = "aclrtWaitAndResetNotify"
	n, s, _, err := checkWaitAndResetNotify(t, notify, stream, timeout)
	if err != nil {
		return err
	}
	w := &cellWait{c: n.cell, met: n.consume, back: n.set}
	return waitCell(t, api, s, w, notify, notifyTimeout(t.Runtime, timeout))
}

// GetNotifyId is aclrtGetNotifyId.
func GetNotifyId(t *core.Thread, notify core.Handle, notifyID *uint32) *core.Error {
	n, _, err := checkGetNotifyId(t, notify, notifyID)
	if err != nil {
		return err
	}
	*notifyID = n.id
	return nil
}

// NotifyGetAddrOffset is rtNotifyGetAddrOffset. Notifies have no registers here; offsets differ, as those of registers.
func NotifyGetAddrOffset(t *core.Thread, notify core.Handle, devAddrOffset *uint64) *core.Error {
	n, _, done, err := checkNotifyGetAddrOffset(t, notify, devAddrOffset)
	if !done {
		*devAddrOffset = uint64(n.id) * 8
	}
	return err
}

// NotifyBatchReset is aclrtNotifyBatchReset. It clears the notifies one after another, at once, outside the order of
// streams; those before a refused one stay cleared.
func NotifyBatchReset(t *core.Thread, notifies *core.Handle, num uint64) *core.Error {
	const api = "aclrtNotifyBatchReset"
	if err := checkNotifyBatchReset(t, notifies, num); err != nil {
		return err
	}
	for i, h := range core.Array(notifies, uint64(uint32(num))) {
		if err := resetNotify(t, api, h); err != nil {
			return err.At(i)
		}
	}
	return nil
}

func resetNotify(t *core.Thread, api string, h core.Handle) *core.Error {
	if h == 0 {
		return core.Refused(api, "notifies", "is NULL")
	}
	n, err := findNotify(t, api, "notifies", h)
	if err != nil {
		return err
	}
	if t.Current() == nil {
		return core.NoCurrentContext(api)
	}
	if t.Runtime.Product.UB && n.shared() {
		return core.Fail(api, abi.ErrRTTaskTypeNotSupport, "notifies",
			"%#x is shared with other processes, and %s does not clear such notifies", uintptr(h),
			t.Runtime.Product.Name)
	}
	if n.far != nil {
		return n.far.reset(api)
	}
	n.cell.change(n.reset)
	return nil
}
