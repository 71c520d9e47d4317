package process

import (
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/observe"
)

// unasked is a tracer that nothing is reported to.
type unasked struct{ observe.Tracer }

// TestMarkMessages proves that refused marks say why: nothing records the program, or nothing is pushed.
func TestMarkMessages(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	want := func(err *core.Error, text string) {
		t.Helper()
		if err == nil || err.Text != text {
			t.Errorf("%v, want %q", err, text)
		}
	}
	want(ProfPop(m.Th), "nothing records the program: start it with ropeway trace")
	m.Runtime.Probe = &core.Probe{Trace: unasked{}}
	want(ProfPop(m.Th), "this thread has pushed nothing that it has not popped")
	m.Runtime.Probe = nil
}
