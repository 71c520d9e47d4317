package check

import "ropeway/internal/core"

var kindNames = map[core.ResourceKind]string{
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
	core.BinaryHandle:      "binary",
	core.FunctionHandle:    "function",
}

// kindName returns the name of a kind; for memory, the word before "memory".
func kindName(kind core.ResourceKind) string {
	if n, ok := kindNames[kind]; ok {
		return n
	}
	return "event"
}

// isMemory reports whether resources of a kind have addresses that tasks use.
func isMemory(kind core.ResourceKind) bool {
	switch kind {
	case core.DeviceMemory, core.PinnedMemory, core.RegisteredMemory, core.ImportedMemory, core.MappedMemory,
		core.ManagedMemory:
		return true
	}
	return false
}

// kindGone returns the past participle for the release of a kind.
func kindGone(kind core.ResourceKind) string {
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
	case core.BinaryHandle, core.FunctionHandle:
		return "unloaded"
	}
	return "destroyed"
}
