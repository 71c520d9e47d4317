package signal

import (
	"encoding/binary"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/share"
)

// notifyKeyBytes is the size of a key with its terminator.
const notifyKeyBytes = 65

// NotifyGetExportKey is aclrtNotifyGetExportKey. key is room for length bytes.
func NotifyGetExportKey(t *core.Thread, notify core.Handle, key *byte, length, flags uint64) *core.Error {
	const api = "aclrtNotifyGetExportKey"
	n, err := checkNotifyGetExportKey(t, notify, key, length, flags)
	if err != nil {
		return err
	}
	if n.imported {
		return core.Fail(api, abi.ErrRTInternalError, "notify", "was imported; the process that made it exports it")
	}
	k, err := core.Under(&n.mu, func() (k share.Key, err *core.Error) {
		if n.gone {
			return k, noNotify(api, "notify", notify)
		}
		if n.exported {
			return k, core.Fail(api, abi.ErrRTInternalError, "notify",
				"was exported before; its key stays good until it is destroyed or the library finalised")
		}
		if room := uint32(length); room < notifyKeyBytes {
			return k, core.Refused(api, "len", "%d bytes are too few for a key, which takes %d", room, notifyKeyBytes)
		}
		if k, err = n.export(api, flags == abi.NotifyExportFlagDisablePidValidation); err == nil {
			n.exported, n.key = true, k
		}
		return k, err
	})
	if err != nil {
		return err
	}
	core.PutString(core.Array(key, notifyKeyBytes), k.Text())
	return nil
}

// export exports the notify to other processes; open means without a white list.
func (n *Notify) export(api string, open bool) (share.Key, *core.Error) {
	files, err := n.cell.share()
	if err != nil {
		return share.Key{}, memory.ShareError(api, "notify", err)
	}
	note := binary.LittleEndian.AppendUint32(nil, uint32(n.dev.Phys))
	note = binary.LittleEndian.AppendUint32(note, n.id)
	k, err := n.rt.Broker.Export(share.Item{Kind: share.Notify, Note: note, Files: files}, share.Options{Open: open,
		Place: memory.PlaceOf(n.rt, open)})
	if err != nil {
		return share.Key{}, memory.ShareError(api, "notify", err)
	}
	return k, nil
}

// withdraw ends the export of the notify, whose handle was destroyed.
func (n *Notify) withdraw() {
	core.Locked(&n.mu, func() { n.gone = true })
	n.unshare()
}

// unshare ends the export of the notify, if there is one; it may be exported again.
func (n *Notify) unshare() {
	n.mu.Lock()
	exported, key, offered := n.exported, n.key, n.offered
	n.exported, n.offered = false, nil
	n.mu.Unlock()
	if exported {
		n.rt.Broker.Withdraw(key)
	}
	if offered != nil {
		offered.Withdraw()
	}
}

// NotifySetImportPid is aclrtNotifySetImportPid. pid is the first of num.
func NotifySetImportPid(t *core.Thread, notify core.Handle, pid *int32, num uint64) *core.Error {
	const api = "aclrtNotifySetImportPid"
	n, _, err := checkNotifySetImportPid(t, notify, pid, num)
	if err != nil {
		return err
	}
	n.mu.Lock()
	exported, key := n.exported, n.key
	n.mu.Unlock()
	if !exported {
		return core.Refused(api, "notify",
			"was not exported; call aclrtNotifyGetExportKey first, in the process that made it")
	}
	if err := t.Runtime.Broker.Allow(key, core.Array(pid, uint64(uint32(num)))); err != nil {
		return memory.ShareError(api, "pid", err)
	}
	return nil
}

// NotifyImportByKey is aclrtNotifyImportByKey.
func NotifyImportByKey(t *core.Thread, notify *core.Handle, key *byte, flags uint64) *core.Error {
	const api = "aclrtNotifyImportByKey"
	c, err := checkNotifyImportByKey(t, notify, key, flags)
	if err != nil {
		return err
	}
	k, ok := share.ParseText(core.CString(key))
	if !ok {
		return core.Refused(api, "key", "is not one of aclrtNotifyGetExportKey")
	}
	var n *Notify
	if f, far := memory.FarKeysOf(t.Runtime, k); far {
		n, err = importFarNotify(t, api, f, k, c)
	} else {
		n, err = importNotify(t, api, k)
	}
	if err != nil {
		return err
	}
	if flags&abi.NotifyImportFlagEnablePeerAccess != 0 && n.dev != nil && n.dev != c.Device && t.Runtime.Product.Peer {
		c.Device.Peers.Or(1 << n.dev.Phys)
	}
	if n.handle = signalsOf(t.Runtime).notifies.Add(n); n.handle == 0 {
		n.drop()
		return core.Fail(api, abi.ErrRTNoNotifyResource, "",
			"the process has as many notifies as there are handles; destroy some")
	}
	*notify = n.handle
	t.Acquired(n.resource())
	return nil
}

// importNotify returns the notify for a key, without a handle.
func importNotify(t *core.Thread, api string, k share.Key) (*Notify, *core.Error) {
	it, err := t.Runtime.Broker.Import(k, share.Notify)
	if err != nil {
		return nil, memory.ShareError(api, "key", err)
	}
	if len(it.Note) != 8 {
		it.Close()
		return nil, core.Refused(api, "key", "does not lead to a notify")
	}
	c, err := openCell(notifyWords, it.Files)
	if err != nil {
		return nil, core.Refused(api, "key", "does not lead to a notify: %v", err)
	}
	phys, id := binary.LittleEndian.Uint32(it.Note), binary.LittleEndian.Uint32(it.Note[4:])
	return &Notify{rt: t.Runtime, dev: t.Runtime.ByPhys(int32(phys)), id: id, cell: c, imported: true}, nil
}

// NotifySetImportPidInterServer is aclrtNotifySetImportPidInterServer. It only supports servers of a pod.
func NotifySetImportPidInterServer(t *core.Thread, notify core.Handle, serverPids *abi.ServerPid,
	num uint64) *core.Error {
	const api = "aclrtNotifySetImportPidInterServer"
	n, err := checkNotifySetImportPidInterServer(t, notify, serverPids, num)
	if err != nil {
		return err
	}
	if t.Runtime.Caps.Fabric == nil {
		return core.Unsupported(api, "", "there is no pod (ROPEWAY_POD), so no other server is reached").NotRecorded()
	}
	for i := range num {
		if err := n.nameAt(t, api, core.Array(serverPids, i+1)[i]); err != nil {
			if err.Arg == "serverPids" {
				err.Index = int(i)
			}
			return err
		}
	}
	return nil
}

// serverProcesses refuses entries that do not have exactly one process.
func serverProcesses(t *core.Thread, api string, serverPids *abi.ServerPid, num uint64) *core.Error {
	for i, p := range core.Array(serverPids, num) {
		if p.Pid == 0 {
			return core.Refused(api, "serverPids", "pid is NULL").At(i)
		}
		if p.Num != 1 {
			return core.Refused(api, "serverPids", "num is %d; one process at a time", p.Num).At(i)
		}
	}
	return nil
}
