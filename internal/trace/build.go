package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"ropeway/internal/observe"
	"ropeway/internal/recorder"
	"ropeway/internal/symbol"
	"ropeway/internal/timeline"
)

// builder combines processes into a run.
type builder struct {
	run       *timeline.Run
	zero      int64 // nanoseconds at which the run began
	functions map[string]int
	symbols   *symbol.Table
	sites     map[timeline.Site]int
	dropped   int
	backwards int // waits whose times cannot be reconciled with those of their records
}

// part maps the numbers of a process to indexes in the run.
type part struct {
	*builder
	p         *process
	index     int
	firstEdge int // index of the process's first edge in the run
	devices   map[int32]int
	streams   map[int32]int
	threads   map[uint32]int
	callOf    map[callKey]int // calls by their keys
	siteOf    map[uint16]int  // sites by their numbers
}

// add adds a process to the run. Its times become nanoseconds of the run, its numbers indexes.
func (b *builder) add(p *process) {
	if p.flags&recorder.FlagChecked != 0 {
		b.run.Checked = true
	}
	b.notes(p)
	t := part{
		builder: b, p: p, index: len(b.run.Processes), firstEdge: len(b.run.Edges),
		devices: map[int32]int{}, streams: map[int32]int{}, threads: map[uint32]int{}, callOf: map[callKey]int{},
		siteOf: map[uint16]int{},
	}
	b.run.Processes = append(b.run.Processes, timeline.Process{ID: p.id, Command: p.command(), Server: p.server(),
		Ended: p.flags&recorder.FlagEnded != 0})
	t.things()
	base := len(b.run.Calls)
	t.calls()
	t.tasks(base)
}

func (b *builder) notes(p *process) {
	say := func(format string, args ...any) { b.run.Notes = append(b.run.Notes, fmt.Sprintf(format, args...)) }
	if p.flags&recorder.FlagFull != 0 {
		say("process %d: there was no room for more; %d records are missing from the end of the run", p.id, p.lost)
	}
	if p.flags&recorder.FlagEnded == 0 {
		say("process %d did not end by itself: what it was doing last has no end", p.id)
	}
}

// time converts ticks to a time of the run, limited to 0 to longest: a damaged file may have any value.
func (t *part) time(ticks int64) int64 {
	return min(max(t.p.clock.nanoseconds(ticks)-t.zero, 0), longest)
}

// longest is the largest time in a run, some 146 years.
const longest = 1 << 62

// things adds devices and streams, in the order of their numbers.
func (t *part) things() {
	var devices, streams []int32
	for k := range t.p.texts {
		if k.what == recorder.TextDevice {
			devices = append(devices, int32(k.number))
		}
	}
	for id := range t.p.streams {
		streams = append(streams, id)
	}
	slices.Sort(devices)
	slices.Sort(streams)
	for _, id := range devices {
		t.device(id)
	}
	for _, id := range streams {
		t.stream(id, 0)
	}
}

// device returns the index of a device, and adds it if necessary.
func (t *part) device(id int32) int {
	i, ok := t.devices[id]
	if !ok {
		i = len(t.run.Devices)
		t.devices[id] = i
		t.run.Devices = append(t.run.Devices, timeline.Device{Process: t.index, ID: id,
			Name: t.p.texts[textKey{recorder.TextDevice, uint32(id)}]})
	}
	return i
}

// stream returns the index of a stream; if the stream was not described, device is that of a task.
func (t *part) stream(id, device int32) int {
	if id == observe.None {
		return timeline.None
	}
	i, ok := t.streams[id]
	if !ok {
		s, described := t.p.streams[id]
		if !described {
			s.device = device
		}
		i = len(t.run.Streams)
		t.streams[id] = i
		t.run.Streams = append(t.run.Streams, timeline.Stream{Process: t.index, ID: id, Device: t.device(s.device),
			Default: s.isDefault})
	}
	return i
}

// thread returns the index of a thread, given the system's number.
func (t *part) thread(id uint32) int {
	i, ok := t.threads[id]
	if !ok {
		i = len(t.run.Threads)
		t.threads[id] = i
		t.run.Threads = append(t.run.Threads, timeline.Thread{Process: t.index, ID: id,
			Name: t.p.texts[textKey{recorder.TextThread, id}]})
	}
	return i
}

// name returns the name of a function or a kernel.
func (t *part) name(number uint16) string {
	if name, ok := t.p.texts[textKey{recorder.TextFunction, uint32(number)}]; ok {
		return name
	}
	return fmt.Sprintf("function %d", number)
}

// function returns the index of a function.
func (t *part) function(number uint16) int {
	name := t.name(number)
	i, ok := t.functions[name]
	if !ok && len(t.functions) >= mostFunctions {
		name = "other functions"
		i, ok = t.functions[name]
	}
	if !ok {
		i = len(t.run.Functions)
		t.functions[name] = i
		t.run.Functions = append(t.run.Functions, name)
	}
	return i
}

