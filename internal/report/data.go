package report

import (
	"fmt"
	"sort"
	"time"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
	"ropeway/internal/timeline/advice"
)

// version is that of the data's form; web/report reads this one.
const version = 4

// mostTasks, mostCalls, mostRanges and mostParts are how many the page shows: browsers stay quick with them. The first
// ones are kept.
const (
	mostTasks  = 500_000
	mostCalls  = 500_000
	mostRanges = 200_000
	mostParts  = 200_000
)

// data is a run as the page reads it. Calls, tasks and edges are columns, which are small and quick to read. Indexes
// point into the lists, -1 is nothing, and truth in columns is 0 or 1.
type data struct {
	Version   int                 `json:"version"`
	Program   []string            `json:"program"`
	Started   string              `json:"started"` // RFC 3339
	Duration  int64               `json:"duration"`
	Driver    string              `json:"driver"`
	Checked   bool                `json:"checked"`
	Processes []process           `json:"processes"`
	Devices   []device            `json:"devices"`
	Threads   []thread            `json:"threads"`
	Streams   []stream            `json:"streams"`
	Functions []string            `json:"functions"`
	Sites     []site              `json:"sites"`
	Calls     calls               `json:"calls"`
	Tasks     tasks               `json:"tasks"`
	Edges     edges               `json:"edges"`
	Cores     cores               `json:"cores"`
	Ranges    ranges              `json:"ranges"`
	Models    []model             `json:"models"`
	Parts     parts               `json:"parts"`
	Findings  []finding           `json:"findings"`
	Notes     []string            `json:"notes"`
	Stats     []function          `json:"stats"`
	Advice    []advice.Advice     `json:"advice"`
	Strings   map[string][]string `json:"strings"`
}

type process struct {
	ID      int      `json:"id"`
	Command []string `json:"command"`
	Ended   bool     `json:"ended"`
	Server  *int     `json:"server,omitempty"`
}

type device struct {
	Process int    `json:"process"`
	ID      int32  `json:"id"`
	Name    string `json:"name"`
}

type thread struct {
	Process int    `json:"process"`
	ID      uint32 `json:"id"`
	Name    string `json:"name"`
}

type stream struct {
	Process int   `json:"process"`
	ID      int32 `json:"id"`
	Device  int   `json:"device"`
	Default bool  `json:"default"`
}

type site struct {
	Place    string `json:"place"` // "load.c:30"
	Function string `json:"function"`
}

type calls struct {
	Thread   []int   `json:"thread"`
	Function []int   `json:"function"`
	Start    []int64 `json:"start"`
	End      []int64 `json:"end"`
	Code     []int32 `json:"code"`
	Blocked  []int64 `json:"blocked"`
	Stream   []int   `json:"stream"`
	Awaited  []int   `json:"awaited"`
	Site     []int   `json:"site"`
}

type tasks struct {
	Kind      []int    `json:"kind"`
	Direction []int    `json:"direction"`
	Memory    []int    `json:"memory"`
	Failed    []int    `json:"failed"`
	Stream    []int    `json:"stream"`
	Device    []int    `json:"device"`
	Number    []uint32 `json:"number"`
	Thread    []int    `json:"thread"`
	Call      []int    `json:"call"`
	Segments  []uint32 `json:"segments"`
	Kernel    []string `json:"kernel"`
	Model     []int    `json:"model"`
	Bytes     []uint64 `json:"bytes"`
	Submit    []int64  `json:"submit"`
	Start     []int64  `json:"start"`
	End       []int64  `json:"end"`
	Code      []int32  `json:"code"`
}

// model is one that tasks execute; its own tasks are columns.
type model struct {
	Process   int      `json:"process"`
	ID        uint32   `json:"id"`
	Tasks     int      `json:"tasks"` // how many it has
	Kind      []int    `json:"kind"`
	Direction []int    `json:"direction"`
	Stream    []int    `json:"stream"`
	Segments  []uint32 `json:"segments"`
	Kernel    []string `json:"kernel"`
	Bytes     []uint64 `json:"bytes"`
	After     []int    `json:"after"`
	Piece     []int    `json:"piece"`
}

