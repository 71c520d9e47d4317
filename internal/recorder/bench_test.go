package recorder

import (
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/observe"
	"ropeway/internal/testenv"
)

// processor is the time, in nanoseconds, that processors have spent on this process.
func processor(b *testing.B) int64 {
	var u unix.Rusage
	testenv.OK(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkTask is what is recorded of a copy in a C program: that it was submitted, ran, and that its call returned.
func BenchmarkTask(b *testing.B) {
	r, err := Open(Options{Dir: b.TempDir()})
	testenv.OK(b, err)
	var o observe.Tracer = r
	before := processor(b)
	for b.Loop() {
		start := o.Now()
		o.Submitted(observe.Task{Stream: 1, Number: 1, Thread: 7, Bytes: 64, Submit: start, Call: start})
		o.Ran(1, 1, 0, o.Now(), observe.Result{})
		o.Called(observe.Call{Function: 3, Thread: 7, Stream: 1, Start: start, End: o.Now()})
	}
	b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op") // with what is done beside the program
	b.StopTimer()
	testenv.OK(b, r.Close())
}
