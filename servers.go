package ropeway

import (
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

// serverBit is where the number of a server begins in that of its devices, and mostServer is the largest.
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