// parts are pieces of models that ran in tasks which execute them, by task.
type parts struct {
	Task  []int   `json:"task"`
	Model []int   `json:"model"`
	First []int   `json:"first"`
	Count []int   `json:"count"`
	Start []int64 `json:"start"`
	End   []int64 `json:"end"`
}

type edges struct {
	From []int `json:"from"`
	To   []int `json:"to"`
}

// cores is what cores of devices did of tasks, by start.
type cores struct {
	Task   []int    `json:"task"`
	Core   []int    `json:"core"`
	First  []uint32 `json:"first"`
	Blocks []uint32 `json:"blocks"`
	Kernel []string `json:"kernel"` // name
	Start  []int64  `json:"start"`
	End    []int64  `json:"end"`
}

// ranges have texts; kinds are those of observe.RangeKind.
type ranges struct {
	Kind   []int    `json:"kind"`
	Text   []string `json:"text"`
	Thread []int    `json:"thread"`
	Start  []int64  `json:"start"`
	End    []int64  `json:"end"`
	Task   []int    `json:"task"`
}

type finding struct {
	Rule     string           `json:"rule"`
	Severity string           `json:"severity"`
	Text     string           `json:"text"`
	Time     int64            `json:"time"`
	Tasks    []int            `json:"tasks"`
	Thread   int              `json:"thread"`
	Places   []timeline.Place `json:"places"`
	Remedy   string           `json:"remedy"`
	Report   string           `json:"report"`
}

// limits say how much of a run is kept.
type limits struct{ tasks, calls, ranges, parts int }

func dataOf(run *timeline.Run) *data {
	return cut(run, limits{mostTasks, mostCalls, mostRanges, mostParts})
}

// cut makes the data of the first tasks and calls of a run. Statistics and advice are of all of it.
func cut(run *timeline.Run, most limits) *data {
	c := cutter{min(len(run.Tasks), most.tasks), min(len(run.Calls), most.calls), min(len(run.Ranges), most.ranges),
		min(len(run.Parts), most.parts)}
	d := &data{
		Version: version, Program: list(run.Program), Started: run.Started.Format(time.RFC3339Nano),
		Duration: run.Duration,
		Driver:   run.Driver, Checked: run.Checked, Functions: list(run.Functions), Notes: list(run.Notes),
		Stats: list(functionsOf(run)), Advice: []advice.Advice{}, Findings: []finding{},
		Strings: map[string][]string{"kinds": observe.Kinds, "directions": observe.Directions,
			"memories": observe.Memories},
	}
	d.Processes = convert(run.Processes, func(p timeline.Process) process {
		return process{p.ID, list(p.Command), p.Ended, p.Server}
	})
	d.Devices = convert(run.Devices, func(v timeline.Device) device { return device(v) })
	d.Threads = convert(run.Threads, func(t timeline.Thread) thread { return thread(t) })
	d.Streams = convert(run.Streams, func(s timeline.Stream) stream { return stream(s) })
	d.Sites = convert(run.Sites, func(s timeline.Site) site { return site{s.Place(), s.Function} })
	d.Calls = c.callColumns(run.Calls[:c.calls])
	d.Tasks = c.taskColumns(run.Tasks[:c.tasks])
	d.Edges = c.edgeColumns(run.Edges)
	d.Cores = c.coreColumns(run.Cores)
	d.Ranges = c.rangeColumns(run.Ranges[:c.ranges])
	d.Models = convert(run.Models, modelColumns)
	d.Parts = c.partColumns(run.Parts)
	for _, f := range run.Findings {
		d.Findings = append(d.Findings, finding{
			f.Rule, f.Severity, f.Text, f.Time, below(f.Tasks, c.tasks), f.Thread, list(f.Places), f.Remedy, f.Report,
		})
	}
	for _, a := range advice.Of(run) {
		a.Tasks, a.Calls, a.Numbers = below(a.Tasks, c.tasks), below(a.Calls, c.calls), list(a.Numbers)
		a.Lines = list(a.Lines)
		d.Advice = append(d.Advice, a)
	}
	d.Notes = append(d.Notes, c.notes(run)...)
	return d
}

