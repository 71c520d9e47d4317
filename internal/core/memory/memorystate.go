// Package memory implements the memory of AscendCL: of devices, pinned and registered on the host, managed, virtual, in
// pools, and shared between processes and devices.
package memory

import (
	"ropeway/internal/core"
	"ropeway/internal/core/handles"
)

// memoryState is a runtime's state of memory.
type memoryState struct {
	rt             *core.Runtime // immutable
	pools          poolState
	vmm            vmm
	managed        managedState
	mapped         mappedHosts
	ipc            ipcState
	allocatorDescs core.Table[allocatorDesc]
	allocators     allocators
}

var memoryPart = core.NewPart(func(rt *core.Runtime) *memoryState {
	m := &memoryState{rt: rt}
	m.pools.table.Kind, m.vmm.memories.Kind, m.allocatorDescs.Kind = handles.Pool, handles.Memory, handles.Allocator
	return m
})

func memoryOf(rt *core.Runtime) *memoryState { return memoryPart.Of(rt) }

// DeviceClosing implements core.DeviceEnder: pools and exports end with their device. d.mu is held.
func (m *memoryState) DeviceClosing(d *core.Device) {
	m.pools.closed(d)
	m.mapped.closed(d)
	m.vmm.closed(d)
}

// DeviceClosed implements core.DeviceCloser: imports end after it.
func (m *memoryState) DeviceClosed(d *core.Device, _ *core.OpenDevice) { m.ipc.closed(m.rt, d) }

// ContextDestroyed implements core.ContextCloser.
func (m *memoryState) ContextDestroyed() { m.ipc.sweep() }

// Finalize implements core.Finalizer: it ends all sharing.
func (m *memoryState) Finalize() {
	m.ipc.closed(m.rt, nil)
	m.vmm.closed(nil)
	m.ipc.sweep()
}

// Shares reports whether another process may have memory of this one, or this one memory of another.
func Shares(rt *core.Runtime) bool {
	m := memoryOf(rt)
	return m.ipc.some.Load() || m.vmm.shares.Load()
}
