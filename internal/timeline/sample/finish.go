package sample

import (
	"cmp"
	"slices"

	"ropeway/internal/timeline"
)

// Find adds a finding about tasks, as the checker would report it at the end of the last of them.
func (b *Builder) Find(rule, severity, text string, thread int, tasks ...int) {
	f := timeline.Finding{Rule: rule, Severity: severity, Text: text, Tasks: tasks, Thread: thread, Report: severity +
		": " + rule + ": " + text + "\n"}
	for _, t := range tasks {
		f.Time = max(f.Time, b.run.Tasks[t].Submit)
	}
	b.run.Findings = append(b.run.Findings, f)
	b.run.Checked = true
}

// Run ends the run and returns it. It sorts calls and tasks by time, so indexes that the builder returned may be
// invalid if there were several threads.
func (b *Builder) Run() *timeline.Run {
	r := &b.run
	for _, now := range b.now {
		b.end = max(b.end, now)
	}
	r.Duration = b.end + 1000
	calls := sorted(r.Calls, func(c timeline.Call) int64 { return c.Start })
	tasks := sorted(r.Tasks, func(t timeline.Task) int64 { return t.Submit })
	for i := range r.Tasks {
		r.Tasks[i].Call = calls[r.Tasks[i].Call]
	}
	numbers := map[int]uint32{}
	for i := range r.Tasks {
		if s := r.Tasks[i].Stream; s != timeline.None {
			numbers[s]++
			r.Tasks[i].Number = numbers[s]
		}
	}
	for i := range r.Calls {
		if c := &r.Calls[i]; c.Awaited != timeline.None {
			c.Awaited = tasks[c.Awaited]
		}
	}
	for i, e := range r.Edges {
		r.Edges[i] = timeline.Edge{From: tasks[e.From], To: tasks[e.To]}
	}
	for _, f := range r.Findings {
		for i := range f.Tasks {
			f.Tasks[i] = tasks[f.Tasks[i]]
		}
	}
	return r
}

// sorted sorts a list by time and returns where each element went.
func sorted[T any](list []T, time func(T) int64) []int {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(time(list[a]), time(list[b])) })
	old, to := slices.Clone(list), make([]int, len(list))
	for i, from := range order {
		list[i], to[from] = old[from], i
	}
	return to
}
