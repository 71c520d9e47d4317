package perfetto

import (
	"fmt"
	"iter"
	"slices"
	"strconv"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// inside writes the parts of a task that executes a model as slices inside the task's slice, on its track. Parts that
// overlap, because the model has several streams, are on tracks next to it.
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
	var open []int64 // ends of the open slices on the task's own track
	last := of.start // end of the last slice there
	for j := range parts {
		p := &parts[j]
		if p.Model < 0 || p.Model >= len(t.run.Models) {
			continue
		}
		m := &t.run.Models[p.Model]
		nodes := t.piecesOf(p.Model).In(p.First, p.Count)
		if len(nodes) == 0 {
			continue // its tasks are not recorded
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
		e := t.slice(quoted(sum.Name), quoted("inside"+sorts(m, nodes)), s).number(`,"args":{"model":`, int64(m.ID))
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

// sort returns an additional category for tasks of a kind.
func sort(k observe.Kind) string {
	switch {
	case k.Copies():
		return ",copy"
	case k.Records(), k.Waits():
		return ",event"
	}
	return "," + k.String()
}

// sorts returns the common category of tasks of a model, "" if they have none.
func sorts(m *timeline.Model, nodes []int) string {
	for _, i := range nodes {
		if sort(m.Nodes[i].Kind) != sort(m.Nodes[nodes[0]].Kind) {
			return ""
		}
	}
	return sort(m.Nodes[nodes[0]].Kind)
}

// copied has the number and the bytes of copies in one direction.
type copied struct {
	tasks int
	bytes uint64
}

// copiesIn returns the copies of a part by direction.
func (t *trace) copiesIn(p *timeline.Part) iter.Seq2[observe.Direction, copied] {
	var by [observe.Both + 1]copied
	if p.Model >= 0 && p.Model < len(t.run.Models) {
		m := &t.run.Models[p.Model]
		for _, i := range t.piecesOf(p.Model).In(p.First, p.Count) {
			if n := &m.Nodes[i]; n.Kind.Copies() && int(n.Direction) < len(by) {
				by[n.Direction].tasks++
				by[n.Direction].bytes += n.Bytes
			}
		}
	}
	return func(yield func(observe.Direction, copied) bool) {
		for d := observe.HostToDevice; d <= observe.Both; d++ {
			if by[d].tasks > 0 && !yield(d, by[d]) {
				return
			}
		}
	}
}

// insideEngines writes copies of a part on the tracks of their engines.
func (t *trace) insideEngines(p *timeline.Part) {
	task := &t.run.Tasks[p.Task]
	for direction, c := range t.copiesIn(p) {
		name := "copy, " + direction.String()
		if c.tasks > 1 {
			name = fmt.Sprintf("%d x %s", c.tasks, name)
		}
		s := t.place(t.engine(engine{task.Device, direction}), p.Start, t.until(p.Start, p.End))
		e := t.slice(quoted(name), `"inside,copy"`, s).number(`,"args":{"model":`, int64(t.run.Models[p.Model].ID))
		e.number(`,"number":`, int64(task.Number)).text(`,"bytes":`, strconv.FormatUint(c.bytes, 10)).write("}")
	}
}

// piecesOf returns the tasks of a model by piece.
func (t *trace) piecesOf(model int) *timeline.Pieces {
	p := t.pieces[model]
	if p == nil {
		p = t.run.Models[model].Pieces()
		t.pieces[model] = p
	}
	return p
}

// places returns a short text with the indexes of tasks of a model.
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

// streamsOf returns the streams that tasks were captured from.
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
