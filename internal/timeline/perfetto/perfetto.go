// Package perfetto writes a run as a trace that ui.perfetto.dev and chrome://tracing open: the JSON of Chrome's trace
// events.
//
// Threads, streams, copy engines and cores are tracks. A device is shown as a separate process, whose threads are its
// streams and engines. An arrow goes from each call to the tasks that it submitted, and from the record of an event
// to each wait for it. Named ranges of the program are on a track beside their thread's. Counters show the bandwidth
// of each direction and the depth of each stream's queue.
//
// Requirements of readers of the format:
//   - slices of a track nest or follow one another, so overlapping slices are put on further tracks of the same name;
//   - numbers of threads are unique in the whole trace, and those of streams and engines are none of a real thread;
//   - the end of an arrow belongs to the slice of its track at that time, so it is in it and not at its edge;
//   - an arrow's end is not before its begin.
package perfetto

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"strings"

	"ropeway/internal/timeline"
)

// Write writes the trace of a run. It streams the output, so it needs little memory besides the run.
func Write(w io.Writer, run *timeline.Run) error {
	out := bufio.NewWriterSize(w, 1<<20)
	t := newTrace(out, run)
	t.begin()
	t.calls()
	t.tasks()
	t.cores()
	t.edges()
	t.ranges()
	t.findings()
	t.bandwidth()
	t.depth()
	t.end()
	return out.Flush() // the writer returns its first error
}

// WriteFile writes the trace to a file, compressed if its name ends in .gz.
func WriteFile(path string, run *timeline.Run) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	if !strings.HasSuffix(path, ".gz") {
		return Write(file, run)
	}
	// the trace of a long run has gigabytes, and BestSpeed still reduces it to a tenth
	packed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := Write(packed, run); err != nil {
		return err
	}
	return packed.Close()
}
