package perfetto

import (
	"fmt"
	"slices"
	"strconv"

	"ropeway/internal/timeline"
)

// inside writes what ran in a task that executes a model: slices inside its own, on its track. What runs beside them,
// because the model has several streams, is on tracks next to it.
func (t *trace) inside(i int, g *group, of spot) {
	parts := t.run.PartsOf(i)
	if len(parts) == 0 {
		return
	}
	beside := t.beside[g]
	if beside == nil {
		beside = &group{pid: g.pid, name: g.name + ": inside models", rank: g.rank, nests: true}
		t.beside[g] = beside
	}
	var open []int64 // ends of the slices that are not over on the task's own track
	last := of.start // end of the last one there
	for j := range parts {
		p := &parts[j]
		if p.Model < 0 || p.Model >= len(t.run.Models) {
			continue
		}
		m := &t.run.Models[p.Model]
		nodes := t.piecesOf(p.Model).In(p.First, p.Count)
		if len(nodes) == 0 {
			continue // of tasks that are not recorded
		}
		start := min(max(p.Start, of.start), of.end-1)
		if start == last-1 && last < of.end { // the shortest slice takes a nanosecond
			start = last
		}
		end := min(max(p.End, start+1), of.end)
		for len(open) > 0 && open[len(open)-1] <= start {
			open = open[:len(open)-1]
		}
		s := spot{of.at, start, end}
		switch {
		case len(open) == 0 || end <= open[len(open)-1]:
			open, last = append(open, end), end
		default:
			s = t.place(beside, start, end)
		}
		sum := m.Sum(nodes)
		e := t.slice(quoted(sum.Name), `"inside"`, s).number(`,"args":{"model":`, int64(m.ID))
		e.number(`,"tasks":`, int64(sum.Tasks)).text(`,"bytes":`, strconv.FormatUint(sum.Bytes, 10))
		e.text(`,"task":`, quoted(places(nodes))).text(`,"stream":`, quoted(t.streamsOf(m, nodes)))
		if p.Count > 1 {
			e.text(`,"piece":`, quoted(fmt.Sprintf("%d to %d", p.First, p.First+p.Count-1)))
		} else {
			e.number(`,"piece":`, int64(p.First))
		}
		e.write("}")
	}
}

// piecesOf is the tasks of a model by piece.
func (t *trace) piecesOf(model int) *timeline.Pieces {
	p := t.pieces[model]
	if p == nil {
		p = t.run.Models[model].Pieces()
		t.pieces[model] = p
	}
	return p
}

// places is which tasks of a model it is, in short.
func places(nodes []int) string {
	low, high := slices.Min(nodes), slices.Max(nodes)
	switch {
	case low == high:
		return strconv.Itoa(low)
	case high-low == len(nodes)-1:
		return fmt.Sprintf("%d to %d", low, high)
	}
	return fmt.Sprintf("%d of %d to %d", len(nodes), low, high)
}

// streamsOf is the streams that tasks were captured from.
func (t *trace) streamsOf(m *timeline.Model, nodes []int) string {
	var list []int
	for _, i := range nodes {
		if s := m.Nodes[i].Stream; !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	text := ""
	for i, s := range list {
		if i > 0 {
			text += ", "
		}
		if s >= 0 && s < len(t.run.Streams) {
			text += strconv.Itoa(int(t.run.Streams[s].ID))
		}
	}
	return text
}
