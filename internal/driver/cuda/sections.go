package cuda

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/cuda/memory"
)

// A section of a program is a series of steps that CUDA does as one graph: kernels, and the few copies and fills
// between them. A program without kernels has no section: launches of the batch kernel and copies by the engines are
// faster than CUDA's graphs. The only exception is a single small copy within a GPU: CUDA makes it with a kernel.
//
// The graphs are created when a program runs for the second time, since that takes longer than running the steps once.
// They stay with the program until its steps change or the GPU is closed.

// sections holds the graphs of a program on a GPU.
type sections struct {
	c     *engine // immutable
	life  uint64  // immutable; of the GPU
	epoch uint64  // immutable; of the driver when the program first ran: while it is the same, no memory was freed

	list atomic.Pointer[[]section] // nil until they are created
	mu   sync.Mutex                // taken after Queue.Mu, by the goroutine that creates the graphs
}

// section is the steps [first, end).
type section struct {
	first, end uint64
	kernels    int
	last       *driver.Launch // the last of the kernels; the program keeps it
	load       uint64         // bytes of its copies and fills
	touches    []touch
	x          *executable
}

// touch is n bytes that copies and fills of a section access, at the program's and at CUDA's address.
type touch struct {
	addr uintptr
	n    uint64
	at   memory.Side
}

const (
	mostInside      = 64 << 10 // most bytes of a copy that is a graph by itself
	mostInSection   = 8        // most copies of a step in a graph; more are faster as a batch
	mostSectionCopy = 1 << 20  // most bytes of them; for larger ones the time of the call does not matter
)

// kept returns the sections of a program; nil if it has not run on this GPU, or memory or the GPU has changed since.
func (q *queue) kept(p *driver.Program) *sections {
	if kept := p.Kept.Load(); kept != nil {
		if k, ok := kept.Of.(*sections); ok && k.c == q.v.gpu && k.life == k.c.Life() &&
			k.epoch == q.v.d.Epoch().Load() {
			return k
		}
	}
	return nil
}

// whole returns the section that is the whole program; nil if there is none yet.
func (q *queue) whole(p *driver.Program) *section {
	if k := q.kept(p); k != nil && !q.v.d.Moved() {
		if list := k.list.Load(); list != nil && len(*list) == 1 {
			if s := &(*list)[0]; s.first == 0 && s.end == uint64(len(p.Steps)) {
				return s
			}
		}
	}
	return nil
}

