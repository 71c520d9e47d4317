package report

import (
	"testing"

	"ropeway/internal/timeline"
)

func runOf(calls ...timeline.Call) *timeline.Run {
	return &timeline.Run{Duration: 1_000_000, Functions: []string{"a", "never", "b"}, Calls: calls}
}

func TestPercentiles(t *testing.T) {
	var calls []timeline.Call
	for i := int64(1); i <= 1000; i++ {
		calls = append(calls, timeline.Call{Start: 5, End: 5 + i*100})
	}
	got := functionsOf(runOf(calls...))
	if len(got) != 1 {
		t.Fatalf("%d functions, want the one that was called", len(got))
	}
	f := got[0]
	if f.Count != 1000 || f.Total != 50_050_000 || f.Mean != 50_050 || f.Max != 100_000 || f.Errors != 0 {
		t.Errorf("%+v: count, total, mean, max or errors are wrong", f)
	}
	if f.P50 != 50_000 || f.P90 != 90_000 || f.P99 != 99_000 {
		t.Errorf("%+v: percentiles are wrong", f)
	}
}

func TestMostExpensiveFirstAndErrors(t *testing.T) {
	got := functionsOf(runOf(timeline.Call{Function: 0, Start: 0, End: 10}, timeline.Call{Function: 2, Start: 0,
		End: 50, Code: 100000}))
	if len(got) != 2 || got[0].Function != 2 || got[1].Function != 0 {
		t.Fatalf("%+v: want b, then a", got)
	}
	if got[0].Errors != 1 || got[1].Errors != 0 {
		t.Errorf("%+v: want one error, of b", got)
	}
}

func TestCallThatNeverReturnedCountsUntilTheEnd(t *testing.T) {
	got := functionsOf(runOf(timeline.Call{Start: 400_000, End: timeline.None, Code: -1}))
	if len(got) != 1 || got[0].Max != 600_000 || got[0].Total != 600_000 || got[0].Errors != 0 {
		t.Errorf("%+v: want 600000 ns and no error", got)
	}
}

func TestOneCallIsItsOwnPercentile(t *testing.T) {
	f := functionsOf(runOf(timeline.Call{Start: 0, End: 123_457}))[0]
	if f.P50 != 123_457 || f.P99 != 123_457 {
		t.Errorf("%+v: percentiles are more than the longest call", f)
	}
}

func TestFunctionsOfNothing(t *testing.T) {
	if got := functionsOf(&timeline.Run{}); len(got) != 0 {
		t.Errorf("%+v of an empty run", got)
	}
	if got := functionsOf(runOf(timeline.Call{Start: 7, End: 7})); len(got) != 1 || got[0].Max != 0 || got[0].P99 != 0 {
		t.Errorf("%+v of a call that took no time", got)
	}
}
