package timeline_test

import (
	"testing"

	"ropeway/internal/timeline"
)

// TestNames proves that every value has its own name, and that values nobody knows do no harm.
func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{timeline.Copy.String(), "copy"}, {timeline.Descriptor.String(), "descriptor copy"}, {timeline.Function.String(), "function"}, {timeline.Kind(200).String(), "unknown"},
		{timeline.NoDirection.String(), ""}, {timeline.HostToDevice.String(), "host to device"}, {timeline.Both.String(), "both ways"}, {timeline.Direction(200).String(), "unknown"},
		{timeline.NoHostMemory.String(), ""}, {timeline.Pinned.String(), "pinned"}, {timeline.Mixed.String(), "mixed"}, {timeline.Memory(200).String(), "unknown"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	for kind, copies := range map[timeline.Kind]bool{timeline.Copy: true, timeline.Descriptor: true, timeline.Fill: false, timeline.Wait: false} {
		if kind.Copies() != copies {
			t.Errorf("%v copies: %v", kind, kind.Copies())
		}
	}
}