// sectionsOf returns the sections of a program; nil if there are none.
func (q *queue) sectionsOf(p *driver.Program) []section {
	if q.v.d.Moved() || len(p.Steps) == 0 {
		return nil
	}
	k := q.kept(p)
	if k == nil {
		p.Kept.Store(&driver.Kept{Of: q.v.gpu.newSections()})
		return nil
	}
	if list := k.list.Load(); list != nil {
		return *list
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if list := k.list.Load(); list != nil {
		return *list
	}
	var list []section
	if _, one := p.Single(); one || slices.ContainsFunc(p.Steps, isKernel) {
		list = k.make(p)
	}
	k.list.Store(&list)
	return list
}

func isKernel(s driver.Step) bool { return s.Op != nil && s.Op.Kind == driver.OpLaunch }

// launchSection launches the graph of a section; false if its steps have to be done one by one. Mu is held.
func (q *queue) launchSection(p *section, tag driver.Tag) bool {
	d := q.v.d
	d.Gone.RLock()
	defer d.Gone.RUnlock()
	for i := range p.touches {
		t := &p.touches[i]
		if at, err := d.Resolve(t.addr, t.n, false); err != nil || at != t.at {
			return false
		}
	}
	if !p.x.launch(d.lib, q.stream) {
		return false
	}
	q.load += p.load
	if p.kernels == 0 {
		return true
	}
	q.noteKernels(p.kernels, latestKernel{upto: q.Taken() + 1, tag: tag, launch: p.last, kept: true})
	return true
}

func (c *engine) newSections() *sections {
	return &sections{c: c, life: c.Life(), epoch: c.d.Epoch().Load()}
}

// make creates the sections of a program.
func (k *sections) make(p *driver.Program) (list []section) {
	steps := p.Steps
	for i := 0; i < len(steps); i++ {
		m := maker{c: k.c}
		m.first = uint64(i)
		for ; i < len(steps) && m.add(&steps[i]); i++ {
		}
		m.end = uint64(i)
		if m.kernels == 0 && !m.inside() {
			continue
		}
		if m.x = k.c.newExecutable(m.nodes, m.modules); m.x == nil {
			continue
		}
		runtime.AddCleanup(k, k.c.dropExecutable, m.x) // when the program was collected, or its steps have changed
		list = append(list, m.section)
	}
	return list
}

// maker builds a section.
type maker struct {
	section
	c       *engine
	nodes   []libcuda.Node
	modules []*module
	level   int
}

// inside reports whether the section is one small copy within a GPU.
func (m *maker) inside() bool {
	return len(m.nodes) == 1 && len(m.touches) == 2 && m.nodes[0].N <= mostInside &&
		m.touches[0].at.Kind == memory.OnGPU && m.touches[1].at.Kind == memory.OnGPU
}

// add adds a step; false if a graph cannot do it, or is slower.
func (m *maker) add(s *driver.Step) bool {
	d := m.c.d
	d.Gone.RLock()
	defer d.Gone.RUnlock()
	was, done := *m, false
	switch {
	case s.Op == nil && len(s.Segs.List) <= mostInSection && s.Segs.Bytes <= mostSectionCopy:
		done = m.addCopies(s)
	case s.Op == nil:
	case s.Op.Kind == driver.OpLaunch:
		done = m.addKernel(s.Op.Launch)
	case s.Op.Kind == driver.OpCopy && s.Op.N <= mostSectionCopy:
		done = m.addCopy(s.Op.Dst, s.Op.Src, s.Op.N)
	case s.Op.Kind == driver.OpFill && s.Op.Bytes() <= mostSectionCopy:
		done = m.addFill(s.Op)
	}
	if !done {
		*m = was // undo a partial addition
		return false
	}
	m.level++
	return true
}

func (m *maker) addKernel(l *driver.Launch) bool {
	r := new(room)
	f, got, err := m.c.shape(l, l.Args, r)
	if err != nil || got != libcuda.Success || l.Limit > 0 || !l.Copied || r.Together {
		return false
	}
	m.nodes = append(m.nodes, libcuda.Node{Kernel: f.code, Shape: r.Shape, Level: m.level})
	m.modules = append(m.modules, l.Module.(*module))
	m.kernels, m.last = m.kernels+1, l
	return true
}

func (m *maker) addCopies(s *driver.Step) bool {
	for i := range s.Segs.List {
		c := &s.Segs.List[i]
		if s.Ordered && i > 0 {
			m.level++
		}
		if !m.addCopy(c.Dst, c.Src, c.N) {
			return false
		}
	}
	return true
}

func (m *maker) addCopy(dst, src uintptr, n uint64) bool {
	to, from, ok := m.c.d.pair(dst, src, n, n)
	if n == 0 || !ok || overlap(to.Addr, from.Addr, n) {
		return false
	}
	m.nodes = append(m.nodes, libcuda.Node{Dst: to.Addr, Src: from.Addr, N: n, Level: m.level})
	m.touches = append(m.touches, touch{dst, n, to}, touch{src, n, from})
	m.load += n
	return true
}

func (m *maker) addFill(op *driver.Op) bool {
	n := op.Bytes()
	to, err := m.c.d.Resolve(op.Dst, n, false)
	if err != nil || n == 0 || to.Kind != memory.OnGPU || to.Addr%uintptr(op.Width) != 0 {
		return false
	}
	m.touches = append(m.touches, touch{op.Dst, n, to})
	m.nodes = append(m.nodes, libcuda.Node{Dst: to.Addr, N: op.N, Value: op.Value, Width: uint32(op.Width),
		Level: m.level})
	m.load += n
	return true
}
