package cuda

import (
	"bytes"

	"ropeway/internal/driver/cuda/libcuda"
)

// fakeGraph is a graph: what its nodes do, with parameters of its own.
type fakeGraph struct {
	gpu    int
	nodes  []libcuda.Node
	params [][]byte
}

// fakeGraphs is what the fake knows of graphs. All is guarded by fake.mu.
type fakeGraphs struct {
	graphs   map[uintptr]*fakeGraph
	noGraphs bool // it is a libcuda that has none; set before anything runs
	launched int  // nodes of graphs
	changed  int  // nodes that were set
}

func (f *fake) GraphCreate(context uintptr, nodes []libcuda.Node) (libcuda.Graph, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noGraphs {
		return libcuda.Graph{}, libcuda.NotSupported
	}
	gpu, r := f.here()
	if r != libcuda.Success {
		return libcuda.Graph{}, r
	}
	if context != uintptr(gpu+1) {
		panic("BUG: a graph of another context")
	}
	g := &fakeGraph{gpu: gpu, nodes: make([]libcuda.Node, len(nodes)), params: make([][]byte, len(nodes))}
	for i := range nodes {
		if i > 0 && nodes[i].Level != nodes[i-1].Level && nodes[i].Level != nodes[i-1].Level+1 ||
			i == 0 && nodes[0].Level != 0 {
			panic("BUG: levels of nodes have gaps")
		}
		g.set(i, &nodes[i])
	}
	f.last++
	if f.graphs == nil {
		f.graphs = map[uintptr]*fakeGraph{}
	}
	f.graphs[f.last] = g
	return libcuda.Graph{Exec: f.last, Template: f.last, Nodes: make([]uintptr, len(nodes))}, libcuda.Success
}

// set makes node i what n says, and takes its parameters along.
func (g *fakeGraph) set(i int, n *libcuda.Node) {
	g.nodes[i], g.params[i] = *n, nil
	if n.Shape.Bytes > 0 {
		g.params[i] = bytes.Clone(bytesAt(n.Shape.Args, n.Shape.Bytes))
	}
}

func (f *fake) graph(g *libcuda.Graph) *fakeGraph {
	x := f.graphs[g.Exec]
	if x == nil {
		panic("BUG: a graph is used that is not there")
	}
	return x
}

func (f *fake) GraphSetKernel(g *libcuda.Graph, i int, context uintptr, n *libcuda.Node) libcuda.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.Shape.Shared > 200<<10 || n.Shape.Bytes > 4096 {
		return 1
	}
	f.graph(g).set(i, n)
	f.changed++
	return libcuda.Success
}

// GraphLaunch puts the nodes on the stream one after the other, those of a level in an order that nobody expects.
func (f *fake) GraphLaunch(g *libcuda.Graph, stream uintptr) libcuda.Result {
	f.mu.Lock()
	x := f.graph(g)
	nodes, params := x.nodes, x.params
	f.mu.Unlock()
	for i := 0; i < len(nodes); {
		end := i
		for end < len(nodes) && nodes[end].Level == nodes[i].Level {
			end++
		}
		for j := end - 1; j >= i; j-- {
			if r := f.launchNode(nodes[j], params[j], stream); r != libcuda.Success {
				return r
			}
		}
		i = end
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.launched += len(nodes)
	return libcuda.Success
}

func (f *fake) launchNode(n libcuda.Node, params []byte, stream uintptr) libcuda.Result {
	switch {
	case n.Kernel != 0:
		n.Shape.Args = startOf(params)
		return f.LaunchShaped(n.Kernel, &n.Shape, stream)
	case n.Width == 1:
		return f.putAnyhow(stream, fakeOrder{kind: '1', dst: n.Dst, value: n.Value, n: n.N})
	case n.Width == 4:
		return f.putAnyhow(stream, fakeOrder{kind: '4', dst: n.Dst, value: n.Value, n: n.N})
	}
	return f.MemcpyAsync(n.Dst, n.Src, n.N, stream)
}

func (f *fake) GraphDestroy(g *libcuda.Graph) libcuda.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.graph(g)
	for i := range x.nodes {
		if k := f.functions[x.nodes[i].Kernel]; k != nil && f.modules[k.of] == nil {
			panic("BUG: a graph outlives a module whose kernel it has")
		}
	}
	delete(f.graphs, g.Exec)
	return libcuda.Success
}
