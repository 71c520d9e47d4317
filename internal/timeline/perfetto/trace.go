package perfetto

import (
	"bufio"
	"cmp"
	"slices"
	"strconv"
	"time"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// trace is the state of writing a trace.
type trace struct {
	run *timeline.Run
	event
	numbers numbers

	processes, devices []int // numbers, by index
	threads, streams   []*group
	unknown            *group // calls of Go programs, whose thread is unknown
	engines            map[engine]*group

	functions []string // names, as JSON
	sites     []string // lines, as JSON
	sliceAt   []spot   // by task: its slice, if any
	callAt    []spot   // by call: its slice
	arrows    int64

	pieces map[int]*timeline.Pieces // by model: its tasks
	beside map[*group]*group        // by stream: tracks for parts that overlap others in a task
}

// spot is a slice that arrows can point to.
type spot struct {
	at         track
	start, end int64
}

func newTrace(out *bufio.Writer, run *timeline.Run) *trace {
	t := &trace{run: run, event: event{out: out}, sliceAt: make([]spot, len(run.Tasks)), callAt: make([]spot,
		len(run.Calls)), pieces: map[int]*timeline.Pieces{}, beside: map[*group]*group{}}
	for _, f := range run.Functions {
		t.functions = append(t.functions, quoted(f))
	}
	for i := range run.Sites {
		t.sites = append(t.sites, quoted(run.Sites[i].String()))
	}
	return t
}

func (t *trace) begin() {
	t.out.WriteString(`{"displayTimeUnit":"ns","otherData":{"program":` +
		quoted(command(t.run.Program)) + //nolint:errcheck
		`,"driver":` + quoted(t.run.Driver) + `,"started":` + quoted(t.run.Started.Format(time.RFC3339Nano)) + "},\n" +
		`"traceEvents":[` + "\n")
	t.layTracks()
}

func (t *trace) end() { t.out.WriteString("\n]}\n") } //nolint:errcheck

// name and sort write metadata events.
func (t *trace) name(what string, at track, name string) {
	t.start('M', quoted(what), "", at).text(`,"args":{"name":`, quoted(name)).write("}")
}

func (t *trace) sort(what string, at track, rank int) {
	t.start('M', quoted(what), "", at).number(`,"args":{"sort_index":`, int64(rank)).write("}")
}

// slice starts a slice event; its arguments follow.
func (t *trace) slice(name, category string, s spot) *event {
	return t.start('X', name, category, s.at).micros(`,"ts":`, s.start).micros(`,"dur":`, s.end-s.start)
}

// until returns end, or the end of the run if end is None.
func (t *trace) until(start, end int64) int64 {
	if end == timeline.None {
		return max(t.run.Duration, start)
	}
	return end
}

func (t *trace) calls() {
	for i := range t.run.Calls {
		c := &t.run.Calls[i]
		g := t.unknown
		if c.Thread >= 0 && c.Thread < len(t.threads) {
			g = t.threads[c.Thread]
		}
		name := `"call"`
		if c.Function >= 0 && c.Function < len(t.functions) {
			name = t.functions[c.Function]
		}
		s := t.place(g, c.Start, t.until(c.Start, c.End))
		t.callAt[i] = s
		e := t.slice(name, `"call"`, s).number(`,"args":{"code":`, int64(c.Code))
		if c.Blocked > 0 {
			e.number(`,"blocked_ns":`, c.Blocked)
		}
		if c.Stream >= 0 && c.Stream < len(t.run.Streams) {
			e.number(`,"stream":`, int64(t.run.Streams[c.Stream].ID))
		}
		if c.Site >= 0 && c.Site < len(t.sites) {
			e.text(`,"source":`, t.sites[c.Site])
		}
		if c.End == timeline.None {
			e.text(`,"unfinished":`, "true")
		}
		e.write("}")
	}
}

// ranges writes ranges as slices on a track beside that of their thread's calls, and moments as instants there.
func (t *trace) ranges() {
	tracks := map[int]*group{}
	for i := range t.run.Ranges {
		r := &t.run.Ranges[i]
		if r.Thread < 0 || r.Thread >= len(t.threads) {
			continue
		}
		g := tracks[r.Thread]
		if g == nil {
			of := t.threads[r.Thread]
			g = &group{pid: of.pid, name: of.name + ": ranges", nests: true, rank: of.rank}
			tracks[r.Thread] = g
		}
		if r.Kind != observe.Moment {
			t.slice(quoted(r.Text), `"range"`, t.place(g, r.Start, t.until(r.Start, r.End))).write("")
			continue
		}
		if len(g.rows) == 0 {
			t.newRow(g)
		}
		t.start('i', quoted(r.Text), `"mark"`, track{g.pid, g.rows[0].tid}).micros(`,"ts":`, r.Start).text(`,"s":`,
			`"t"`).write("")
	}
}

// tasks writes every task that has begun, on the tracks of its stream and of its engine. Copies in models are on the
// tracks of their engines.
func (t *trace) tasks() {
	type entry struct {
		start int64
		task  int
		part  *timeline.Part // of the task; nil: the task itself
	}
	var order []entry
	for i := range t.run.Tasks {
		if start := t.run.Tasks[i].Start; start != timeline.None {
			order = append(order, entry{start, i, nil})
		}
		parts := t.run.Inside(i)
		for j := range parts {
			order = append(order, entry{parts[j].Start, i, &parts[j]})
		}
	}
	slices.SortStableFunc(order, func(a, b entry) int { return cmp.Compare(a.start, b.start) })
	for _, e := range order {
		if e.part != nil {
			t.insideEngines(e.part)
			continue
		}
		task := &t.run.Tasks[e.task]
		inStream := task.Stream >= 0 && task.Stream < len(t.streams)
		if inStream {
			t.task(e.task, t.streams[task.Stream], true)
		}
		if task.Direction != observe.NoDirection {
			t.task(e.task, t.engine(engine{task.Device, task.Direction}), !inStream)
		}
	}
}

// task writes a task on a track. Arrows point to the slice on its main track.
func (t *trace) task(i int, g *group, main bool) {
	task := &t.run.Tasks[i]
	s := t.place(g, task.Start, t.until(task.Start, task.End))
	name := task.Kind.String()
	if task.Kernel != "" {
		name = task.Kernel
	}
	if task.Direction != observe.NoDirection {
		name += ", " + task.Direction.String()
	}
	e := t.slice(quoted(name), quoted("task"+sort(task.Kind)), s).number(`,"args":{"number":`, int64(task.Number))
	if task.Stream >= 0 && task.Stream < len(t.run.Streams) {
		e.number(`,"stream":`, int64(t.run.Streams[task.Stream].ID))
	}
	if task.Kind.Copies() || task.Kind == observe.Fill {
		e.text(`,"bytes":`, strconv.FormatUint(task.Bytes, 10))
		if length := s.end - s.start; task.Ran() {
			e.text(`,"GB/s":`, decimal(float64(task.Bytes)/float64(length)))
		}
	}
	if task.Memory != observe.NoHostMemory {
		e.text(`,"memory":`, quoted(task.Memory.String()))
	}
	switch {
	case task.Kind == observe.Kernel:
		e.number(`,"blocks":`, int64(task.Segments))
	case task.Model > 0 && task.Model <= len(t.run.Models):
		e.number(`,"model":`, int64(t.run.Models[task.Model-1].ID)).number(`,"tasks":`, int64(task.Segments))
		e.text(`,"bytes":`, strconv.FormatUint(task.Bytes, 10))
	case task.Segments > 0:
		e.number(`,"segments":`, int64(task.Segments))
	}
	e.number(`,"queued_ns":`, max(0, task.Start-task.Submit))
	if task.Failed || task.Code != 0 {
		e.number(`,"failed":`, int64(task.Code))
	}
	if task.End == timeline.None {
		e.text(`,"unfinished":`, "true")
	}
	e.write("}")
	if main {
		t.inside(i, g, s)
		t.sliceAt[i] = s
		if task.Call >= 0 && task.Call < len(t.callAt) {
			t.arrow(`"submit"`, t.callAt[task.Call], task.Submit, s)
		}
	}
}

func (t *trace) edges() {
	for _, e := range t.run.Edges {
		if e.From >= 0 && e.From < len(t.sliceAt) && e.To >= 0 && e.To < len(t.sliceAt) {
			from := t.sliceAt[e.From]
			t.arrow(`"event"`, from, from.end, t.sliceAt[e.To])
		}
	}
}

// arrow writes an arrow from one slice, at time leaves, to another, which may have begun earlier, as waits do. It
// writes nothing if the second slice was over by then.
func (t *trace) arrow(kind string, from spot, leaves int64, to spot) {
	if from.at == (track{}) || to.at == (track{}) {
		return
	}
	leaves = from.inside(min(leaves, to.end-1))
	arrives := max(leaves, to.inside(to.start))
	if arrives >= to.end {
		return
	}
	t.arrows++
	t.start('s', kind, kind, from.at).number(`,"id":`, t.arrows).micros(`,"ts":`, leaves).write("")
	t.start('f', kind, kind, to.at).number(`,"id":`, t.arrows).micros(`,"ts":`, arrives).text(`,"bp":`, `"e"`).write("")
}

// inside returns the time in the interior of the slice that is nearest to time. Readers assign a time at an edge to
// the previous or next slice.
func (s spot) inside(time int64) int64 {
	if s.end-s.start < 2 {
		return s.start
	}
	return min(max(time, s.start+1), s.end-1)
}

// findings writes findings as instants, on the track of the thread concerned if it is known.
func (t *trace) findings() {
	for i := range t.run.Findings {
		f := &t.run.Findings[i]
		at, scope := track{t.process(0), t.process(0)}, `"g"`
		if f.Thread >= 0 && f.Thread < len(t.threads) && len(t.threads[f.Thread].rows) > 0 {
			g := t.threads[f.Thread]
			at, scope = track{g.pid, g.rows[0].tid}, `"t"`
		}
		t.start('i', quoted(f.Rule), `"finding"`, at).micros(`,"ts":`, f.Time).text(`,"s":`, scope).
			text(`,"args":{"severity":`, quoted(f.Severity)).text(`,"text":`, quoted(f.Text)).write("}")
	}
}
