// Package tracing describes tasks and calls of a program for a tracer: kind, direction and memory of a task, and the
// line of a call in a Go program. The core reports them; see its probe.go.
package tracing

import (
	"sync"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/ranges"
)

// View is a runtime's state for its tracer.
type View struct {
	driver driver.Driver  // immutable
	trace  observe.Tracer // immutable
	sites  bool           // immutable; the tracer wants the lines of calls

	unqueued   atomic.Uint32 // number of tasks outside streams
	mu         sync.Mutex    // held to change registered
	registered ranges.Set[struct{}]
	lines      lines // of a Go program
}

// New returns a view of a driver's tasks for a tracer.
func New(d driver.Driver, tr observe.Tracer) *View {
	return &View{driver: d, trace: tr, sites: tr.Sites()}
}

// Number returns the number of the next task outside streams.
func (v *View) Number() uint32 { return v.unqueued.Add(1) }

// taskKinds has the kind of task in a trace for each kind of operation.
var taskKinds = [...]observe.Kind{
	driver.OpCopy: observe.Copy, driver.OpCopy2D: observe.Copy2D, driver.OpBatch: observe.Batch,
	driver.OpFill: observe.Fill, driver.OpDesc: observe.Descriptor, driver.OpOffset: observe.Descriptor,
	driver.OpSet: observe.Record, driver.OpClear: observe.Other, driver.OpAwait: observe.Wait,
	driver.OpWaitCond: observe.Wait, driver.OpFunc: observe.Function, driver.OpHostFunc: observe.Function,
	driver.OpFail:    observe.Copy, // a copy that the device cannot make
	driver.OpCompute: observe.Other, driver.OpLaunch: observe.Kernel, driver.OpProgram: observe.Other,
}

// Task describes op by itself.
func (v *View) Task(op *driver.Op) (w observe.Task) {
	w.Kind = taskKinds[op.Kind]
	switch op.Kind.Class() {
	case driver.Moves, driver.Computes:
		w.Bytes = op.Bytes()
	case driver.Finds:
		w.Bytes, w.Direction = op.Bytes(), observe.DeviceToDevice
	case driver.Fails:
		return w
	case driver.Launches:
		w.Segments, w.Name = op.Launch.Blocks, v.Kernel(op.Launch)
	}
	switch w.Kind {
	case observe.Copy, observe.Copy2D:
		w.Direction, w.Memory = v.Way(op.Dst, op.Src, v.driver.Locate(op.Src), v.driver.Locate(op.Dst))
	case observe.Batch:
		w.Segments = uint32(len(op.Segs.List))
		w.Direction, w.Memory = v.ways(op.Segs.List)
	case observe.Fill:
		if l := v.driver.Locate(op.Dst); l.Place != driver.OnDevice {
			w.Memory = v.memory(op.Dst, l)
		}
	}
	return w
}

// Kernel returns the number of the name of the kernel that l launches, 0 if it has none.
func (v *View) Kernel(l *driver.Launch) uint16 {
	if k, ok := l.Owner().(interface{ KernelName() string }); ok {
		return v.trace.Function(k.KernelName())
	}
	return 0
}

// Way returns the direction of a copy, and the kind of its host memory.
func (v *View) Way(dst, src uintptr, from, to driver.Location) (observe.Direction, observe.Memory) {
	const device = driver.OnDevice
	switch {
	case from.Place == device && to.Place == device && from.Device == to.Device:
		return observe.DeviceToDevice, observe.NoHostMemory
	case from.Place == device && to.Place == device:
		return observe.Peer, observe.NoHostMemory
	case to.Place == device:
		return observe.HostToDevice, v.memory(src, from)
	case from.Place == device:
		return observe.DeviceToHost, v.memory(dst, to)
	}
	a, b := v.memory(src, from), v.memory(dst, to)
	return observe.HostToHost, max(a, b) // pageable memory decides
}

// ways is Way for a batch. For a long one it samples some evenly spaced segments.
func (v *View) ways(list []driver.Segment) (d observe.Direction, m observe.Memory) {
	const most = 32
	step := max(1, len(list)/most)
	for i := 0; i < len(list); i += step {
		s := &list[i]
		d2, m2 := v.Way(s.Dst, s.Src, v.driver.Locate(s.Src), v.driver.Locate(s.Dst))
		if i == 0 {
			d, m = d2, m2
		}
		if d2 != d {
			d = observe.Both
		}
		if m2 != m {
			m = observe.Mixed
		}
	}
	return d, m
}

// memory returns the kind of host memory at addr.
func (v *View) memory(addr uintptr, l driver.Location) observe.Memory {
	switch {
	case l.Place == driver.Managed:
		return observe.Managed
	case l.Place != driver.Host:
		return observe.Pageable
	case v.registered.Find(addr) != nil:
		return observe.Registered
	}
	return observe.Pinned
}

// Register records that host memory was registered.
func (v *View) Register(addr uintptr, n uint64) {
	if n == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.registered.Overlap(addr, n) == nil {
		v.registered.Insert(&ranges.Span[struct{}]{Start: addr, Size: n})
	}
}

// Unregister records that host memory was unregistered.
func (v *View) Unregister(addr uintptr) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.registered.Find(addr); s != nil {
		v.registered.Remove(s)
	}
}
