package trace

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"ropeway/internal/timeline"
)

// awaits sets, for each waiting call of the process, the task that it waited for. base is the index of the process's
// first call, tasks that of its first task, and index has its tasks by their keys.
//
// A wait for an event names the record. A wait for a stream waited for its last task, and a wait for a device for the
// task that ended last, of the tasks submitted before the call began.
func (t *part) awaits(base, tasks int, index map[taskKey]int) {
	onStream := map[int][]int{} // by stream: its tasks in the order of submission
	var ended []int             // ended tasks of all streams, in the order of their ends
	for i := tasks; i < len(t.run.Tasks); i++ {
		if k := &t.run.Tasks[i]; k.Stream != timeline.None {
			onStream[k.Stream] = append(onStream[k.Stream], i)
			if k.Ran() {
				ended = append(ended, i)
			}
		}
	}
	slices.SortStableFunc(ended, func(a, b int) int { return cmp.Compare(t.run.Tasks[a].End, t.run.Tasks[b].End) })
	named := t.named(index)
	for i := base; i < len(t.run.Calls); i++ {
		c := &t.run.Calls[i]
		if c.Blocked == 0 && c.End != timeline.None {
			continue
		}
		if task, ok := named[i]; ok {
			c.Awaited = task
		} else if c.Stream != timeline.None {
			c.Awaited = t.lastOf(onStream[c.Stream], c)
		} else if strings.Contains(t.run.Functions[c.Function], "Synchronize") {
			c.Awaited = t.lastEnded(ended, c)
		}
	}
}

// named returns the tasks that calls have named, by call.
func (t *part) named(index map[taskKey]int) map[int]int {
	named := make(map[int]int, len(t.p.awaited))
	for key, name := range t.p.awaited {
		if task, ok := index[name]; ok {
			if call, ok := t.callOf[key]; ok {
				named[call] = task
			}
		}
	}
	return named
}

// lastOf returns the last task of a stream that was submitted before the call began, or None if there is none or it
// was over by then.
func (t *part) lastOf(tasks []int, c *timeline.Call) int {
	n := sort.Search(len(tasks), func(i int) bool { return t.run.Tasks[tasks[i]].Submit > c.Start })
	if n == 0 {
		return timeline.None
	}
	if last := &t.run.Tasks[tasks[n-1]]; last.End != timeline.None && last.End < c.Start {
		return timeline.None
	}
	return tasks[n-1]
}

// lastEnded returns the task, of those submitted before the call began, that ended last during the call, or after it
// by no more than the uncertainty of the clocks; None if there is none.
func (t *part) lastEnded(ended []int, c *timeline.Call) int {
	n := len(ended)
	if c.End != timeline.None {
		n = sort.Search(n, func(i int) bool { return t.run.Tasks[ended[i]].End > c.End+slack })
	}
	for n--; n >= 0 && t.run.Tasks[ended[n]].End >= c.Start; n-- {
		if t.run.Tasks[ended[n]].Submit <= c.Start {
			return ended[n]
		}
	}
	return timeline.None
}
