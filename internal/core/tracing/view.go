// Package tracing says how tasks and calls of a program look to a tracer: kind, direction and memory of a task, and the
// line of a Go program that a call comes from. The core reports them; see its probe.go.
package tracing

import (
	"sync"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/ranges"
)

// View is what a runtime keeps for its tracer.
type View struct {
	driver driver.Driver  // immutable
	trace  observe.Tracer // immutable
	sites  bool           // immutable; the tracer wants to know where calls come from

	unqueued   atomic.Uint32 // tasks that were in no stream
	mu         sync.Mutex    // held to change registered
	registered ranges.Set[struct{}]
	lines      lines // of a Go program
}

// New makes the view of a tracer on what a driver runs.
func New(d driver.Driver, tr observe.Tracer) *View {
	return &View{driver: d, trace: tr, sites: tr.Sites()}
}

// Number is the number of the next task that is in no stream.
func (v *View) Number() uint32 { return v.unqueued.Add(1) }

// Task is what there is to say of op by itself.
func (v *View) Task(op *driver.Op) (w observe.Task) {
	switch op.Kind {
	case driver.OpCopy, driver.OpCopy2D:
		w.Bytes = op.N
		if op.Kind == driver.OpCopy2D {
			w.Kind, w.Bytes = observe.Copy2D, op.N*op.Height
		}
		w.Direction, w.Memory = v.Way(op.Dst, op.Src, v.driver.Locate(op.Src), v.driver.Locate(op.Dst))
	case driver.OpBatch:
		w.Kind, w.Bytes, w.Segments = observe.Batch, op.Segs.Bytes, uint32(len(op.Segs.List))
		w.Direction, w.Memory = v.ways(op.Segs.List)
	case driver.OpDesc, driver.OpOffset:
		w.Kind, w.Direction = observe.Descriptor, observe.DeviceToDevice
		if op.Kind == driver.OpOffset {
			w.Bytes = op.N
		}
	case driver.OpFill:
		w.Kind, w.Bytes = observe.Fill, op.N*uint64(op.Width)
		if v.driver.Locate(op.Dst).Place != driver.OnDevice {
			w.Memory = v.memory(op.Dst, v.driver.Locate(op.Dst))
		}
	case driver.OpSet:
		w.Kind = observe.Record
	case driver.OpAwait, driver.OpWaitCond:
		w.Kind = observe.Wait
	case driver.OpHostFunc, driver.OpFunc:
		w.Kind = observe.Function
	case driver.OpCompute:
		w.Kind, w.Bytes = observe.Other, op.N
	case driver.OpLaunch:
		w.Kind, w.Segments = observe.Kernel, op.Launch.Blocks
		if k, ok := op.Launch.Owner().(interface{ KernelName() string }); ok {
			w.Name = v.trace.Function(k.KernelName())
		}
	case driver.OpFail: // a copy that the device cannot make
	default:
		w.Kind = observe.Other
	}
	return w
}

// Way is where a copy goes, and what host memory it needs.
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

// ways is Way for a batch. Of a long one some segments, evenly spread, speak for all.
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

// memory is what kind of host memory addr is.
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

// Register notes that host memory was registered.
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

// Unregister notes that host memory is no longer registered.
func (v *View) Unregister(addr uintptr) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.registered.Find(addr); s != nil {
		v.registered.Remove(s)
	}
}
