package trace

import (
	"cmp"
	"slices"
	"sort"

	"ropeway/internal/timeline"
)

// inTurn moves the start of each task, from index base, to the end of the previous task of its stream if it is
// earlier. A task that its submitter ran has only the submission time, and may have waited for another submitter.
// inTurn returns the tasks that ran on streams, by stream and order.
func (t *part) inTurn(base int) (order []int) {
	for i := base; i < len(t.run.Tasks); i++ {
		if k := &t.run.Tasks[i]; k.End != timeline.None && k.Stream != timeline.None {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &t.run.Tasks[a], &t.run.Tasks[b]
		return cmp.Or(cmp.Compare(x.Stream, y.Stream), cmp.Compare(x.End, y.End), cmp.Compare(x.Number, y.Number))
	})
	for i := 1; i < len(order); i++ {
		before, k := &t.run.Tasks[order[i-1]], &t.run.Tasks[order[i]]
		if before.Stream == k.Stream {
			k.Start = min(max(k.Start, before.End), k.End)
		}
	}
	return order
}

// edges adds an edge to each wait from the record that it waited for.
func (t *part) edges(list []task, base int, index map[taskKey]int) {
	records := map[uint64][]int{} // by event: records that ran, in order
	for i := range list {
		if r := &list[i]; r.Kind.Records() && t.run.Tasks[base+i].Ran() {
			event := t.p.more[taskKey{r.stream, r.Number}].event
			records[event] = append(records[event], base+i)
		}
	}
	for _, r := range records {
		slices.SortFunc(r, func(a, b int) int { return cmp.Compare(t.run.Tasks[a].Start, t.run.Tasks[b].Start) })
	}
	for i := range list {
		r := &list[i]
		if !r.Kind.Waits() {
			continue
		}
		to := &t.run.Tasks[base+i]
		m := t.p.more[taskKey{r.stream, r.Number}]
		from, ok := index[m.after]
		if m.after.number == 0 {
			from, ok = t.latest(records[m.event], to)
		}
		if !ok {
			continue
		}
		t.run.Edges = append(t.run.Edges, timeline.Edge{From: from, To: base + i})
		if f := &t.run.Tasks[from]; f.Ran() && to.Ran() && f.End > to.End {
			f.End = max(f.Start, to.End) // the wait was over before the record's end was recorded
		}
	}
}

// latest returns the last of some records that had begun when a wait was over: any record of the event ends the wait.
func (t *part) latest(records []int, wait *timeline.Task) (int, bool) {
	if !wait.Ran() {
		return 0, false
	}
	n := sort.Search(len(records), func(i int) bool { return t.run.Tasks[records[i]].Start > wait.End })
	if n == 0 {
		return 0, false
	}
	return records[n-1], true
}

// slack is the largest disagreement between the times of two streams. A GPU measures the times of its streams by its
// own clock; the driver fits that to the host's, usually to some microseconds, and rejects times with a larger error
// than this (internal/driver/cuda/gpu, ClockSlack).
const slack = 1_000_000

// reconcile moves the ends of waits that are before the end of the record they waited for, because two clocks disagree.
// It moves the wait, and later tasks on its stream if necessary, by at most slack. If the difference is larger, it
// moves nothing and drops the edge. order is the result of inTurn.
func (t *part) reconcile(order []int) {
	tasks := t.run.Tasks
	next := make(map[int]int, len(order)) // on the stream
	for i := 1; i < len(order); i++ {
		if tasks[order[i-1]].Stream == tasks[order[i]].Stream {
			next[order[i-1]] = order[i]
		}
	}
	waits := map[int][]int{} // by record
	limit := map[int]int64{} // by wait: latest allowed end
	var todo []timeline.Edge
	for _, e := range t.run.Edges[t.firstEdge:] {
		if from, to := &tasks[e.From], &tasks[e.To]; from.Ran() && to.Ran() {
			waits[e.From] = append(waits[e.From], e.To)
			limit[e.To] = to.End + slack
			if from.End > to.End {
				todo = append(todo, e)
			}
		}
	}
	for len(todo) > 0 {
		e := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		end := tasks[e.From].End
		if end <= tasks[e.To].End || end > limit[e.To] {
			continue
		}
		// Later tasks did not end earlier, so none is moved by more than the wait.
		for k, more := e.To, true; more && tasks[k].End < end; {
			tasks[k].End = end
			for _, to := range waits[k] {
				todo = append(todo, timeline.Edge{From: k, To: to})
			}
			if k, more = next[k]; more {
				tasks[k].Start = max(tasks[k].Start, end)
			}
		}
	}
	kept := t.run.Edges[:t.firstEdge]
	for _, e := range t.run.Edges[t.firstEdge:] {
		if from, to := &tasks[e.From], &tasks[e.To]; from.Ran() && to.Ran() && from.End > to.End {
			t.backwards++
			continue
		}
		kept = append(kept, e)
	}
	t.run.Edges = kept
}