// cutter knows how many of each are kept.
type cutter limits

// notes say what is not shown.
func (c *cutter) notes(run *timeline.Run) (notes []string) {
	for _, kind := range []struct {
		name      string
		kept, all int
	}{{"tasks", c.tasks, len(run.Tasks)}, {"calls", c.calls, len(run.Calls)}, {"ranges", c.ranges, len(run.Ranges)},
		{"parts of executions", c.parts, len(run.Parts)}} {
		if kind.kept < kind.all {
			notes = append(notes, fmt.Sprintf("The timeline shows the first %d of %d %s. Statistics and advice are "+
				"of all of them; a trace for Perfetto has them all.",
				kind.kept, kind.all, kind.name))
		}
	}
	return notes
}

func (c *cutter) callColumns(from []timeline.Call) calls {
	return calls{
		Thread:   convert(from, func(c timeline.Call) int { return c.Thread }),
		Function: convert(from, func(c timeline.Call) int { return c.Function }),
		Start:    convert(from, func(c timeline.Call) int64 { return c.Start }),
		End:      convert(from, func(c timeline.Call) int64 { return c.End }),
		Code:     convert(from, func(c timeline.Call) int32 { return c.Code }),
		Blocked:  convert(from, func(c timeline.Call) int64 { return c.Blocked }),
		Stream:   convert(from, func(c timeline.Call) int { return c.Stream }),
		Awaited:  convert(from, func(k timeline.Call) int { return kept(k.Awaited, c.tasks) }),
		Site:     convert(from, func(c timeline.Call) int { return c.Site }),
	}
}

func (c *cutter) taskColumns(from []timeline.Task) tasks {
	return tasks{
		Kind:      convert(from, func(t timeline.Task) int { return int(t.Kind) }),
		Direction: convert(from, func(t timeline.Task) int { return int(t.Direction) }),
		Memory:    convert(from, func(t timeline.Task) int { return int(t.Memory) }),
		Failed:    convert(from, func(t timeline.Task) int { return truth(t.Failed) }),
		Stream:    convert(from, func(t timeline.Task) int { return t.Stream }),
		Device:    convert(from, func(t timeline.Task) int { return t.Device }),
		Number:    convert(from, func(t timeline.Task) uint32 { return t.Number }),
		Thread:    convert(from, func(t timeline.Task) int { return t.Thread }),
		Call:      convert(from, func(t timeline.Task) int { return kept(t.Call, c.calls) }),
		Segments:  convert(from, func(t timeline.Task) uint32 { return t.Segments }),
		Kernel:    convert(from, func(t timeline.Task) string { return t.Kernel }),
		Model:     convert(from, func(t timeline.Task) int { return t.Model - 1 }),
		Bytes:     convert(from, func(t timeline.Task) uint64 { return t.Bytes }),
		Submit:    convert(from, func(t timeline.Task) int64 { return t.Submit }),
		Start:     convert(from, func(t timeline.Task) int64 { return t.Start }),
		End:       convert(from, func(t timeline.Task) int64 { return t.End }),
		Code:      convert(from, func(t timeline.Task) int32 { return t.Code }),
	}
}

