package core

import (
	"encoding/binary"

	"ropeway/internal/abi"
	"ropeway/internal/share"
)

// notifyKeyBytes is the room a key takes with its terminator.
const notifyKeyBytes = 65

// NotifyGetExportKey is aclrtNotifyGetExportKey. key is room for length bytes.
func (t *Thread) NotifyGetExportKey(notify Handle, key *byte, length, flags uint64) *Error {
	const api = "aclrtNotifyGetExportKey"
	n, err := t.checkNotifyGetExportKey(notify, key, length, flags)
	if err != nil {
		return err
	}
	if n.imported {
		return fail(api, abi.ErrRTInternalError, "notify", "was imported; the process that made it exports it")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return noNotify(api, "notify", notify)
	}
	if n.exported {
		return fail(api, abi.ErrRTInternalError, "notify", "was exported before; its key stays good until it is destroyed or the library finalised")
	}
	if room := uint32(length); room < notifyKeyBytes {
		return refused(api, "len", "%d bytes are too few for a key, which takes %d", room, notifyKeyBytes)
	}
	k, err := n.export(api, flags == abi.NotifyExportFlagDisablePidValidation)
	if err != nil {
		return err
	}
	n.exported, n.key = true, k
	putString(array(key, notifyKeyBytes), k.Text())
	return nil
}

// export makes the notify something that other processes can have; open: without a white list.
func (n *Notify) export(api string, open bool) (share.Key, *Error) {
	files, err := n.cell.share()
	if err != nil {
		return share.Key{}, sharing(api, "notify", err)
	}
	note := binary.LittleEndian.AppendUint32(nil, uint32(n.dev.phys))
	note = binary.LittleEndian.AppendUint32(note, n.id)
	k, err := n.rt.broker.Export(share.Item{Kind: share.Notify, Note: note, Files: files}, share.Options{Open: open})
	if err != nil {
		return share.Key{}, sharing(api, "notify", err)
	}
	return k, nil
}

// withdraw ends exports and imports of the notify, whose handle is gone.
func (n *Notify) withdraw() {
	locked(&n.mu, func() { n.gone = true })
	n.unshare()
}

// unshare ends the export of the notify, if there is one; it may be exported again.
func (n *Notify) unshare() {
	n.mu.Lock()
	exported, key := n.exported, n.key
	n.exported = false
	n.mu.Unlock()
	if exported {
		n.rt.broker.Withdraw(key)
	}
}

// NotifySetImportPid is aclrtNotifySetImportPid. pid is the first of num.
func (t *Thread) NotifySetImportPid(notify Handle, pid *int32, num uint64) *Error {
	const api = "aclrtNotifySetImportPid"
	n, _, err := t.checkNotifySetImportPid(notify, pid, num)
	if err != nil {
		return err
	}
	n.mu.Lock()
	exported, key := n.exported, n.key
	n.mu.Unlock()
	if !exported {
		return refused(api, "notify", "was not exported; call aclrtNotifyGetExportKey first, in the process that made it")
	}
	if err := t.rt.broker.Allow(key, array(pid, uint64(uint32(num)))); err != nil {
		return sharing(api, "pid", err)
	}
	return nil
}

// NotifyImportByKey is aclrtNotifyImportByKey.
func (t *Thread) NotifyImportByKey(notify *Handle, key *byte, flags uint64) *Error {
	const api = "aclrtNotifyImportByKey"
	c, err := t.checkNotifyImportByKey(notify, key, flags)
	if err != nil {
		return err
	}
	k, ok := share.ParseText(cString(key))
	if !ok {
		return refused(api, "key", "is not one of aclrtNotifyGetExportKey")
	}
	n, err := t.importNotify(api, k)
	if err != nil {
		return err
	}
	if flags&abi.NotifyImportFlagEnablePeerAccess != 0 && n.dev != nil && n.dev != c.dev && t.rt.prod.Peer {
		c.dev.peers.Or(1 << n.dev.phys)
	}
	if n.handle = signalsOf(t.rt).notifies.add(n); n.handle == 0 {
		n.cell.release()
		return fail(api, abi.ErrRTNoNotifyResource, "", "the process has as many notifies as there are handles; destroy some")
	}
	*notify = n.handle
	t.given(n.resource())
	return nil
}

// importNotify is the notify that a key names, which has no handle yet.
func (t *Thread) importNotify(api string, k share.Key) (*Notify, *Error) {
	it, err := t.rt.broker.Import(k, share.Notify)
	if err != nil {
		return nil, sharing(api, "key", err)
	}
	if len(it.Note) != 8 {
		it.Close()
		return nil, refused(api, "key", "does not lead to a notify")
	}
	c, err := openCell(notifyWords, it.Files)
	if err != nil {
		return nil, refused(api, "key", "does not lead to a notify: %v", err)
	}
	phys, id := binary.LittleEndian.Uint32(it.Note), binary.LittleEndian.Uint32(it.Note[4:])
	return &Notify{rt: t.rt, dev: t.rt.byPhys(int32(phys)), id: id, cell: c, imported: true}, nil
}

// NotifySetImportPidInterServer is aclrtNotifySetImportPidInterServer. No driver reaches other servers.
func (t *Thread) NotifySetImportPidInterServer(notify Handle, serverPids *abi.ServerPid, num uint64) *Error {
	const api = "aclrtNotifySetImportPidInterServer"
	if _, err := t.checkNotifySetImportPidInterServer(notify, serverPids, num); err != nil {
		return err
	}
	return unsupported(api, "", "the driver %s does not reach other servers", t.rt.drv.Name()).quiet()
}

// serverProcesses refuses entries that do not name one process each.
func (t *Thread) serverProcesses(api string, serverPids *abi.ServerPid, num uint64) *Error {
	for i, p := range array(serverPids, num) {
		if p.Pid == 0 {
			return refused(api, "serverPids", "pid is NULL").at(i)
		}
		if p.Num != 1 {
			return refused(api, "serverPids", "num is %d; one process at a time", p.Num).at(i)
		}
	}
	return nil
}
