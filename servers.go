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

// Process is a process of one server of a pod, which a key is for. pod.Self returns that of the caller; it travels to
// the server that has the memory by any means, in JSON for example.
type Process struct {
	Server int // number of the server
	PID    int // number of the process there
}

// String returns the process as text.
func (p Process) String() string { return fmt.Sprintf("process %d of server %d", p.PID, p.Server) }

// serverBit is the bit at which the number of a server begins in that of its devices, and mostServer is the largest
// number.
const (
	serverBit  = 22
	mostServer = 1<<10 - 1
)

// checkProcesses refuses a list that no server could have.
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

// name calls f with each process as C names it: by the number of a device of its server.
func (d *Device) name(with []Process, f func(*abi.ServerPid) *core.Error) error {
	for _, p := range with {
		pid := int32(p.PID)
		var pin runtime.Pinner // the address is a number, which does not keep what it points to
		pin.Pin(&pid)
		err := f(&abi.ServerPid{Sdid: uint32(p.Server) << serverBit, Pid: addressOf(&pid), Num: 1})
		pin.Unpin()
		if err != nil {
			return d.result(err)
		}
	}
	return nil
}

// ShareWith lets processes of other servers of a pod have device memory, by [Device.Import] there, and returns the key
// for it. Nothing is copied: their copies and fills go to where the memory is, and this process has nothing to do for
// them. It ends as that of [Buffer.Share] does. [Physical.ShareFabric] needs no process to be named.
//
// Other servers are reached with package pod, on the product A3. Memory of a GPU is shared by [Physical.ShareFabric]
// alone.
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

// ShareWith lets processes of other servers of a pod have the notify, by [Device.ImportNotify] there, as
// [Buffer.ShareWith] does with memory; once for each notify, if [Notify.Share] was not called. Streams there record it,
// after what they did before, and streams of its own device wait for it.
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

// FabricHandle names memory for processes of all servers of a pod. It is the aclrtMemFabricHandle of C, and the bytes
// that Python has, so programs in different languages can pass it on to each other: h[:] are its bytes. As text, also
// in JSON and for package flag, it is 256 hexadecimal digits. It has a secret in it: a process of the pod that has the
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

// ShareFabric lets processes of all servers of a pod have the memory, by [Device.ImportFabric]. Only the processes with
// the given numbers may, on whatever server they are; if none is given, all of the pod. Nothing is copied, and this
// process has nothing to do for the others. Sharing again gives the same handle and lets further processes have it;
// whether there is a list is said by the first call. It ends when the memory is closed and nowhere mapped. Memory has
// one kind of handle: that of Share or this one.
//
// Other servers are reached with package pod, on the product A3. Without a pod, processes of this machine are.
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

// pass calls f with the handle's address, as C passes it.
func (h *FabricHandle) pass(f func(core.Addr) *core.Error) *core.Error {
	var pin runtime.Pinner // the address is a number, which does not keep what it points to
	pin.Pin(h)
	defer pin.Unpin()
	return f(addressOf(h))
}

// ImportFabric opens the memory that the handle names, mostly of another server, to be mapped here. Nothing is copied:
// copies with it go to where it is. They fail with [ErrRTLostHeartbeat] if that server stops answering. Close closes it
// here. When ctx ends before the other server has replied, its error is returned.
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