func modelColumns(m timeline.Model) model {
	return model{
		Process: m.Process, ID: m.ID, Tasks: m.Tasks,
		Kind:      convert(m.Nodes, func(n timeline.Node) int { return int(n.Kind) }),
		Direction: convert(m.Nodes, func(n timeline.Node) int { return int(n.Direction) }),
		Stream:    convert(m.Nodes, func(n timeline.Node) int { return n.Stream }),
		Segments:  convert(m.Nodes, func(n timeline.Node) uint32 { return n.Segments }),
		Kernel:    convert(m.Nodes, func(n timeline.Node) string { return n.Kernel }),
		Bytes:     convert(m.Nodes, func(n timeline.Node) uint64 { return n.Bytes }),
		After:     convert(m.Nodes, func(n timeline.Node) int { return n.After }),
		Piece:     convert(m.Nodes, func(n timeline.Node) int { return n.Piece }),
	}
}

// partColumns keeps the parts of tasks that are kept. They are sorted by task, so those are the first.
func (c *cutter) partColumns(from []timeline.Part) parts {
	from = from[:min(c.parts, sort.Search(len(from), func(i int) bool { return from[i].Task >= c.tasks }))]
	return parts{
		Task:  convert(from, func(p timeline.Part) int { return p.Task }),
		Model: convert(from, func(p timeline.Part) int { return p.Model }),
		First: convert(from, func(p timeline.Part) int { return p.First }),
		Count: convert(from, func(p timeline.Part) int { return p.Count }),
		Start: convert(from, func(p timeline.Part) int64 { return p.Start }),
		End:   convert(from, func(p timeline.Part) int64 { return p.End }),
	}
}

func (c *cutter) rangeColumns(from []timeline.Range) ranges {
	return ranges{
		Kind:   convert(from, func(r timeline.Range) int { return int(r.Kind) }),
		Text:   convert(from, func(r timeline.Range) string { return r.Text }),
		Thread: convert(from, func(r timeline.Range) int { return r.Thread }),
		Start:  convert(from, func(r timeline.Range) int64 { return r.Start }),
		End:    convert(from, func(r timeline.Range) int64 { return r.End }),
		Task:   convert(from, func(r timeline.Range) int { return kept(r.Task, c.tasks) }),
	}
}

// coreColumns keeps what cores did of tasks that are kept, as many pieces as there may be tasks.
func (c *cutter) coreColumns(all []timeline.CoreWork) cores {
	from := []timeline.CoreWork{}
	for _, w := range all {
		if w.Task < c.tasks && len(from) < mostTasks {
			from = append(from, w)
		}
	}
	return cores{
		Task:   convert(from, func(w timeline.CoreWork) int { return w.Task }),
		Core:   convert(from, func(w timeline.CoreWork) int { return w.Core }),
		First:  convert(from, func(w timeline.CoreWork) uint32 { return w.First }),
		Blocks: convert(from, func(w timeline.CoreWork) uint32 { return w.Blocks }),
		Kernel: convert(from, func(w timeline.CoreWork) string { return w.Kernel }),
		Start:  convert(from, func(w timeline.CoreWork) int64 { return w.Start }),
		End:    convert(from, func(w timeline.CoreWork) int64 { return w.End }),
	}
}

// edgeColumns keeps edges between tasks that are kept.
func (c *cutter) edgeColumns(from []timeline.Edge) edges {
	e := edges{From: []int{}, To: []int{}}
	for _, edge := range from {
		if edge.From < c.tasks && edge.To < c.tasks {
			e.From, e.To = append(e.From, edge.From), append(e.To, edge.To)
		}
	}
	return e
}

// kept is an index, or None if it is of something that is not kept.
func kept(index, limit int) int {
	if index >= limit {
		return timeline.None
	}
	return index
}

// below keeps indexes below a limit.
func below(indexes []int, limit int) []int {
	kept := []int{}
	for _, i := range indexes {
		if i < limit {
			kept = append(kept, i)
		}
	}
	return kept
}

// list is never null in JSON.
func list[T any](from []T) []T {
	if from == nil {
		return []T{}
	}
	return from
}

func convert[T, To any](from []T, to func(T) To) []To {
	column := make([]To, len(from))
	for i := range from {
		column[i] = to(from[i])
	}
	return column
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
