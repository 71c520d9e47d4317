package core

// memoryState is what a runtime knows of memory.
type memoryState struct {
	rt             *Runtime // immutable
	pools          poolState
	vmm            vmm
	managed        managedState
	ipc            ipcState
	allocatorDescs table[allocatorDesc]
	allocators     allocators
}

var memoryPart = NewPart(func(rt *Runtime) *memoryState {
	m := &memoryState{rt: rt}
	m.pools.table.kind, m.vmm.memories.kind, m.allocatorDescs.kind = poolKind, memoryKind, allocatorKind
	return m
})

func memoryOf(rt *Runtime) *memoryState { return memoryPart.Of(rt) }

// DeviceClosing implements core.DeviceCloser: pools and exports go with their device. d.mu is held.
func (m *memoryState) DeviceClosing(d *Device) {
	m.pools.closed(d)
	m.vmm.closed(d)
}

// DeviceClosed implements core.DeviceCloser: imports go after it.
func (m *memoryState) DeviceClosed(d *Device) { m.ipc.closed(m.rt, d) }

// ContextDestroyed implements core.ContextCloser.
func (m *memoryState) ContextDestroyed() { m.ipc.sweep() }

// Finalize implements core.Finalizer: nothing is shared any more.
func (m *memoryState) Finalize() {
	m.ipc.closed(m.rt, nil)
	m.vmm.closed(nil)
	m.ipc.sweep()
}

// Shares reports whether another process may have memory of this one, or this one memory of another.
func Shares(rt *Runtime) bool {
	m := memoryOf(rt)
	return m.ipc.some.Load() || m.vmm.shares.Load()
}
