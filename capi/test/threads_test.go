package capitest

import "testing"

// TestThreads proves ACL's per-thread rules for threads of C: ten thousand that copy and end leave nothing behind, last
// error and context are each thread's own, and destructors at a thread's end still have its context.
func TestThreads(t *testing.T) {
	program := compile(t, []string{"threads.c"})
	var env []string
	if onGPU {
		// On an H200 (driver 580) 9,000 threads left 20 to 30 MB, on an imitation of libcuda nothing: libcuda seems to
		// keep it.
		env = []string{"KEPT_OF_A_THREAD=4096"}
	}
	for _, mode := range []string{"flat", "errors", "contexts", "keys", "rounds", "cancel", "cancel_in_call",
		"crowd", "coroutines"} {
		t.Run(mode, func(t *testing.T) {
			t.Log(passes(t, env, program, mode))
		})
	}
	t.Run("locals", func(t *testing.T) {
		passes(t, nil, compile(t, []string{"threads_locals.cpp"}))
	})
}
