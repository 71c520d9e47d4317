package observe_test

import (
	"testing"

	"ropeway/internal/observe"
)

// TestNames proves that every value has its own name, and that values nobody knows do no harm.
func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{observe.Copy.String(), "copy"}, {observe.Descriptor.String(), "descriptor copy"}, {observe.Function.String(), "function"}, {observe.Kind(200).String(), "unknown"},
		{observe.NoDirection.String(), ""}, {observe.HostToDevice.String(), "host to device"}, {observe.Both.String(), "both ways"}, {observe.Direction(200).String(), "unknown"},
		{observe.NoHostMemory.String(), ""}, {observe.Pinned.String(), "pinned"}, {observe.Mixed.String(), "mixed"}, {observe.Memory(200).String(), "unknown"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	for kind, copies := range map[observe.Kind]bool{observe.Copy: true, observe.Descriptor: true, observe.Fill: false, observe.Wait: false} {
		if kind.Copies() != copies {
			t.Errorf("%v copies: %v", kind, kind.Copies())
		}
	}
}
