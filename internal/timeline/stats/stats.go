// Package stats counts what the calls of a run cost.
package stats

import (
	"cmp"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ropeway/internal/timeline"
)

// Function is what calls of one API function cost, in nanoseconds. Count, Total, Max and Errors are exact, percentiles are at
// most 0.1% too high.
type Function struct {
	Function int   `json:"function"` // index
	Count    int   `json:"count"`
	Total    int64 `json:"total"`
	Mean     int64 `json:"mean"`
	P50      int64 `json:"p50"`
	P90      int64 `json:"p90"`
	P99      int64 `json:"p99"`
	Max      int64 `json:"max"`
	Errors   int   `json:"errors"` // calls that did not return 0
}

// digits is how many decimal digits of a time percentiles are right in.
const digits = 3

// Of counts the functions that were called, the most expensive first. A call that had not returned counts until the run's end.
func Of(run *timeline.Run) []Function {
	all := make([]Function, len(run.Functions))
	times := make([]*hdrhistogram.Histogram, len(run.Functions))
	longest := max(run.Duration, 2)
	for i := range run.Calls {
		c := &run.Calls[i]
		if c.Function < 0 || c.Function >= len(all) {
			continue
		}
		length := Length(run, c)
		f := &all[c.Function]
		if f.Count++; f.Count == 1 {
			times[c.Function] = hdrhistogram.New(1, longest, digits)
		}
		f.Total += length
		f.Max = max(f.Max, length)
		if c.Code != 0 && c.End != timeline.None {
			f.Errors++
		}
		times[c.Function].RecordValue(min(length, longest)) //nolint:errcheck // it is in range
	}
	for i := range all {
		f := &all[i]
		f.Function = i
		if f.Count == 0 {
			continue
		}
		f.Mean = f.Total / int64(f.Count)
		at := times[i].ValueAtPercentilesSlice([]float64{50, 90, 99})
		f.P50, f.P90, f.P99 = min(at[0], f.Max), min(at[1], f.Max), min(at[2], f.Max)
	}
	all = slices.DeleteFunc(all, func(f Function) bool { return f.Count == 0 })
	slices.SortStableFunc(all, func(a, b Function) int { return cmp.Compare(b.Total, a.Total) })
	return all
}

// Length is how long a call took; one that had not returned took until the run's end.
func Length(run *timeline.Run, c *timeline.Call) int64 {
	if c.End == timeline.None {
		return max(0, run.Duration-c.Start)
	}
	return max(0, c.End-c.Start)
}
