package capitest

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestExit proves that a program may end in any way while copies are queued: they are done before its own handlers free
// what they copy, nothing crashes, nothing hangs.
func TestExit(t *testing.T) {
	program := compile(t, []string{"exit.c"})
	most := 1000
	switch {
	case testDriver != "":
		most = 2 // starting on a GPU takes a while
	case testing.Short():
		most = 5
	}
	for _, tt := range []struct {
		mode  string
		times int
		end   os.Signal
	}{
		{"handler_before", 40, nil}, {"handler_after", 40, nil},
		{"thread_before", 20, nil}, {"thread_after", 10, nil}, {"stranger", 10, nil},
		{"main_never_called", 10, nil}, {"quick", 10, nil}, {"quick_after", 10, nil},
		{"calls_before", 10, nil}, {"calls_after", 10, nil}, {"first_call_at_exit", 5, nil},
		{"sleeping_callback", 5, nil}, {"busy", 20, nil}, {"main_leaves", 5, nil},
		{"plain_exit", 10, nil}, {"plain_underscore", 10, nil}, {"plain_abort", 5, syscall.SIGABRT},
		{"from_callback", 10, nil},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			for range min(tt.times, most) {
				if r := run(t, nil, program, tt.mode); r.signal != tt.end || tt.end == nil && r.code != 0 {
					t.Fatalf("exit code %d, signal %v\n%s%s", r.code, r.signal, r.stdout, r.stderr)
				}
			}
		})
	}
	t.Run("statics", func(t *testing.T) {
		statics := compile(t, []string{"exit_statics.cpp"})
		for range min(5, most) {
			passes(t, nil, statics)
		}
	})
}

// TestExitInHandler proves that a program may call exit or quick_exit in a signal handler, whatever that interrupted:
// it ends with the code it gave, and functions that run at exit can call.
func TestExitInHandler(t *testing.T) {
	program := compile(t, []string{"exit_handler.c"})
	for _, where := range []string{"outside", "wait", "copy", "callback"} {
		for _, how := range []string{"exit", "quick"} {
			for _, thread := range []string{"main", "worker"} {
				t.Run(where+"/"+how+"/"+thread, func(t *testing.T) {
					for _, env := range [][]string{nil, {"ROPEWAY_CHECK=1"}, {"ROPEWAY_TRACE=" + t.TempDir()}} {
						if testDriver != "" && env != nil {
							continue
						}
						r := run(t, env, program, where, how, thread)
						if r.code != 7 {
							t.Fatalf("%q: exit code %d, signal %v\n%s%s", env, r.code, r.signal, r.stdout, r.stderr)
						}
					}
				})
			}
		}
	}
}

// TestExitOfStuckStream proves that a stream which waits for an event nobody records does not hold a process back: the
// limit is far above what an exit takes and far below how long the library waits for copies that do run.
func TestExitOfStuckStream(t *testing.T) {
	program := compile(t, []string{"exit.c"})
	best := hang
	for range 3 { // a busy machine may delay one of them
		start := time.Now()
		passes(t, nil, program, "stuck")
		best = min(best, time.Since(start))
	}
	if best > 8*time.Second {
		t.Errorf("the fastest of three exits took %v", best)
	}
}

// TestExitWithKernel proves that a kernel which does not end holds a process back for a moment and no more, that one
// which does end in that time is not cut short, and that a main thread which leaves the others cuts nothing short.
func TestExitWithKernel(t *testing.T) {
	t.Parallel()
	if testDriver == "cuda" {
		t.Skip("kernels for a CPU")
	}
	program := compile(t, []string{"exit_kernel.c"}, "-Itestdata")
	kernels := compile(t, []string{"kernels/lasting.c"}, "-shared", "-fPIC")
	env := []string{"ROPEWAY_DEVICE_MEMORY=256M"}
	for mode, want := range map[string]int{"endless": 0, "threads": 0, "ends": 2, "main_leaves": 2} {
		t.Run(mode, func(t *testing.T) {
			var ended int
			var took time.Duration
			for range 3 { // on a busy machine a kernel may take longer than the process waits
				start := time.Now()
				out := passes(t, env, program, mode, kernels)
				ended, took = strings.Count(out, "the kernel has ended\n"), time.Since(start)
				if ended == want && took < 8*time.Second { // less than the wait for copies
					return
				}
			}
			t.Errorf("%d blocks of the kernel ended, want %d; it took %v", ended, want, took)
		})
	}
}
