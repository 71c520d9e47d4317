package check

import "ropeway/internal/core"

// kinds has words for resources: the name, for memory the word before "memory"; the past participle for the release;
// and whether they have addresses that tasks use.
var kinds = map[core.ResourceKind]struct {
	name, gone string
	memory     bool
}{
	core.DeviceMemory:      {"device", "freed", true},
	core.PinnedMemory:      {"pinned", "freed", true},
	core.MappedMemory:      {"mapped", "unmapped", true},
	core.ImportedMemory:    {"imported", "closed", true},
	core.ManagedMemory:     {"managed", "freed", true},
	core.RegisteredMemory:  {"registered", "unregistered", true},
	core.EventHandle:       {"event", "destroyed", false},
	core.StreamHandle:      {"stream", "destroyed", false},
	core.ContextHandle:     {"context", "destroyed", false},
	core.NotifyHandle:      {"notify", "destroyed", false},
	core.CountNotifyHandle: {"count notify", "destroyed", false},
	core.PoolHandle:        {"memory pool", "destroyed", false},
	core.PhysicalMemory:    {"physical memory", "freed", false},
	core.AddressRange:      {"address range", "released", false},
	core.ModelHandle:       {"model", "destroyed", false},
	core.BinaryHandle:      {"binary", "unloaded", false},
	core.FunctionHandle:    {"function", "unloaded", false},
}
