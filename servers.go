package ropeway

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
)

// Process is a process on a server of a pod, to which a key can be restricted. pod.Self returns the caller's; it can
// be sent to the server that has the memory in any way, for example as JSON.
type Process struct {
	Server int // number of the server
	PID    int // number of the process on that server
}

// String returns the process as text.
func (p Process) String() string { return fmt.Sprintf("process %d of server %d", p.PID, p.Server) }

// serverBit is the lowest bit of the server's number in the numbers of its devices, and mostServer the largest number
// of a server.
const (
	serverBit  = 22
	mostServer = 1<<10 - 1
)

// checkProcesses returns an error for an empty list and for impossible server or process numbers.
func checkProcesses(api string, with []Process) error {
	if len(with) == 0 {
		return misuse(api, "serverPids", "no process is named, and no other one has it on another server")
	}
	for _, p := range with {
		if p.Server < 0 || p.Server > mostServer || p.PID <= 0 || p.PID > math.MaxInt32 {
			return misuse(api, "serverPids", fmt.Sprintf("there is no %v", p))
		}
	}
	return nil
}

// name calls f with each process in C's form, which has the number of a device of its server.
func (d *Device) name(with []Process, f func(*abi.ServerPid) *core.Error) error {
	for _, p := range with {
		pid := int32(p.PID)
		var pin runtime.Pinner // the address is a number, which does not keep the value alive
		pin.Pin(&pid)
		err := f(&abi.ServerPid{Sdid: uint32(p.Server) << serverBit, Pid: addressOf(&pid), Num: 1})
		pin.Unpin()
		if err != nil {
			return d.result(err)
		}
	}
	return nil
}

// ShareWith lets processes of other servers of a pod open device memory, by [Device.Import], and returns the key for
// it. Nothing is copied: their copies and fills access the memory directly, without this process's help. Sharing ends
// as with [Buffer.Share]. [Physical.ShareFabric] does not require naming processes.
//
// It requires package pod and the product A3. Memory of a GPU can only be shared by [Physical.ShareFabric].
func (b *Buffer) ShareWith(with ...Process) (Key, error) {
	const api = "aclrtIpcMemImportPidInterServer"
	if err := checkProcesses(api, with); err != nil {
		return "", err
	}
	text, k, err := b.export(true)
	if err != nil {
		return "", err
	}
	err = b.d.name(with, func(p *abi.ServerPid) *core.Error {
		return memory.IpcMemImportPidInterServer(b.d.t, first(text), p, 1)
	})
	if err != nil {
		_ = b.Unshare(k)
		return "", err
	}
	return k, nil
}

// ShareWith lets processes of other servers of a pod open the notify, by [Device.ImportNotify], as [Buffer.ShareWith]
// does for memory. It may be called once for each notify, if [Notify.Share] was not called. Streams of these
// processes can record it, in stream order, and streams of its own device wait for it.
func (n *Notify) ShareWith(with ...Process) (Key, error) {
	const api = "aclrtNotifySetImportPidInterServer"
	if err := checkProcesses(api, with); err != nil {
		return "", err
	}
	k, err := n.export(true)
	if err != nil {
		return "", err
	}
	err = n.d.name(with, func(p *abi.ServerPid) *core.Error {
		return signal.NotifySetImportPidInterServer(n.d.t, n.h, p, 1)
	})
	if err != nil {
		return "", err
	}
	return k, nil
}

// FabricHandle names memory for processes of all servers of a pod. It equals the aclrtMemFabricHandle of C and the
// bytes object of Python, so programs in different languages can exchange it: h[:] are its bytes. As text, also in
// JSON and for package flag, it is 256 hexadecimal digits. It contains a secret: a process of the pod that has the
// handle, and is allowed to, can open the memory.
type FabricHandle [128]byte

// String returns the handle as text.
func (h FabricHandle) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (h FabricHandle) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. If the text is not a handle, h does not change.
func (h *FabricHandle) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("ropeway: a fabric handle has %d hexadecimal digits, this text has %d bytes",
			hex.EncodedLen(len(h)), len(text))
	}
	var b FabricHandle
	if _, err := hex.Decode(b[:], text); err != nil {
		return fmt.Errorf("ropeway: this text is no fabric handle: %w", err)
	}
	*h = b
	return nil
}

// ShareFabric lets processes of all servers of a pod open the memory, by [Device.ImportFabric]. Only processes with
// the given numbers may open it, on any server; if none is given, all processes of the pod. Nothing is copied, and
// this process does no work for the others. Further calls return the same handle and allow further processes; the
// first call determines whether there is a list of processes. Sharing ends when the memory is closed and not mapped.
// Memory has one kind of handle: that of Share or this one.
//
// Other servers require package pod and the product A3. Without a pod, processes of this machine can open the memory.
func (m *Physical) ShareFabric(with ...int) (FabricHandle, error) {
	const api = "aclrtMemExportToShareableHandleV2"
	if memory.PhysicalSize(m.d.t, m.h) == 0 {
		return FabricHandle{}, m.d.r.refuse(api, "handle", "the memory was closed", core.Gone, core.Addr(m.h))
	}
	list, err := pids("aclrtMemSetPidToShareableHandleV2", with)
	if err != nil {
		return FabricHandle{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fabric == nil {
		flags := uint64(0)
		if len(list) == 0 {
			flags = 1 // no list
		}
		h := new(FabricHandle)
		err := h.pass(func(p core.Addr) *core.Error {
			return memory.MemExportToShareableHandleV2(m.d.t, m.h, flags, abi.MemShareHandleTypeFabric, p)
		})
		if err != nil {
			return FabricHandle{}, m.d.result(err)
		}
		m.fabric = h
	}
	if len(list) > 0 {
		err := m.fabric.pass(func(p core.Addr) *core.Error {
			return memory.MemSetPidToShareableHandleV2(m.d.t, p, abi.MemShareHandleTypeFabric, first(list),
				uint64(len(list)))
		})
		if err != nil {
			return FabricHandle{}, m.d.result(err)
		}
	}
	return *m.fabric, nil
}

// pass calls f with the handle's address.
func (h *FabricHandle) pass(f func(core.Addr) *core.Error) *core.Error {
	var pin runtime.Pinner // the address is a number, which does not keep the value alive
	pin.Pin(h)
	defer pin.Unpin()
	return f(addressOf(h))
}

// ImportFabric opens the memory that the handle names, usually of another server, to be mapped here. Nothing is
// copied: copies access the memory on its server. They fail with [ErrRTLostHeartbeat] if that server stops answering.
// Close only closes it here. If ctx ends before the other server has replied, its error is returned.
func (d *Device) ImportFabric(ctx context.Context, h FabricHandle) (*Physical, error) {
	return importing(ctx, func() (*Physical, error) {
		m := &Physical{d: d}
		err := h.pass(func(p core.Addr) *core.Error {
			return memory.MemImportFromShareableHandleV2(d.t, p, abi.MemShareHandleTypeFabric, 0, &m.h)
		})
		if err != nil {
			return nil, d.result(err)
		}
		m.n = int(memory.PhysicalSize(d.t, m.h))
		return m, nil
	})
}
