package advice

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// eachCopy advises on a thread that waits after every copy, eight times in a row or more: the host is idle while a
// copy runs, and no copy runs while the host works. It gives advice if overlapping the two would save enough to
// notice.
func eachCopy(v *view) *Advice {
	var a Advice
	var blocked, between int64
	threads := 0
	for _, thread := range sortedKeys(v.threads) {
		w := waits{view: v}
		for _, i := range v.threads[thread] {
			w.call(i)
		}
		w.endChain()
		if w.saves > 0 {
			threads++
			a.Calls, a.Tasks = append(a.Calls, w.calls...), append(a.Tasks, w.tasks...)
			blocked, between = blocked+w.blocked, between+w.between
			a.Saves = max(a.Saves, w.saves)
		}
	}
	if a.Saves < v.worth {
		return nil
	}
	a.Rule = EachCopy
	a.Title = "Do not wait for each copy"
	a.Text = fmt.Sprintf("%s waited for the one copy queued before it: %s in all, and %s passed between these waits "+
		"with nothing queued. "+
		"Queue several copies and wait once, or queue the next one into a second buffer before waiting for the first. "+
		"Where the host needs each result before it can go on, leave it as it is.", plural(len(a.Calls),
		"synchronisation"), duration(blocked), duration(between))
	a.Numbers = []Number{{"waits for one copy", fmt.Sprint(len(a.Calls))}, {"threads", fmt.Sprint(threads)},
		{"time waited", duration(blocked)},
		{"a wait", duration(blocked / int64(len(a.Calls)))}, {"time between waits", duration(between)},
		{"time that could overlap", duration(a.Saves) + ", " + share(a.Saves, v.run.Duration) + " of the run"}}
	a.Calls, a.Tasks = firstOf(a.Calls), firstOf(a.Tasks)
	return &a
}

// waits collects chains of waits for one copy each, of one thread. The current chain is open.
type waits struct {
	*view
	queued                   int // tasks since the last wait, without records of events
	copied                   int // the last copy among them
	chain, chainTasks        []int
	last                     int64 // time when the last wait had returned and its copy was over
	chainBlocked, chainHosts int64

	calls, tasks            []int
	blocked, between, saves int64
}

// call processes the next call of the thread.
func (w *waits) call(i int) {
	c := &w.run.Calls[i]
	now := timeline.None // a copy that the call made and waited for
	for _, task := range w.tasksOf(i) {
		switch t := &w.run.Tasks[task]; {
		case t.Kind.Records():
		case t.Stream == timeline.None:
			if !w.is(c).async && t.Kind.Copies() && (t.Memory == observe.Pinned || t.Memory == observe.Registered) {
				now = task
			}
		default:
			w.queued++
			if w.copied = timeline.None; t.Kind.Copies() {
				w.copied = task
			}
		}
	}
	if w.queued == 0 && now != timeline.None {
		w.queued, w.copied = 1, now
	} else if !w.is(c).waits {
		return
	}
	over := w.ended(c)
	if w.queued != 1 || w.copied == timeline.None || c.Blocked == 0 {
		w.endChain()
	} else if end := w.run.Tasks[w.copied].End; end > over { // it waited for an older copy: double buffering
		w.endChain()
		over = end
	} else {
		if len(w.chain) > 0 {
			w.chainHosts += max(0, c.Start-w.last)
		}
		w.chain, w.chainTasks = append(w.chain, i), append(w.chainTasks, w.copied)
		w.chainBlocked += c.Blocked
	}
	w.queued, w.copied, w.last = 0, timeline.None, over
}

// endChain counts the chain if it is long enough, and starts a new one. With asynchronous copies the chain would take
// the longer of its two times.
func (w *waits) endChain() {
	if len(w.chain) >= leastInGroup {
		w.calls, w.tasks = append(w.calls, w.chain...), append(w.tasks, w.chainTasks...)
		w.blocked, w.between = w.blocked+w.chainBlocked, w.between+w.chainHosts
		w.saves += min(w.chainBlocked, w.chainHosts)
	}
	w.chain, w.chainTasks, w.chainBlocked, w.chainHosts = nil, nil, 0, 0
}

// deviceSync advises on waits for a whole device by a thread whose own work was done before the work of other
// threads, if a thread lost enough time to notice.
func deviceSync(v *view) *Advice {
	var a Advice
	var blocked, excess int64
	ends := v.ends()
	for _, thread := range sortedKeys(v.threads) {
		// end of the thread's work since its last wait for the device
		own, lost := int64(timeline.None), int64(0)
		for _, i := range v.threads[thread] {
			c := &v.run.Calls[i]
			for _, task := range v.tasksOf(i) {
				own = max(own, v.run.Tasks[task].End)
			}
			if !v.is(c).device {
				continue
			}
			over := min(c.Blocked, v.ended(c)-max(own, c.Start))
			if own != timeline.None && over > 0 && ends.ofOthers(thread, max(own, c.Start), v.ended(c)) {
				lost, blocked, excess = lost+over, blocked+c.Blocked, excess+over
				a.Calls = append(a.Calls, i)
			}
			own = timeline.None
		}
		a.Saves = max(a.Saves, lost)
	}
	if a.Saves < v.worth {
		return nil
	}
	a.Rule = DeviceSync
	a.Title = "Wait for a stream, not for the device"
	a.Text = fmt.Sprintf("%s of a whole device went on after the work of their own thread was done, for that of "+
		"others: %s of %s. "+
		"aclrtSynchronizeStream, or aclrtSynchronizeEvent, waits only for what the thread needs.",
		plural(len(a.Calls), "synchronisation"), duration(excess), duration(blocked))
	a.Numbers = []Number{{"waits for a device", fmt.Sprint(len(a.Calls))}, {"time waited", duration(blocked)},
		{"of it for other threads", duration(excess)},
		{"longest of one thread", duration(a.Saves) + ", " + share(a.Saves, v.run.Duration) + " of the run"}}
	a.Calls = firstOf(a.Calls)
	return &a
}

// ending is the end of a task, with the thread that had submitted it.
type ending struct {
	at     int64
	thread int
}

// ends are sorted by time.
type ends []ending

func (v *view) ends() ends {
	list := make(ends, len(v.run.Tasks))
	for i := range v.run.Tasks {
		list[i].at, list[i].thread = v.run.Tasks[i].End, v.run.Tasks[i].Thread
	}
	slices.SortFunc(list, func(a, b ending) int { return cmp.Compare(a.at, b.at) })
	return list
}

// ofOthers reports whether a task of another thread ended after from and not after to.
func (list ends) ofOthers(thread int, from, to int64) bool {
	i := sort.Search(len(list), func(i int) bool { return list[i].at > from })
	for ; i < len(list) && list[i].at <= to; i++ {
		if list[i].thread != thread {
			return true
		}
	}
	return false
}
