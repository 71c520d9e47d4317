package capitest

import "testing"

// TestState proves that no call changes what belongs to the program: rounding, traps and flags of floating-point
// arithmetic, locale, errno; and that callbacks get an aligned stack and may call the API.
func TestState(t *testing.T) {
	program := compile(t, []string{"state.c"}, "-Wl,--no-as-needed,-lm")
	for _, mode := range []string{"floats", "floats_thread", "traps_usual", "traps_all", "denormals", "process",
		"files", "inherited", "errno", "callbacks"} {
		t.Run(mode, func(t *testing.T) {
			passes(t, nil, program, mode)
		})
	}
}
