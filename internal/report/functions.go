package report

import (
	"cmp"
	"slices"

	"ropeway/internal/timeline"
)

// function is what the calls of one API function cost, in nanoseconds.
type function struct {
	Function int   `json:"function"` // index
	Count    int   `json:"count"`
	Total    int64 `json:"total"`
	Mean     int64 `json:"mean"`
	P50      int64 `json:"p50"` // the shortest time that half of the calls do not exceed
	P90      int64 `json:"p90"`
	P99      int64 `json:"p99"`
	Max      int64 `json:"max"`
	Errors   int   `json:"errors"` // calls that did not return 0
}

// functionsOf counts the functions that were called, the most expensive first. A call that had not returned counts
// until the end of the run.
func functionsOf(run *timeline.Run) []function {
	times := make([][]int64, len(run.Functions))
	failed := make([]int, len(run.Functions))
	for i := range run.Calls {
		c := &run.Calls[i]
		if c.Function < 0 || c.Function >= len(times) {
			continue
		}
		times[c.Function] = append(times[c.Function], length(run, c))
		if c.Code != 0 && c.End != timeline.None {
			failed[c.Function]++
		}
	}
	var all []function
	for i, list := range times {
		if len(list) == 0 {
			continue
		}
		slices.Sort(list)
		f := function{Function: i, Count: len(list), Max: list[len(list)-1], Errors: failed[i],
			P50: percentile(list, 50), P90: percentile(list, 90), P99: percentile(list, 99)}
		for _, t := range list {
			f.Total += t
		}
		f.Mean = f.Total / int64(f.Count)
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b function) int { return cmp.Compare(b.Total, a.Total) })
	return all
}

// percentile is the smallest of the sorted values that p percent of them do not exceed.
func percentile(sorted []int64, p int) int64 {
	return sorted[max((p*len(sorted)+99)/100, 1)-1]
}

// length is how long a call took; one that had not returned took until the end of the run.
func length(run *timeline.Run, c *timeline.Call) int64 {
	if c.End == timeline.None {
		return max(0, run.Duration-c.Start)
	}
	return max(0, c.End-c.Start)
}
