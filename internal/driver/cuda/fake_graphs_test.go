package cuda

import "bytes"

// fakeGraph is a graph: what its nodes do, with parameters of its own.
type fakeGraph struct {
	gpu    int
	nodes  []node
	params [][]byte
}

// fakeGraphs is what the fake knows of graphs. All is guarded by fake.mu.
type fakeGraphs struct {
	graphs   map[uintptr]*fakeGraph
	noGraphs bool // it is a libcuda that has none; set before anything runs
	launched int  // nodes of graphs
	changed  int  // nodes that were set
}

func (f *fake) newGraph(context uintptr, nodes []node) (cudaGraph, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noGraphs {
		return cudaGraph{}, notSupported
	}
	gpu, r := f.here()
	if r != success {
		return cudaGraph{}, r
	}
	if context != uintptr(gpu+1) {
		panic("BUG: a graph of another context")
	}
	g := &fakeGraph{gpu: gpu, nodes: make([]node, len(nodes)), params: make([][]byte, len(nodes))}
	for i := range nodes {
		if i > 0 && nodes[i].level != nodes[i-1].level && nodes[i].level != nodes[i-1].level+1 ||
			i == 0 && nodes[0].level != 0 {
			panic("BUG: levels of nodes have gaps")
		}
		g.set(i, &nodes[i])
	}
	f.last++
	if f.graphs == nil {
		f.graphs = map[uintptr]*fakeGraph{}
	}
	f.graphs[f.last] = g
	return cudaGraph{exec: f.last, graph: f.last, nodes: make([]uintptr, len(nodes))}, success
}

// set makes node i what n says, and takes its parameters along.
func (g *fakeGraph) set(i int, n *node) {
	g.nodes[i], g.params[i] = *n, nil
	if n.shape.bytes > 0 {
		g.params[i] = bytes.Clone(bytesAt(n.shape.args, n.shape.bytes))
	}
}

func (f *fake) graph(g *cudaGraph) *fakeGraph {
	x := f.graphs[g.exec]
	if x == nil {
		panic("BUG: a graph is used that is not there")
	}
	return x
}

func (f *fake) setKernel(g *cudaGraph, i int, context uintptr, n *node) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.shape.shared > 200<<10 || n.shape.bytes > 4096 {
		return 1
	}
	f.graph(g).set(i, n)
	f.changed++
	return success
}

// launchGraph puts the nodes on the stream one after the other, those of a level in an order that nobody expects.
func (f *fake) launchGraph(g *cudaGraph, stream uintptr) result {
	f.mu.Lock()
	x := f.graph(g)
	nodes, params := x.nodes, x.params
	f.mu.Unlock()
	for i := 0; i < len(nodes); {
		end := i
		for end < len(nodes) && nodes[end].level == nodes[i].level {
			end++
		}
		for j := end - 1; j >= i; j-- {
			if r := f.launchNode(nodes[j], params[j], stream); r != success {
				return r
			}
		}
		i = end
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.launched += len(nodes)
	return success
}

func (f *fake) launchNode(n node, params []byte, stream uintptr) result {
	switch {
	case n.kernel != 0:
		n.shape.args = startOf(params)
		return f.launchShaped(n.kernel, &n.shape, stream)
	case n.width == 1:
		return f.putAnyhow(stream, fakeOrder{kind: '1', dst: n.dst, value: n.value, n: n.n})
	case n.width == 4:
		return f.putAnyhow(stream, fakeOrder{kind: '4', dst: n.dst, value: n.value, n: n.n})
	}
	return f.copyAsync(n.dst, n.src, n.n, stream)
}

func (f *fake) dropGraph(g *cudaGraph) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.graph(g)
	for i := range x.nodes {
		if k := f.functions[x.nodes[i].kernel]; k != nil && f.modules[k.of] == nil {
			panic("BUG: a graph outlives a module whose kernel it has")
		}
	}
	delete(f.graphs, g.exec)
	return success
}
