package kinds

import (
	"testing"

	"ropeway/internal/core"
)

// TestKinds proves how things are called, and what happens to them.
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
		{core.EventHandle, "event", "destroyed", false},
	} {
		if Name(tt.kind) != tt.name || Gone(tt.kind) != tt.gone || IsMemory(tt.kind) != tt.memory {
			t.Errorf("%s: %q, %q, memory %v", tt.name, Name(tt.kind), Gone(tt.kind), IsMemory(tt.kind))
		}
	}
}
