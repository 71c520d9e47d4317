package cuda

import (
	"runtime"
	"unsafe"
)

// nodeArgs is what describes a node of a graph to C.
type nodeArgs struct {
	kernel kernelNode
	copy   memcpy3D
	fill   memsetNode
}

// kernelNode, memcpy3D and memsetNode are C structures.
type kernelNode struct {
	function        uintptr
	blocks, threads [3]uint32
	shared          uint32
	params, extra   uintptr
	kernel, context uintptr
}

type memcpy3D struct {
	srcX, srcY, srcZ, srcLOD uint64
	srcType                  uint32
	_                        uint32
	srcHost                  uintptr
	srcDevice                uintptr
	srcArray                 uintptr
	_                        uintptr
	srcPitch, srcHeight      uint64

	dstX, dstY, dstZ, dstLOD uint64
	dstType                  uint32
	_                        uint32
	dstHost                  uintptr
	dstDevice                uintptr
	dstArray                 uintptr
	_                        uintptr
	dstPitch, dstHeight      uint64

	width, height, depth uint64
}

type memsetNode struct {
	dst           uintptr
	pitch         uint64
	value         uint32
	element       uint32
	width, height uint64
}

func (l *library) hasGraphs() bool {
	for _, fn := range [...]uintptr{l.graphCreate, l.graphDestroy, l.graphInstantiate, l.graphExecDestroy,
		l.graphAddKernel, l.graphAddMemcpy, l.graphAddMemset, l.graphSetKernel, l.graphLaunch} {
		if fn == 0 {
			return false
		}
	}
	return true
}

// handles is n handles that stay where they are.
//
//go:noinline
func handles(n int) []uintptr { return make([]uintptr, n) }

func (l *library) newGraph(context uintptr, nodes []node) (g cudaGraph, r result) {
	if !l.hasGraphs() {
		return g, notSupported
	}
	o := take()
	defer o.done()
	if r = l.call(l.graphCreate, o.at(0), 0); r != success {
		return g, r
	}
	g = cudaGraph{graph: o.address(), nodes: handles(len(nodes))}
	before, first := 0, 0 // the nodes of the level before are those from before to first
	for i := range nodes {
		if i > 0 && nodes[i].level != nodes[i-1].level {
			before, first = first, i
		}
		at := uintptr(unsafe.Pointer(&g.nodes[i]))
		after, count := uintptr(0), uintptr(first-before)
		if count > 0 {
			after = uintptr(unsafe.Pointer(&g.nodes[before]))
		}
		if r = l.addNode(o, &g, at, after, count, context, &nodes[i]); r != success {
			l.drop(l.graphDestroy, g.graph)
			return cudaGraph{}, r
		}
	}
	o.word[0] = 0
	if r = unsignalled(func() result { return l.call(l.graphInstantiate, o.at(0), g.graph, 0) }); r != success {
		l.drop(l.graphDestroy, g.graph)
		return cudaGraph{}, r
	}
	g.exec = o.address()
	runtime.KeepAlive(g.nodes)
	return g, success
}

// addNode adds a node whose handle goes to at, after count others whose handles are at after.
func (l *library) addNode(o *outs, g *cudaGraph, at, after, count, context uintptr, n *node) result {
	w := &o.node
	switch {
	case n.kernel != 0:
		return l.call(l.graphAddKernel, at, g.graph, after, count, w.set(o, context, n))
	case n.width != 0:
		w.fill = memsetNode{dst: n.dst, value: n.value, element: n.width, width: n.n, height: 1}
		return l.call(l.graphAddMemset, at, g.graph, after, count, uintptr(unsafe.Pointer(&w.fill)), context)
	}
	w.copy = memcpy3D{srcType: unified, srcDevice: n.src, dstType: unified, dstDevice: n.dst, width: n.n, height: 1,
		depth: 1}
	return l.call(l.graphAddMemcpy, at, g.graph, after, count, uintptr(unsafe.Pointer(&w.copy)), context)
}

// set makes w.kernel the kernel of n, and returns where it is.
func (w *nodeArgs) set(o *outs, context uintptr, n *node) uintptr {
	s := &n.shape
	w.kernel = kernelNode{function: n.kernel, blocks: s.blocks, threads: s.threads, shared: s.shared, context: context}
	if s.bytes > 0 {
		w.kernel.extra = o.launch.extraOf(s)
	}
	return uintptr(unsafe.Pointer(&w.kernel))
}

// extraOf is where it says what the parameters of a kernel are.
func (w *launchArgs) extraOf(s *shape) uintptr {
	w.size = s.bytes
	w.extra = [5]uintptr{paramBuffer, s.args, paramSize, uintptr(unsafe.Pointer(&w.size)), 0}
	return uintptr(unsafe.Pointer(&w.extra))
}

func (l *library) setKernel(g *cudaGraph, i int, context uintptr, n *node) result {
	o := take()
	defer o.done()
	return l.call(l.graphSetKernel, g.exec, g.nodes[i], o.node.set(o, context, n))
}

func (l *library) launchGraph(g *cudaGraph, stream uintptr) result {
	return l.call(l.graphLaunch, g.exec, stream)
}

func (l *library) dropGraph(g *cudaGraph) result {
	return max(l.drop(l.graphExecDestroy, g.exec), l.drop(l.graphDestroy, g.graph))
}
