// Package advice says what to change in a program so that its copies take less time, with the numbers behind it.
//
// A rule speaks when what it found took at least a hundredth of the time in which there was work (from the first
// submission to the end of the last task), and a thousandth of the run, so that following it can be noticed. What a
// change saves is estimated as the most that it can save: other things may take the time then.
package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ropeway/internal/timeline"
)

// Advice is one thing to change, or that there is nothing.
type Advice struct {
	Rule    string   `json:"rule"`
	Title   string   `json:"title"`
	Text    string   `json:"text"`  // what was seen, what to do, in plain words
	Saves   int64    `json:"saves"` // nanoseconds of the run, at most; 0: not known
	Tasks   []int    `json:"tasks"` // it is about; the first [Most]
	Calls   []int    `json:"calls"` // it is about; the first [Most]
	Numbers []Number `json:"numbers"`
	Lines   []string `json:"lines"` // of the program, that most of these calls come from
}

// Number is one that the advice rests on, written for people.
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

// When rules speak.
const (
	Most = 1000 // tasks and calls that an advice points at

	worthOfWork  = 100      // a rule speaks if it is about one part in so many of the time with work
	worthOfRun   = 1000     // and in so many of the run
	smallCopy    = 64 << 10 // bytes of a copy whose cost is mostly that of the call and the task
	leastInGroup = 8        // small copies, or waits, that follow one another
)

// Of looks at a run. It returns something for every run, the most worthwhile first.
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

// good is said of a run that needs nothing.
func good(run *timeline.Run) Advice {
	if len(run.Tasks) == 0 {
		return nothing(run, "Nothing to look at", "The program queued no work and copied nothing.")
	}
	return nothing(run, "No suggestions",
		"Checked: copies from pageable memory, small copies in a row, copies that wait for one another in one "+
			"stream, and synchronisations. "+
			"None of them costs 1% or more of the busy time.")
}

// nothing is the result without advice, with what was looked at.
func nothing(run *timeline.Run, title, text string) Advice {
	copies, bytes := run.Copied()
	return Advice{Rule: Nothing, Title: title, Text: text, Numbers: []Number{
		{"calls", fmt.Sprint(len(run.Calls))}, {"tasks", fmt.Sprint(len(run.Tasks))}, {"copies", fmt.Sprint(copies)},
		{"bytes copied", size(bytes)}, {"length of the run", duration(run.Duration)}}}
}

// view is a run with what the rules look up in it.
type view struct {
	run     *timeline.Run
	worth   int64         // nanoseconds from which on a rule speaks
	threads map[int][]int // calls of each thread that is known, in order
	tasks   []int         // by call, those it submitted
	from    []int         // by call: where its tasks begin in tasks; one more for the end
	traits  []traits      // by function
}

// traits are what a function is, by its name.
type traits struct {
	async  bool // it is meant to return before its work is done
	waits  bool // it waits for work that was queued before
	device bool // and for that of a whole device
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

// working is how long there was work: from the first submission to the end of the last task.
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

// tasksOf are the tasks that a call submitted.
func (v *view) tasksOf(call int) []int { return v.tasks[v.from[call]:v.from[call+1]] }

// is reports what a call's function is.
func (v *view) is(c *timeline.Call) traits {
	if c.Function < 0 || c.Function >= len(v.traits) {
		return traits{}
	}
	return v.traits[c.Function]
}

// ended is when a call returned, or when the run ended.
func (v *view) ended(c *timeline.Call) int64 {
	if c.End == timeline.None {
		return v.run.Duration
	}
	return c.End
}

// firstOf keeps as many as an advice points at, in order.
func firstOf(list []int) []int {
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), Most)]
}