// mostFunctions limits the number of functions, for each of which there are statistics: a damaged file may name any
// number. The API has fewer.
const mostFunctions = 2048

// anyStream in a key stands for the stream of the first call with that thread and start.
const anyStream = math.MinInt32

// calls adds the calls.
func (t *part) calls() {
	list := t.together()
	var rows []int64 // of calls whose threads are unknown: the time when each becomes free
	for i := range list {
		c := &list[i]
		out := c.Call
		out.Awaited = timeline.None
		out.Start = t.time(c.Start)
		if c.End != timeline.None {
			out.End = max(t.time(c.End), out.Start)
		}
		out.Blocked = t.p.clock.duration(c.Blocked)
		if out.End != timeline.None {
			out.Blocked = min(out.Blocked, out.End-out.Start)
		}
		out.Function, out.Site = t.called(c.function)
		out.Stream = t.stream(c.stream, 0)
		if c.thread != 0 {
			out.Thread = t.thread(c.thread)
		} else {
			out.Thread = t.row(&rows, out)
		}
		for _, k := range []callKey{c.key(), keyOf(c.thread, c.Start, anyStream)} {
			if _, ok := t.callOf[k]; !ok {
				t.callOf[k] = len(t.run.Calls)
			}
		}
		t.run.Calls = append(t.run.Calls, out)
	}
}

// row assigns a call of a goroutine to a thread without another call at that time. Calls must be passed in the order
// of their starts.
func (t *part) row(free *[]int64, c timeline.Call) int {
	end := c.End
	if end == timeline.None {
		end = math.MaxInt64
	}
	for i, at := range *free {
		if at <= c.Start {
			(*free)[i] = end
			return t.threads[lowest+uint32(i)]
		}
	}
	i := len(*free)
	*free = append(*free, end)
	t.threads[lowest+uint32(i)] = len(t.run.Threads)
	t.run.Threads = append(t.run.Threads, timeline.Thread{Process: t.index, ID: uint32(i), Name: "goroutine"})
	return len(t.run.Threads) - 1
}

// lowest is the first number for made-up threads.
const lowest = 1 << 31

// together returns the calls sorted by their starts, including those that have not returned, with slices of one call
// joined.
func (t *part) together() []call {
	open := make(map[callKey]call, len(t.p.waiting))
	for _, c := range t.p.waiting {
		open[c.key()] = c
	}
	for i := range t.p.calls {
		delete(open, t.p.calls[i].key())
	}
	list := t.p.calls
	for i := range list {
		list[i].Blocked = t.p.blocked[list[i].key()]
	}
	for _, c := range open {
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b call) int { return cmp.Compare(a.Start, b.Start) })
	last := map[uint32]int{} // by thread: index of a call that was continued
	kept := list[:0]
	for _, c := range list {
		if i, ok := last[c.thread]; ok && t.same(kept[i].function, c.function) {
			kept[i].End, kept[i].Code = c.End, c.Code
			kept[i].Blocked += c.Blocked
			if !c.continued {
				delete(last, c.thread)
			}
			continue
		}
		delete(last, c.thread)
		if c.continued {
			last[c.thread] = len(kept)
		}
		kept = append(kept, c)
	}
	return kept
}

// tasks adds the tasks, the edges between them, and the awaited tasks of the calls starting at firstCall.
func (t *part) tasks(firstCall int) {
	list := t.p.tasks
	slices.SortStableFunc(list, func(a, b task) int { return cmp.Compare(a.Submit, b.Submit) })
	base := len(t.run.Tasks)
	index := make(map[taskKey]int, len(list))
	models := t.models()
	for i := range list {
		r := &list[i]
		out := r.Task
		out.Submit = t.time(r.Submit)
		device := r.device
		if device == ofStream {
			device = t.p.streams[r.stream].device
		}
		out.Device, out.Stream = t.device(device), t.stream(r.stream, device)
		out.Call, out.Thread = timeline.None, timeline.None
		if out.Kind == observe.Kernel {
			out.Kernel, out.Bytes = t.name(uint16(out.Bytes)), 0
		}
		began := r.Submit
		if m, ok := t.p.more[taskKey{r.stream, r.Number}]; ok {
			out.Segments = m.segments
			began = cmp.Or(m.call, began)
			if out.Kind == observe.Model {
				t.executes(&out, m.event, models)
			}
		}
		c, ok := t.callOf[keyOf(r.thread, began, r.stream)]
		if !ok {
			c, ok = t.callOf[keyOf(r.thread, began, anyStream)] // a copy made by its call has no stream
		}
		if ok {
			out.Call, out.Thread = c, t.run.Calls[c].Thread
		} else if r.thread != 0 {
			out.Thread = t.thread(r.thread)
		}
		index[taskKey{r.stream, r.Number}] = base + i
		t.run.Tasks = append(t.run.Tasks, out)
	}
	t.ran(index)
	order := t.inTurn(base)
	t.edges(list, base, index)
	t.reconcile(order)
	t.inside(index, models)
	t.cores(index)
	t.awaits(firstCall, base, index)
	t.ranges(index)
}

