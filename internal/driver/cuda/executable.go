package cuda

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/driver/cuda/libcuda"
)

// CUDA launches a graph of one kernel in half the time of the kernel itself, and a graph of many in a tenth of theirs:
// on an H200, cuLaunchKernel takes 3 to 5 µs of its caller, cuGraphLaunch 1.3 to 2.3, and changing the arguments of a
// kernel in a graph 0.2. So a kernel that is launched repeatedly on a stream has a graph of its own there, and
// consecutive steps of a program that need neither the host nor the batch kernel are one graph: see program.go.

// executable is a graph that can be launched. It belongs to a stream, or to a section of a program.
type executable struct {
	use     sync.Mutex    // taken last; held while CUDA uses g, since a program may run on several streams
	g       libcuda.Graph // immutable
	modules []*module     // immutable; the modules of its kernels
	gone    atomic.Bool
}

// launch launches the graph on a stream.
func (x *executable) launch(lib libcuda.API, stream uintptr) bool {
	x.use.Lock()
	defer x.use.Unlock()
	return lib.GraphLaunch(&x.g, stream) == libcuda.Success
}

// newExecutable returns a graph of the nodes, which use those modules; nil if CUDA cannot create it. It enters the GPU.
func (c *engine) newExecutable(nodes []libcuda.Node, modules []*module) *executable {
	c.Enter()
	defer c.Leave()
	g, r := c.d.lib.GraphCreate(c.Context(), nodes)
	if r != libcuda.Success {
		return nil
	}
	x := &executable{g: g, modules: modules}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.executables == nil {
		c.executables = map[*executable]struct{}{}
	}
	c.executables[x] = struct{}{}
	return x
}

// dropExecutables drops the graphs for which pick returns true. Running launches continue.
func (c *engine) dropExecutables(pick func(x *executable) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.executables {
		if pick(x) {
			c.Enter()
			c.dropLocked(x)
			c.Leave()
		}
	}
}

// dropLocked drops a graph of c. mu is held, and the GPU is entered.
func (c *engine) dropLocked(x *executable) libcuda.Result {
	delete(c.executables, x)
	x.gone.Store(true)
	return c.d.lib.GraphDestroy(&x.g)
}

// dropExecutable drops a graph, unless it was dropped before or its context was destroyed.
func (c *engine) dropExecutable(x *executable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.executables[x]; there {
		c.Enter()
		defer c.Leave()
		c.dropLocked(x)
	}
}

// repeats lists the kernels launched on a stream, with a graph for each that is launched repeatedly. The goroutine that
// owns the stream owns it.
type repeats struct {
	list []repeat
	last int // index of the last one used
}

// repeat is a kernel launched on a stream.
type repeat struct {
	f     *function
	times int          // launches, counted until a graph is created
	x     *executable  // its graph, or nil
	now   libcuda.Node // the kernel as in the graph
	args  []byte       // its arguments
	known bool         // now and args are valid
}

const (
	repeatAfter = 16 // launches of a kernel after which it gets a graph: creating one takes as long as 20 launches
	mostRepeats = 32 // most kernels in the list; others are launched without a graph
)

// repeatsOf returns the repeats of a stream.
func (c *engine) repeatsOf(stream uintptr) *repeats {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.repeats == nil {
		c.repeats = map[uintptr]*repeats{}
	}
	if c.repeats[stream] == nil {
		c.repeats[stream] = &repeats{}
	}
	return c.repeats[stream]
}

// find returns the entry of a kernel; nil if there is no room for it.
func (p *repeats) find(f *function) *repeat {
	if p.last < len(p.list) && p.list[p.last].f == f {
		return &p.list[p.last]
	}
	for i := range p.list {
		if p.list[i].f == f {
			p.last = i
			return &p.list[i]
		}
	}
	p.list = slices.DeleteFunc(p.list, func(r repeat) bool { return r.x != nil && r.x.gone.Load() })
	if len(p.list) == mostRepeats {
		i := slices.IndexFunc(p.list, func(r repeat) bool { return r.x == nil })
		if i < 0 {
			return nil
		}
		p.list = slices.Delete(p.list, i, i+1)
	}
	p.list = append(p.list, repeat{f: f})
	p.last = len(p.list) - 1
	return &p.list[p.last]
}

// launch launches a kernel of m by its graph, if it has one, and reports whether it did. The caller holds the module.
func (p *repeats) launch(c *engine, m *module, f *function, s *libcuda.Shape, stream uintptr) bool {
	e := p.find(f)
	if e == nil {
		return false
	}
	if e.x == nil {
		if e.times++; e.times != repeatAfter {
			return false
		}
		e.set(s)
		if e.x = c.newExecutable([]libcuda.Node{e.now}, []*module{m}); e.x == nil {
			return false
		}
	} else if !e.does(s) {
		e.set(s)
		if e.known = c.d.lib.GraphSetKernel(&e.x.g, 0, c.Context(), &e.now) == libcuda.Success; !e.known {
			return false
		}
	}
	return e.x.launch(c.d.lib, stream)
}

// does reports whether the graph launches the kernel with s.
func (e *repeat) does(s *libcuda.Shape) bool {
	now := &e.now.Shape
	return e.known && now.Blocks == s.Blocks && now.Threads == s.Threads && now.Shared == s.Shared &&
		now.Bytes == s.Bytes && (s.Bytes == 0 || bytes.Equal(e.args, bytesAt(s.Args, s.Bytes)))
}

// set makes s the shape that the graph is to have.
func (e *repeat) set(s *libcuda.Shape) {
	e.now.Kernel, e.now.Shape = e.f.code, *s
	e.args = e.args[:0]
	if s.Bytes > 0 {
		e.args = append(e.args, bytesAt(s.Args, s.Bytes)...)
	}
	e.known = true
}
