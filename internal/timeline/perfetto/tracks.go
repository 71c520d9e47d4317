package perfetto

import (
	"fmt"
	"path/filepath"
	"strings"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// track is a line of slices, called a thread in the format.
type track struct{ pid, tid int }

// group is a track, with further ones beside it for overlapping slices.
type group struct {
	pid   int
	name  string
	nests bool // slices may be inside others, as calls are
	first int  // number of its first track, or 0 to choose one
	rank  int  // its position in its process
	rows  []row
}

type row struct {
	tid  int
	open []int64 // ends of the open slices, the innermost last
	last int64   // end of the last slice
}

// numbers allocates unique numbers of processes and threads.
type numbers struct {
	used map[int]bool
	next int
}

func (n *numbers) take() int {
	for n.next++; n.used[n.next]; n.next++ {
	}
	n.used[n.next] = true
	return n.next
}

// claim allocates the wanted number, or another one if it is in use.
func (n *numbers) claim(wanted int) int {
	if wanted <= 0 || n.used[wanted] {
		return n.take()
	}
	n.used[wanted] = true
	return wanted
}

// place assigns a slice to a track. Slices must be passed in the order of their starts. Every slice takes at least a
// nanosecond, so one that follows a shorter slice is moved by that much.
func (t *trace) place(g *group, start, end int64) spot {
	for i := range g.rows {
		l := &g.rows[i]
		from := start
		if from == l.last-1 && !g.nests {
			from = l.last
		}
		until := max(end, from+1)
		for len(l.open) > 0 && l.open[len(l.open)-1] <= from {
			l.open = l.open[:len(l.open)-1]
		}
		if len(l.open) > 0 && (!g.nests || l.open[len(l.open)-1] < until) {
			continue
		}
		l.open, l.last = append(l.open, until), until
		return spot{track{g.pid, l.tid}, from, until}
	}
	at, until := t.newRow(g), max(end, start+1)
	l := &g.rows[len(g.rows)-1]
	l.open, l.last = append(l.open, until), until
	return spot{at, start, until}
}

// newRow adds a track to a group.
func (t *trace) newRow(g *group) track {
	name, tid := g.name, g.first
	if n := len(g.rows); n > 0 {
		name, tid = fmt.Sprintf("%s (%d)", g.name, n+1), 0
	}
	if tid == 0 {
		tid = t.numbers.take()
	}
	g.rows = append(g.rows, row{tid: tid})
	at := track{g.pid, tid}
	t.name("thread_name", at, name)
	t.sort("thread_sort_index", at, g.rank)
	return at
}

// engine is a copy engine: a device and a direction.
type engine struct {
	device    int
	direction observe.Direction
}

// layTracks names the processes and devices. Tracks get their names when they get their first slice.
func (t *trace) layTracks() {
	run := t.run
	t.numbers.used = map[int]bool{}
	for _, p := range run.Processes {
		t.processes = append(t.processes, t.numbers.claim(p.ID))
	}
	for i, h := range run.Threads {
		tid := int(h.ID)
		if tid != t.process(h.Process) { // the first thread has the number of its process
			tid = t.numbers.claim(tid)
		}
		g := &group{pid: t.process(h.Process), name: threadName(h), nests: true, first: tid, rank: i}
		t.threads = append(t.threads, g)
	}
	t.unknown = &group{pid: t.process(0), name: "calls", rank: len(run.Threads)}
	for i, p := range run.Processes {
		at := track{t.processes[i], t.processes[i]}
		name := command(p.Command)
		if p.Server != nil {
			name = fmt.Sprintf("server %d: %s", *p.Server, name)
		}
		t.name("process_name", at, name)
		t.sort("process_sort_index", at, i)
	}
	for i, d := range run.Devices {
		pid := t.numbers.take()
		t.devices = append(t.devices, pid)
		name := fmt.Sprintf("device %d", d.ID)
		if d.Name != "" {
			name += ": " + d.Name
		}
		if len(run.Processes) > 1 {
			name += ", of "
			if n := serverOf(run, d.Process); n != nil {
				name += fmt.Sprintf("server %d, ", *n)
			}
			name += fmt.Sprintf("process %d", t.process(d.Process))
		}
		t.name("process_name", track{pid, pid}, name)
		t.sort("process_sort_index", track{pid, pid}, len(run.Processes)+i)
	}
	for i, s := range run.Streams {
		t.streams = append(t.streams, &group{pid: t.device(s.Device), name: streamName(s), rank: i})
	}
	t.engines = map[engine]*group{}
}

// serverOf returns the number of a process's server in its pod; nil if there is none.
func serverOf(run *timeline.Run, process int) *int {
	if process < 0 || process >= len(run.Processes) {
		return nil
	}
	return run.Processes[process].Server
}

func (t *trace) process(index int) int { return at(t.processes, index) }
func (t *trace) device(index int) int  { return at(t.devices, index) }

// at returns an element, or 0 if index is out of range, as in damaged recordings.
func at(list []int, index int) int {
	if index < 0 || index >= len(list) {
		return 0
	}
	return list[index]
}

// engine returns the group of a copy engine.
func (t *trace) engine(of engine) *group {
	if t.engines[of] == nil {
		t.engines[of] = &group{pid: t.device(of.device), name: "engine, " + of.direction.String(),
			rank: len(t.run.Streams) + int(of.direction)}
	}
	return t.engines[of]
}

func threadName(h timeline.Thread) string {
	if h.Name == "" {
		return "thread"
	}
	return h.Name
}

func streamName(s timeline.Stream) string {
	name := fmt.Sprintf("stream %d", s.ID)
	if s.Default {
		name += " (default)"
	}
	return name
}

// command returns a short name of a process.
func command(words []string) string {
	if len(words) == 0 {
		return "process"
	}
	return strings.Join(append([]string{filepath.Base(words[0])}, words[1:]...), " ")
}
