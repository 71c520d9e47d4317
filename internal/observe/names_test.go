package observe_test

import (
	"testing"

	"ropeway/internal/observe"
)

// TestNames proves that every value has its own name, and that values nobody knows do no harm.
func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{observe.Copy.String(), "copy"}, {observe.Descriptor.String(), "descriptor copy"}, {observe.Function.String(),
			"function"}, {observe.Kind(200).String(), "unknown"},
		{observe.NotifyRecord.String(), "notify record"}, {observe.ValueWait.String(), "value wait"},
		{observe.Prefetch.String(), "prefetch"}, {observe.Kernel.String(), "kernel"},
		{observe.NoDirection.String(), ""}, {observe.HostToDevice.String(), "host to device"}, {observe.Both.String(),
			"both ways"}, {observe.Direction(200).String(), "unknown"},
		{observe.NoHostMemory.String(), ""}, {observe.Pinned.String(), "pinned"}, {observe.Mixed.String(), "mixed"},
		{observe.Memory(200).String(), "unknown"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	pairs := map[observe.Kind]observe.Kind{observe.Record: observe.Wait, observe.NotifyRecord: observe.NotifyWait,
		observe.ValueWrite: observe.ValueWait}
	for k := range observe.Kind(len(observe.Kinds)) {
		if _, records := pairs[k]; records != k.Records() {
			t.Errorf("%v records: %v", k, k.Records())
		}
	}
	for record, wait := range pairs {
		if !wait.Waits() || record.Waits() {
			t.Errorf("%v waits: %v, %v: %v", wait, wait.Waits(), record, record.Waits())
		}
	}
	for kind, copies := range map[observe.Kind]bool{observe.Copy: true, observe.Descriptor: true, observe.Fill: false,
		observe.Wait: false} {
		if kind.Copies() != copies {
			t.Errorf("%v copies: %v", kind, kind.Copies())
		}
	}
}
