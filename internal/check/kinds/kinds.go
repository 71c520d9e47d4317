// Package kinds names what a program gets from the API and has to release.
package kinds

import "ropeway/internal/core"

var names = map[core.ResourceKind]string{
	core.DeviceMemory:      "device",
	core.PinnedMemory:      "pinned",
	core.MappedMemory:      "mapped",
	core.ImportedMemory:    "imported",
	core.ManagedMemory:     "managed",
	core.RegisteredMemory:  "registered",
	core.StreamHandle:      "stream",
	core.ContextHandle:     "context",
	core.NotifyHandle:      "notify",
	core.CountNotifyHandle: "count notify",
	core.PoolHandle:        "memory pool",
	core.PhysicalMemory:    "physical memory",
	core.AddressRange:      "address range",
	core.ModelHandle:       "model",
}

// Name is what a kind is called; for memory, what comes before that word.
func Name(kind core.ResourceKind) string {
	if n, ok := names[kind]; ok {
		return n
	}
	return "event"
}

// IsMemory reports whether something of a kind has addresses that tasks use.
func IsMemory(kind core.ResourceKind) bool {
	switch kind {
	case core.DeviceMemory, core.PinnedMemory, core.RegisteredMemory, core.ImportedMemory, core.MappedMemory,
		core.ManagedMemory:
		return true
	}
	return false
}

// Gone is what happens to something of a kind when it is released.
func Gone(kind core.ResourceKind) string {
	switch kind {
	case core.RegisteredMemory:
		return "unregistered"
	case core.MappedMemory:
		return "unmapped"
	case core.ImportedMemory:
		return "closed"
	case core.DeviceMemory, core.PinnedMemory, core.ManagedMemory, core.PhysicalMemory:
		return "freed"
	case core.AddressRange:
		return "released"
	}
	return "destroyed"
}
