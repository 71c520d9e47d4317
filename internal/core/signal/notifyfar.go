package signal

import (
	"errors"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/share"
)

// A notify of another server is set and cleared by stores to its page there; its process then checks the waits. Only
// streams of the device it belongs to wait for it.

// farNotify is a notify of another server.
type farNotify struct {
	keys   driver.Fabric // immutable
	memory driver.Memory // immutable; the word
	holds  atomic.Int32  // number of holders: the handle and the tasks that need it; the last one frees the memory
}

// nameAt lets the process of an entry import the notify.
func (n *Notify) nameAt(t *core.Thread, api string, s abi.ServerPid) *core.Error {
	pids := []int32{*core.Pointer[int32](s.Pid)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.exported {
		return core.Refused(api, "notify",
			"was not exported; call aclrtNotifyGetExportKey first, in the process that made it")
	}
	if _, here := t.Runtime.OfSuperPodID(s.Sdid); here {
		if err := t.Runtime.Broker.Allow(n.key, pids); err != nil {
			return memory.ShareError(api, "serverPids", err)
		}
		return nil
	}
	f, server, err := memory.FarServer(t, api, &s, n.key)
	if err != nil {
		return err
	}
	if n.offered == nil {
		if n.offered, err = n.offer(api, f); err != nil {
			return err
		}
	}
	n.offered.AllowAt(server, pids)
	return nil
}

// offer offers the word of the notify to other servers. mu is held.
func (n *Notify) offer(api string, f driver.Fabric) (driver.FarKey, *core.Error) {
	files, failed := n.cell.share()
	if failed != nil {
		return nil, memory.ShareError(api, "notify", failed)
	}
	defer closeAll(files)
	c := n.cell
	word := &driver.Shared{File: files[0], Size: 8 * notifyWords, Device: int(n.dev.Phys)}
	x, failed := f.OfferFar(word, n.key.Far(share.Notify), func() { c.change(func([]atomic.Uint64) {}) })
	if failed != nil {
		return nil, core.FromDriver(api, "notify", failed)
	}
	return x, nil
}

// importFarNotify returns the notify of another server for a key, without a handle.
func importFarNotify(t *core.Thread, api string, f driver.Fabric, k share.Key, c *core.Context) (*Notify,
	*core.Error) {
	m, failed := f.OpenFar(k.Place(), k.Far(share.Notify), int(c.Device.Phys))
	if failed != nil {
		e := core.FromDriver(api, "key", failed)
		switch {
		case errors.Is(failed, driver.ErrNotAllowed):
			e.Code = abi.ErrRTNoPermission
			e.Text = "name this process there with aclrtNotifySetImportPidInterServer"
		case errors.Is(failed, driver.ErrNotAllocated):
			e.Code = abi.ErrRTParamInvalid
		default:
			e.Code = abi.ErrRTIpcError
		}
		return nil, e
	}
	if m.Size() != 8*notifyWords {
		m.Free() //nolint:errcheck // it is refused anyway
		return nil, core.Refused(api, "key", "does not lead to a notify")
	}
	far := &farNotify{keys: f, memory: m}
	far.holds.Store(1)
	return &Notify{rt: t.Runtime, id: signalsOf(t.Runtime).notifyIDs.Add(1), imported: true, far: far}, nil
}

// drop releases the hold of the handle.
func (n *Notify) drop() {
	if n.far != nil {
		n.far.release()
		return
	}
	n.cell.release()
}

func (f *farNotify) release() {
	if f.holds.Add(-1) == 0 {
		f.memory.Free() //nolint:errcheck // the other server may be gone
	}
}

// record queues a store.
func (f *farNotify) record(t *core.Thread, api string, s *core.Stream, h core.Handle) *core.Error {
	if err := s.Admit(api); err != nil {
		return err
	}
	f.holds.Add(1)
	op := driver.Op{Kind: driver.OpWaitCond, Gate: f.keys.StoreFar(f.memory, 1), Done: f.release}
	s.Put(api, t, core.Task{Op: op, Kind: observe.NotifyRecord, About: uint64(h)})
	return nil
}

// reset clears the notify, and waits until its server has done so.
func (f *farNotify) reset(api string) *core.Error {
	done := make(chan struct{})
	g := f.keys.StoreFar(f.memory, 0)
	if !g.Pass(func() { close(done) }) {
		<-done
	}
	if err := g.Err(); err != nil {
		return core.FromDriver(api, "notifies", err)
	}
	return nil
}
