package testenv

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Parked is how many goroutines sleep, in Go or in the kernel, in functions whose names have all the texts in them, as
// stacks show it: "core.(*Thread).Synchronize".
func Parked(functions ...string) (n int) {
	buf := make([]byte, 64<<10)
	for {
		size := runtime.Stack(buf, true)
		if size < len(buf) {
			buf = buf[:size]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		head, frames, _ := strings.Cut(stack, "\n")
		_, state, _ := strings.Cut(head, "[")
		if strings.HasPrefix(state, "run") || strings.HasPrefix(state, "preempted") { // running, runnable
			continue
		}
		frames, _, _ = strings.Cut(frames, "\ncreated by ")
		if !slices.ContainsFunc(functions, func(f string) bool { return !strings.Contains(frames, f) }) {
			n++
		}
	}
	return n
}

// AwaitParked waits until n goroutines are parked in a function: instead of a sleep that is long enough most of the
// time.
func AwaitParked(t testing.TB, n int, function string) {
	t.Helper()
	for start := time.Now(); Parked(function) < n; time.Sleep(100 * time.Microsecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d goroutines of %d are parked in %s", Parked(function), n, function)
		}
	}
}

// Eventually waits until a condition holds. If that takes more than a minute the test fails, and says what did not
// happen.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("within a minute it did not happen that %s", what)
		}
	}
}
