package trace

import (
	"fmt"
	"maps"
	"slices"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// models adds the models of the process, and returns their indexes by number.
func (t *part) models() map[uint32]int {
	index := map[uint32]int{}
	for _, number := range slices.Sorted(maps.Keys(t.p.models)) {
		of := t.p.models[number]
		m := timeline.Model{Process: t.index, ID: number}
		for i := range uint32(len(of.nodes)) {
			n, ok := of.nodes[i]
			if !ok {
				break // records are missing, and later ones may refer to them
			}
			if n.Kind == observe.Kernel {
				n.Kernel, n.Bytes = t.name(uint16(n.Bytes)), 0
			}
			if n.After < timeline.None || n.After >= int(i) {
				n.After = timeline.None
			}
			n.Stream = t.stream(n.stream, 0)
			m.Nodes = append(m.Nodes, n.Node)
		}
		m.Tasks = max(of.tasks, len(m.Nodes))
		index[number] = len(t.run.Models)
		t.run.Models = append(t.run.Models, m)
	}
	return index
}

// executes sets the model of a task that executes one, and the number of bytes that its copies move.
func (t *part) executes(out *timeline.Task, event uint64, models map[uint32]int) {
	i, ok := models[uint32(event)]
	if !ok {
		return // its record is missing
	}
	m := &t.run.Models[i]
	out.Model, out.Segments, out.Bytes = i+1, uint32(m.Tasks), 0
	for j := range m.Nodes {
		if n := &m.Nodes[j]; n.Kind.Copies() {
			out.Bytes += n.Bytes
		}
	}
}

// inside adds the parts of executions, except for models whose pieces have changed since.
func (t *part) inside(index map[taskKey]int, models map[uint32]int) {
	changed := map[int]bool{}
	for i := range t.p.inside {
		in := &t.p.inside[i]
		at, ok := index[in.of]
		if !ok || !t.run.Tasks[at].Ran() || t.run.Tasks[at].Model == 0 {
			continue
		}
		task := &t.run.Tasks[at]
		m := task.Model - 1
		if t.p.more[in.of].segments != t.p.models[t.run.Models[m].ID].version {
			changed[m] = true
			continue
		}
		if in.model != 0 {
			if m, ok = models[in.model]; !ok {
				continue
			}
		}
		start := min(max(t.time(in.began), task.Start), task.End)
		t.run.Parts = append(t.run.Parts, timeline.Part{Task: at, Model: m, First: int(in.first), Count: int(in.count),
			Start: start, End: min(max(t.time(in.ended), start), task.End)})
	}
	for _, m := range slices.Sorted(maps.Keys(changed)) {
		t.run.Notes = append(t.run.Notes, fmt.Sprintf("Model %d was changed in a way that moved its tasks: of runs "+
			"before that, the times inside are not shown.", t.run.Models[m].ID))
	}
}
