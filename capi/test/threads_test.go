package capitest

import "testing"

// TestThreads proves ACL's per-thread rules for threads of C: ten thousand that copy and end leave nothing behind, last
// error and context are each thread's own, and destructors at a thread's end still have its context.
func TestThreads(t *testing.T) {
	program := compile(t, []string{"threads.c"})
	for _, mode := range []string{"flat", "errors", "contexts", "keys", "rounds", "cancel", "crowd", "coroutines"} {
		t.Run(mode, func(t *testing.T) {
			t.Log(passes(t, nil, program, mode))
		})
	}
	t.Run("locals", func(t *testing.T) {
		passes(t, nil, compile(t, []string{"threads_locals.cpp"}))
	})
}
