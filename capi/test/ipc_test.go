package capitest

import (
	"os"
	"strings"
	"testing"
)

// TestIPC shares memory between processes that the program starts by fork and exec, through the library: without a copy, with white lists, and
// with an exporter that is killed.
func TestIPC(t *testing.T) {
	if testDriver != "" {
		t.Skipf("the driver %s does not share memory", testDriver)
	}
	program := compile(t, []string{"ipc.c"})
	for _, mode := range []string{"exporter", "survivor"} {
		t.Run(mode, func(t *testing.T) { passes(t, nil, program, mode) })
	}
	if list, err := os.ReadDir("/dev/shm"); err == nil {
		for _, e := range list {
			if strings.Contains(e.Name(), "ropeway") {
				t.Errorf("/dev/shm/%s was left behind", e.Name())
			}
		}
	}
}
