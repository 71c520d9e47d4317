package trace

import (
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
				break // records are missing, and what comes after may refer to them
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

// executes says of a task that executes a model which one, and how much its copies move.
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
