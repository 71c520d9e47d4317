package libcuda

import (
	"runtime"
	"unsafe"
)

// nodeArgs holds the C structures for a node of a graph.
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

// handles returns n handles on the heap, which do not move.
//
//go:noinline
func handles(n int) []uintptr { return make([]uintptr, n) }

func (l *library) GraphCreate(context uintptr, nodes []Node) (g Graph, r Result) {
	if !l.hasGraphs() {
		return g, NotSupported
	}
	o := getOuts()
	defer o.done()
	if r = l.call(l.graphCreate, o.at(0), 0); r != Success {
		return g, r
	}
	g = Graph{Template: o.address(), Nodes: handles(len(nodes))}
	before, first := 0, 0 // the nodes of the previous level are [before, first)
	for i := range nodes {
		if i > 0 && nodes[i].Level != nodes[i-1].Level {
			before, first = first, i
		}
		at := uintptr(unsafe.Pointer(&g.Nodes[i]))
		after, count := uintptr(0), uintptr(first-before)
		if count > 0 {
			after = uintptr(unsafe.Pointer(&g.Nodes[before]))
		}
		if r = l.addNode(o, &g, at, after, count, context, &nodes[i]); r != Success {
			l.drop(l.graphDestroy, g.Template)
			return Graph{}, r
		}
	}
	o.word[0] = 0
	if r = unsignalled(func() Result { return l.call(l.graphInstantiate, o.at(0), g.Template, 0) }); r != Success {
		l.drop(l.graphDestroy, g.Template)
		return Graph{}, r
	}
	g.Exec = o.address()
	runtime.KeepAlive(g.Nodes)
	return g, Success
}

// addNode adds a node after the count nodes whose handles are at after, and stores its handle at at.
func (l *library) addNode(o *outs, g *Graph, at, after, count, context uintptr, n *Node) Result {
	w := &o.node
	switch {
	case n.Kernel != 0:
		return l.call(l.graphAddKernel, at, g.Template, after, count, w.set(o, context, n))
	case n.Width != 0:
		w.fill = memsetNode{dst: n.Dst, value: n.Value, element: n.Width, width: n.N, height: 1}
		return l.call(l.graphAddMemset, at, g.Template, after, count, uintptr(unsafe.Pointer(&w.fill)), context)
	}
	w.copy = memcpy3D{srcType: unified, srcDevice: n.Src, dstType: unified, dstDevice: n.Dst, width: n.N, height: 1,
		depth: 1}
	return l.call(l.graphAddMemcpy, at, g.Template, after, count, uintptr(unsafe.Pointer(&w.copy)), context)
}

// set makes w.kernel the kernel of n, and returns its address.
func (w *nodeArgs) set(o *outs, context uintptr, n *Node) uintptr {
	s := &n.Shape
	w.kernel = kernelNode{function: n.Kernel, blocks: s.Blocks, threads: s.Threads, shared: s.Shared, context: context}
	if s.Bytes > 0 {
		w.kernel.extra = o.launch.extraOf(s)
	}
	return uintptr(unsafe.Pointer(&w.kernel))
}

// extraOf returns the address of the list that describes the parameters of a kernel.
func (w *launchArgs) extraOf(s *Shape) uintptr {
	w.size = s.Bytes
	w.extra = [5]uintptr{paramBuffer, s.Args, paramSize, uintptr(unsafe.Pointer(&w.size)), 0}
	return uintptr(unsafe.Pointer(&w.extra))
}

func (l *library) GraphSetKernel(g *Graph, i int, context uintptr, n *Node) Result {
	o := getOuts()
	defer o.done()
	return l.call(l.graphSetKernel, g.Exec, g.Nodes[i], o.node.set(o, context, n))
}

func (l *library) GraphLaunch(g *Graph, stream uintptr) Result {
	return l.call(l.graphLaunch, g.Exec, stream)
}

func (l *library) GraphDestroy(g *Graph) Result {
	return max(l.drop(l.graphExecDestroy, g.Exec), l.drop(l.graphDestroy, g.Template))
}
