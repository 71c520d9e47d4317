package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"ropeway/internal/observe"
)

// Pieces finds tasks of a model by the pieces that they are in.
type Pieces struct {
	model *Model
	nodes []int // indexes in Model.Nodes, by piece
}

// Pieces returns the tasks of the model by piece.
func (m *Model) Pieces() *Pieces {
	p := &Pieces{model: m}
	for i := range m.Nodes {
		if m.Nodes[i].Piece != None {
			p.nodes = append(p.nodes, i)
		}
	}
	slices.SortStableFunc(p.nodes, func(a, b int) int { return cmp.Compare(m.Nodes[a].Piece, m.Nodes[b].Piece) })
	return p
}

// In returns the tasks in count pieces starting at first, as indexes in Nodes.
func (p *Pieces) In(first, count int) []int {
	from := func(piece int) int {
		return sort.Search(len(p.nodes), func(i int) bool { return p.model.Nodes[p.nodes[i]].Piece >= piece })
	}
	low := from(first)
	return p.nodes[low:max(low, from(first+count))]
}

// Sum summarises tasks of a model that share a time.
type Sum struct {
	Name  string
	Bytes uint64
	Tasks int
}

// Sum returns a summary of tasks. Its name is that of the tasks if all have the same.
func (m *Model) Sum(nodes []int) (s Sum) {
	for i, at := range nodes {
		n := &m.Nodes[at]
		s.Bytes += n.Bytes
		if name := n.Name(); i == 0 {
			s.Name = name
		} else if name != s.Name {
			s.Name = "tasks"
		}
	}
	if s.Tasks = len(nodes); s.Tasks > 1 {
		s.Name = fmt.Sprintf("%d x %s", s.Tasks, s.Name)
	}
	return s
}

// Name returns a description of the task.
func (n *Node) Name() string {
	text := n.Kind.String()
	if n.Kernel != "" {
		text = n.Kernel
	}
	if n.Direction != observe.NoDirection {
		text += ", " + n.Direction.String()
	}
	return text
}

// PartsOf returns the parts of a task that executes a model.
func (r *Run) PartsOf(task int) []Part {
	from := func(task int) int {
		return sort.Search(len(r.Parts), func(i int) bool { return r.Parts[i].Task >= task })
	}
	return r.Parts[from(task):from(task+1)]
}

// Inside returns the parts of a task that executes a model. If none are known, it returns one part, which is the
// whole model with the time of the task; its End is None if the task was not over. It returns nil for other tasks and
// for tasks that never ran.
func (r *Run) Inside(task int) []Part {
	t := &r.Tasks[task]
	if t.Model <= 0 || t.Model > len(r.Models) || t.Start == None {
		return nil
	}
	if parts := r.PartsOf(task); len(parts) > 0 {
		return parts
	}
	all := Part{Task: task, Model: t.Model - 1, Start: t.Start, End: t.End}
	for _, n := range r.Models[all.Model].Nodes {
		all.Count = max(all.Count, n.Piece+1)
	}
	return []Part{all}
}

// Copied returns the number of copies and of their bytes, including those in executed models. If not all tasks of a
// model are known, only the known copies count.
func (r *Run) Copied() (copies int, bytes uint64) {
	inside := make([]int, len(r.Models)) // copies of each model
	for i := range r.Models {
		for k := range r.Models[i].Nodes {
			if r.Models[i].Nodes[k].Kind.Copies() {
				inside[i]++
			}
		}
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		switch {
		case t.Kind.Copies():
			copies++
		case t.Kind == observe.Model:
			if t.Model > 0 {
				copies += inside[t.Model-1]
			}
		default:
			continue
		}
		bytes += t.Bytes
	}
	return copies, bytes
}
