package capitest

import "testing"

// TestIPC shares memory between processes that the program starts by fork and exec, through the library: without a
// copy, with white lists, and with an exporter that is killed.
func TestIPC(t *testing.T) {
	if testDriver != "" {
		t.Skipf("the driver %s does not share memory", testDriver)
	}
	program := compile(t, []string{"ipc.c"})
	for _, mode := range []string{"exporter", "survivor"} {
		t.Run(mode, func(t *testing.T) { passes(t, nil, program, mode) })
	}
}