// ran sets the times of tasks.
func (t *part) ran(index map[taskKey]int) {
	for i := range t.p.rans {
		r := &t.p.rans[i]
		at, ok := index[r.taskKey]
		if !ok {
			continue // its submission was not recorded
		}
		out := &t.run.Tasks[at]
		if r.result == recorder.Dropped {
			t.dropped++
			continue
		}
		out.Start = out.Submit
		if r.began != 0 {
			out.Start = max(t.time(r.began), out.Submit)
		}
		out.End = max(t.time(r.ended), out.Start)
		out.Failed, out.Code = r.result == recorder.Failed, r.code
	}
}

// cores adds the work of cores on tasks. Its times are limited to those of the task, which another clock may have
// measured.
func (t *part) cores(index map[taskKey]int) {
	for _, w := range t.p.cores {
		at, ok := index[w.taskKey]
		if !ok {
			continue // its submission was not recorded
		}
		k := &t.run.Tasks[at]
		if k.Start == timeline.None {
			continue
		}
		out := w.CoreWork
		out.Task, out.Kernel = at, k.Kernel
		if name, ok := t.p.kernels[coreKey{w.taskKey, w.Core, w.began}]; ok {
			out.Kernel = t.name(name)
		}
		out.Start = min(max(t.time(w.began), k.Start), k.End)
		out.End = min(max(t.time(w.began+w.ticks), out.Start), k.End)
		if w.ticks == recorder.MostTicks {
			out.End = k.End
		}
		t.run.Cores = append(t.run.Cores, out)
	}
}

// finish sorts the calls and tasks of all processes.
func (b *builder) finish() {
	run := b.run
	if b.dropped > 0 {
		run.Notes = append(run.Notes, fmt.Sprintf("%d tasks were dropped before they ran", b.dropped))
	}
	if b.backwards > 0 {
		run.Notes = append(run.Notes, fmt.Sprintf("%d waits end more than %v before the record they waited for: "+
			"these orders are not shown, the clocks do not agree",
			b.backwards, time.Duration(slack)))
	}
	if len(run.Processes) > 1 {
		b.sort()
	}
	slices.SortStableFunc(run.Parts, func(x, y timeline.Part) int {
		return cmp.Or(cmp.Compare(x.Task, y.Task), cmp.Compare(x.Start, y.Start), cmp.Compare(y.End, x.End))
	})
	slices.SortStableFunc(run.Cores, func(x, y timeline.CoreWork) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.Core, y.Core))
	})
	slices.SortStableFunc(run.Ranges, func(x, y timeline.Range) int { return cmp.Compare(x.Start, y.Start) })
	for i := range run.Calls {
		run.Duration = max(run.Duration, run.Calls[i].Start, run.Calls[i].End)
	}
	for i := range run.Tasks {
		run.Duration = max(run.Duration, run.Tasks[i].Submit, run.Tasks[i].End)
	}
	for i := range run.Ranges {
		run.Duration = max(run.Duration, run.Ranges[i].Start, run.Ranges[i].End)
	}
}

// sort sorts the data that several processes have added.
func (b *builder) sort() {
	run := b.run
	calls := sorted(run.Calls, func(c *timeline.Call) int64 { return c.Start })
	tasks := sorted(run.Tasks, func(t *timeline.Task) int64 { return t.Submit })
	for i := range run.Tasks {
		if t := &run.Tasks[i]; t.Call != timeline.None {
			t.Call = calls[t.Call]
		}
	}
	for i := range run.Calls {
		if c := &run.Calls[i]; c.Awaited != timeline.None {
			c.Awaited = tasks[c.Awaited]
		}
	}
	for i := range run.Ranges {
		if r := &run.Ranges[i]; r.Task != timeline.None {
			r.Task = tasks[r.Task]
		}
	}
	for i := range run.Parts {
		run.Parts[i].Task = tasks[run.Parts[i].Task]
	}
	for i := range run.Cores {
		run.Cores[i].Task = tasks[run.Cores[i].Task]
	}
	for i, e := range run.Edges {
		run.Edges[i] = timeline.Edge{From: tasks[e.From], To: tasks[e.To]}
	}
}

// sorted sorts a list by a time and returns the new index of each element, by its old index.
func sorted[T any](list []T, at func(*T) int64) []int {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at(&list[a]), at(&list[b])) })
	old := slices.Clone(list)
	now := make([]int, len(list))
	for i, from := range order {
		list[i] = old[from]
		now[from] = i
	}
	return now
}
