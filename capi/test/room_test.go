package capitest

import "testing"

// TestRoom proves that a process with too little left for the core is refused with a code and a reason, is not ended by
// the Go runtime, and is let in once there is room; and that files of the program do not become memory of the library.
func TestRoom(t *testing.T) {
	program := compile(t, []string{"room.c"})
	for _, mode := range []string{"descriptors", "addresses", "data", "threads", "numbers"} {
		t.Run(mode, func(t *testing.T) { passes(t, nil, program, mode) })
	}
}
