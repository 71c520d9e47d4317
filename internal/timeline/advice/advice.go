// Package advice suggests changes to a program that make its copies take less time, and gives the numbers behind each
// suggestion.
//
// A rule gives advice if its subject took at least a hundredth of the time with work (from the first submission to
// the end of the last task), and a thousandth of the run, so that following it has a noticeable effect. The saving of
// a change is an upper bound: other work may take the time then.
package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ropeway/internal/timeline"
)

// Advice is a suggested change, or the statement that there is none.
type Advice struct {
	Rule    string   `json:"rule"`
	Title   string   `json:"title"`
	Text    string   `json:"text"`  // the observation and the suggestion
	Saves   int64    `json:"saves"` // nanoseconds of the run, at most; 0: unknown
	Tasks   []int    `json:"tasks"` // tasks concerned; the first [Most]
	Calls   []int    `json:"calls"` // calls concerned; the first [Most]
	Numbers []Number `json:"numbers"`
	Lines   []string `json:"lines"` // lines of the program with most of these calls
}

// Number is a number that supports the advice, formatted as text.
type Number struct {
	Label string `json:"label"`
	Value string `json:"value"`
}

// Names of rules.
const (
	Pageable   = "pageable-copies"
	Small      = "small-copies"
	OneStream  = "one-stream"
	EachCopy   = "wait-for-each-copy"
	DeviceSync = "device-synchronisation"
	Nothing    = "nothing"
)

// Thresholds of rules.
const (
	Most = 1000 // largest number of tasks and of calls in an advice

	worthOfWork  = 100      // divisor: a rule needs at least this part of the time with work
	worthOfRun   = 1000     // divisor: and at least this part of the run
	smallCopy    = 64 << 10 // bytes; smaller copies cost mostly the call and the task
	leastInGroup = 8        // least number of consecutive small copies, or waits
)

// Of returns the advice for a run, the most worthwhile first. There is at least one for every run.
func Of(run *timeline.Run) []Advice {
	if run.Checked {
		return []Advice{nothing(run, "No advice from a checked run",
			"The checker holds work back, so times of this run are not those of the program. Run it with ropeway "+
				"trace for advice.")}
	}
	v := look(run)
	var all []Advice
	for _, rule := range []func(*view) *Advice{pageable, small, oneStream, eachCopy, deviceSync} {
		if a := rule(v); a != nil {
			all = append(all, *a)
		}
	}
	for i := range all {
		all[i].Lines = lines(run, &all[i])
	}
	slices.SortStableFunc(all, func(a, b Advice) int { return cmp.Compare(b.Saves, a.Saves) })
	if len(all) == 0 {
		all = append(all, good(run))
	}
	return all
}

// good returns the result for a run that needs no change.
func good(run *timeline.Run) Advice {
	if len(run.Tasks) == 0 {
		return nothing(run, "Nothing to look at", "The program queued no work and copied nothing.")
	}
	return nothing(run, "No suggestions",
		"Checked: copies from pageable memory, small copies in a row, copies that wait for one another in one "+
			"stream, and synchronisations. "+
			"None of them costs 1% or more of the busy time.")
}

// nothing returns a result without advice, with numbers of the run.
func nothing(run *timeline.Run, title, text string) Advice {
	copies, bytes := run.Copied()
	return Advice{Rule: Nothing, Title: title, Text: text, Numbers: []Number{
		{"calls", fmt.Sprint(len(run.Calls))}, {"tasks", fmt.Sprint(len(run.Tasks))}, {"copies", fmt.Sprint(copies)},
		{"bytes copied", size(bytes)}, {"length of the run", duration(run.Duration)}}}
}

// view is a run with indexes for the rules.
type view struct {
	run     *timeline.Run
	worth   int64         // least nanoseconds for a rule to give advice
	threads map[int][]int // calls of each known thread, in order
	tasks   []int         // tasks of all calls, grouped by call
	from    []int         // by call: index in tasks of its first one; one more for the end
	traits  []traits      // by function
}

// traits are properties of a function, derived from its name.
type traits struct {
	async  bool // it should return before its work is done
	waits  bool // it waits for work queued before
	device bool // it waits for a whole device
}

func look(run *timeline.Run) *view {
	v := &view{run: run, worth: max(1, working(run)/worthOfWork, run.Duration/worthOfRun), threads: map[int][]int{}}
	for i := range run.Calls {
		if thread := run.Calls[i].Thread; thread != timeline.None {
			v.threads[thread] = append(v.threads[thread], i)
		}
	}
	v.from = make([]int, len(run.Calls)+2)
	for i := range run.Tasks {
		if c := run.Tasks[i].Call; v.called(c) {
			v.from[c+2]++
		}
	}
	for c := range run.Calls {
		v.from[c+2] += v.from[c+1]
	}
	v.tasks = make([]int, v.from[len(v.from)-1])
	for i := range run.Tasks {
		if c := run.Tasks[i].Call; v.called(c) {
			v.tasks[v.from[c+1]] = i
			v.from[c+1]++
		}
	}
	for _, name := range run.Functions {
		waits := strings.Contains(name, "Synchronize")
		v.traits = append(v.traits, traits{strings.Contains(name, "Async"), waits, waits &&
			strings.Contains(name, "Device")})
	}
	return v
}

// working returns the time with work: from the first submission to the end of the last task.
func working(run *timeline.Run) int64 {
	if len(run.Tasks) == 0 {
		return 0
	}
	first, last := run.Duration, int64(0)
	for i := range run.Tasks {
		first, last = min(first, run.Tasks[i].Submit), max(last, run.Tasks[i].End)
	}
	return max(0, last-first)
}

// called reports whether there is a call with this index.
func (v *view) called(index int) bool { return index >= 0 && index < len(v.run.Calls) }

// tasksOf returns the tasks that a call submitted.
func (v *view) tasksOf(call int) []int { return v.tasks[v.from[call]:v.from[call+1]] }

// is returns the traits of a call's function.
func (v *view) is(c *timeline.Call) traits {
	if c.Function < 0 || c.Function >= len(v.traits) {
		return traits{}
	}
	return v.traits[c.Function]
}

// ended returns the time when a call returned, or when the run ended.
func (v *view) ended(c *timeline.Call) int64 {
	if c.End == timeline.None {
		return v.run.Duration
	}
	return c.End
}

// firstOf returns the first [Most] elements in ascending order, without duplicates.
func firstOf(list []int) []int {
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), Most)]
}
