package check

import (
	"testing"

	"ropeway/internal/core"
)

// TestKinds proves the names of kinds and the words for their release.
func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		kind       core.ResourceKind
		name, gone string
		memory     bool
	}{
		{core.DeviceMemory, "device", "freed", true},
		{core.RegisteredMemory, "registered", "unregistered", true},
		{core.MappedMemory, "mapped", "unmapped", true},
		{core.ImportedMemory, "imported", "closed", true},
		{core.PhysicalMemory, "physical memory", "freed", false},
		{core.AddressRange, "address range", "released", false},
		{core.ModelHandle, "model", "destroyed", false},
		{core.FunctionHandle, "function", "unloaded", false},
		{core.EventHandle, "event", "destroyed", false},
	} {
		if k := kinds[tt.kind]; k.name != tt.name || k.gone != tt.gone || k.memory != tt.memory {
			t.Errorf("%s: %+v", tt.name, k)
		}
	}
}
