// Package dot writes the models of a run as a graph for Graphviz.
package dot

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"ropeway/internal/timeline"
)

// WriteFile writes a file.
func WriteFile(name string, run *timeline.Run) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = Write(f, run)
	if c := f.Close(); err == nil {
		err = c
	}
	return err
}

// Write writes the models of a run: a cluster for each, in it one for each stream. Edges show the order in a stream
// and, dashed, waits for records.
func Write(out io.Writer, run *timeline.Run) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "digraph models {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];")
	for i := range run.Models {
		model(w, run, i)
	}
	fmt.Fprintln(w, "}")
	return w.Flush()
}

// model writes a model.
func model(w io.Writer, run *timeline.Run, i int) {
	m := &run.Models[i]
	fmt.Fprintf(w, "  subgraph cluster_m%d {\n    label=%s;\n", i, quoted(Title(m)))
	var streams []int
	of := map[int][]int{} // stream -> its nodes
	for j := range m.Nodes {
		s := m.Nodes[j].Stream
		if of[s] == nil {
			streams = append(streams, s)
		}
		of[s] = append(of[s], j)
	}
	for _, s := range streams {
		fmt.Fprintf(w, "    subgraph cluster_m%d_s%d {\n      label=\"stream %d\";\n", i, s, run.Streams[s].ID)
		for _, j := range of[s] {
			fmt.Fprintf(w, "      m%d_%d [label=%s];\n", i, j, quoted(Label(&m.Nodes[j])))
		}
		fmt.Fprintln(w, "    }")
	}
	for _, s := range streams {
		for k, j := range of[s] {
			if k > 0 {
				fmt.Fprintf(w, "    m%d_%d -> m%d_%d;\n", i, of[s][k-1], i, j)
			}
		}
	}
	for j := range m.Nodes {
		if a := m.Nodes[j].After; a != timeline.None {
			fmt.Fprintf(w, "    m%d_%d -> m%d_%d [style=dashed];\n", i, a, i, j)
		}
	}
	fmt.Fprintln(w, "  }")
}

// Title returns the title of a model, with the number of its tasks.
func Title(m *timeline.Model) string {
	if len(m.Nodes) < m.Tasks {
		return fmt.Sprintf("model %d: the first %d of %d tasks", m.ID, len(m.Nodes), m.Tasks)
	}
	return fmt.Sprintf("model %d: %d tasks", m.ID, m.Tasks)
}

// Label returns a description of a node.
func Label(n *timeline.Node) string {
	text := n.Name()
	if n.Bytes > 0 {
		text += fmt.Sprintf(", %d bytes", n.Bytes)
	}
	return text
}

// quoted returns a text as a DOT string.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
