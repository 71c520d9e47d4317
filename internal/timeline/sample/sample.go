// Package sample generates runs for tests and for the report's page: a small model of a host and a device gives every
// call and task its time.
package sample

import (
	"time"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// Times and speeds of the model, in nanoseconds and bytes per nanosecond. Pageable memory is staged by the caller.
const (
	submitTime    = 400
	returnTime    = 300 // from the end of work to the return of the call that waits for it
	startTime     = 900 // before the first byte of a copy moves
	eventTime     = 100
	functionTime  = 5_000
	pinnedSpeed   = 24.0
	pageableSpeed = 6.0
	deviceSpeed   = 400.0
)

// Builder builds a run, call by call. Calls of different threads may be made in any order; those of one thread are in
// order.
type Builder struct {
	run       timeline.Run
	functions map[string]int
	now       []int64          // by thread: when its last call returned
	last      []int64          // by stream: when its last task ends
	waits     []int64          // by stream: the end of the records that its next task must wait for
	engines   map[engine]int64 // times when they become free
	end       int64
}

type engine struct {
	device    int
	direction observe.Direction
}

// New returns a builder of a run of one process with one device.
func New() *Builder {
	b := &Builder{functions: map[string]int{}, engines: map[engine]int64{}}
	b.run = timeline.Run{
		Program: []string{"./sample"}, Driver: "soft", Started: time.Date(2026, 11, 1, 9, 30, 0, 0, time.UTC),
		Processes: []timeline.Process{{ID: 4242, Command: []string{"./sample"}, Ended: true}},
	}
	b.Device()
	return b
}

// Device adds a device and returns its index.
func (b *Builder) Device() int {
	id := len(b.run.Devices)
	b.run.Devices = append(b.run.Devices, timeline.Device{ID: int32(id), Name: "Ascend910B4"})
	return id
}

// Thread adds a thread and returns its index.
func (b *Builder) Thread(name string) int {
	n := len(b.run.Threads)
	b.run.Threads = append(b.run.Threads, timeline.Thread{ID: uint32(4242 + n), Name: name})
	b.now = append(b.now, 1000)
	return n
}

// Stream adds a stream of a device and returns its index.
func (b *Builder) Stream(device int) int {
	n := len(b.run.Streams)
	b.run.Streams = append(b.run.Streams, timeline.Stream{ID: int32(n + 1), Device: device})
	b.last, b.waits = append(b.last, 0), append(b.waits, 0)
	return n
}

// Work makes a thread do other work for a while.
func (b *Builder) Work(thread int, nanoseconds int64) { b.now[thread] += nanoseconds }

// Now returns the time when the thread's last call returned.
func (b *Builder) Now(thread int) int64 { return b.now[thread] }

// Copy queues a copy. With pageable memory the call waits for the stream and makes the copy itself.
func (b *Builder) Copy(thread, stream int, direction observe.Direction, memory observe.Memory, bytes uint64) int {
	return b.Submit("aclrtMemcpyAsync", thread, stream, timeline.Task{Kind: observe.Copy, Direction: direction,
		Memory: memory, Bytes: bytes})
}

// Batch queues a batch of segments.
func (b *Builder) Batch(thread, stream int, direction observe.Direction, segments int, bytes uint64) int {
	return b.Submit("aclrtMemcpyBatchAsync", thread, stream, timeline.Task{Kind: observe.Batch, Direction: direction,
		Memory:   observe.Pinned,
		Segments: uint32(segments), Bytes: bytes})
}

// Fill queues a fill of device memory.
func (b *Builder) Fill(thread, stream int, bytes uint64) int {
	return b.Submit("aclrtMemsetAsync", thread, stream, timeline.Task{Kind: observe.Fill, Bytes: bytes})
}

// Function queues a function of the host.
func (b *Builder) Function(thread, stream int) int {
	return b.Submit("aclrtLaunchCallback", thread, stream, timeline.Task{Kind: observe.Function})
}

// Record queues the record of an event.
func (b *Builder) Record(thread, stream int) int {
	return b.Submit("aclrtRecordEvent", thread, stream, timeline.Task{Kind: observe.Record})
}

// Wait makes a stream wait for a record.
func (b *Builder) Wait(thread, stream, record int) int {
	b.waits[stream] = max(b.waits[stream], b.run.Tasks[record].End)
	n := b.Submit("aclrtStreamWaitEvent", thread, stream, timeline.Task{Kind: observe.Wait})
	b.run.Edges = append(b.run.Edges, timeline.Edge{From: record, To: n})
	return n
}

// Submit queues a task: t has its properties, and the model determines its times.
func (b *Builder) Submit(function string, thread, stream int, t timeline.Task) int {
	call := b.call(function, thread, stream)
	t.Stream, t.Device, t.Thread, t.Call = stream, b.run.Streams[stream].Device, thread, call
	t.Submit = b.now[thread] + submitTime/2
	t.Number = uint32(len(b.run.Tasks) + 1)
	b.place(&t, max(t.Submit, b.last[stream], b.waits[stream]))
	b.last[stream] = t.End
	if t.Kind.Copies() && t.Memory == observe.Pageable {
		b.finish(call, t.End)
	} else {
		b.run.Calls[call].End = b.now[thread] + submitTime
		b.now[thread] += submitTime
	}
	return b.task(t)
}

// CopyNow makes a synchronous copy, which has no stream.
func (b *Builder) CopyNow(thread, device int, direction observe.Direction, memory observe.Memory, bytes uint64) int {
	call := b.call("aclrtMemcpy", thread, timeline.None)
	t := timeline.Task{Kind: observe.Copy, Direction: direction, Memory: memory, Bytes: bytes,
		Stream: timeline.None, Device: device, Thread: thread, Call: call, Submit: b.now[thread] + submitTime/2}
	b.place(&t, t.Submit)
	b.finish(call, t.End)
	return b.task(t)
}

// Sync waits for a stream.
func (b *Builder) Sync(thread, stream int) int {
	call := b.call("aclrtSynchronizeStream", thread, stream)
	b.finish(call, b.last[stream])
	b.awaits(call, func(t *timeline.Task) bool { return t.Stream == stream })
	return call
}

// SyncEvent waits for a record.
func (b *Builder) SyncEvent(thread, record int) int {
	call := b.call("aclrtSynchronizeEvent", thread, b.run.Tasks[record].Stream)
	b.finish(call, b.run.Tasks[record].End)
	b.run.Calls[call].Awaited = record
	return call
}

// awaits makes a call wait for the last of some tasks.
func (b *Builder) awaits(call int, of func(*timeline.Task) bool) {
	c := &b.run.Calls[call]
	for i := range b.run.Tasks {
		if t := &b.run.Tasks[i]; of(t) && t.End >= c.Start && (c.Awaited == timeline.None ||
			t.End >= b.run.Tasks[c.Awaited].End) {
			c.Awaited = i
		}
	}
}

// SyncDevice waits for all streams of a device.
func (b *Builder) SyncDevice(thread, device int) int {
	call := b.call("aclrtSynchronizeDevice", thread, timeline.None)
	end := int64(0)
	for i, s := range b.run.Streams {
		if s.Device == device {
			end = max(end, b.last[i])
		}
	}
	b.finish(call, end)
	b.awaits(call, func(t *timeline.Task) bool { return t.Stream != timeline.None && t.Device == device })
	return call
}

// Call adds a call that queues nothing and takes some time.
func (b *Builder) Call(function string, thread int, nanoseconds int64) int {
	call := b.call(function, thread, timeline.None)
	b.now[thread] += nanoseconds
	b.run.Calls[call].End = b.now[thread]
	return call
}

// call begins a call.
func (b *Builder) call(function string, thread, stream int) int {
	f, known := b.functions[function]
	if !known {
		f = len(b.run.Functions)
		b.functions[function] = f
		b.run.Functions = append(b.run.Functions, function)
	}
	b.run.Calls = append(b.run.Calls, timeline.Call{Thread: thread, Function: f, Start: b.now[thread], Stream: stream,
		Awaited: timeline.None, Site: timeline.None})
	return len(b.run.Calls) - 1
}

// finish ends a call that has waited for work until end.
func (b *Builder) finish(call int, end int64) {
	c := &b.run.Calls[call]
	checked := c.Start + submitTime
	c.Blocked = max(0, end-checked)
	c.End = max(checked, end) + returnTime
	b.now[c.Thread] = c.End
}

// place sets the times of a task: it starts at earliest, or later when its engine is free.
func (b *Builder) place(t *timeline.Task, earliest int64) {
	length := int64(eventTime)
	switch {
	case t.Kind == observe.Function:
		length = functionTime
	case t.Kind.Copies() || t.Kind == observe.Fill:
		speed := deviceSpeed
		if t.Direction == observe.HostToDevice || t.Direction == observe.DeviceToHost || t.Direction == observe.Both {
			speed = pinnedSpeed
			if t.Memory == observe.Pageable {
				speed = pageableSpeed
			}
			e := engine{t.Device, t.Direction}
			earliest = max(earliest, b.engines[e])
			defer func() { b.engines[e] = t.End }()
		}
		length = startTime + int64(float64(t.Bytes)/speed)
	}
	t.Start, t.End = earliest, earliest+length
	b.end = max(b.end, t.End)
}

func (b *Builder) task(t timeline.Task) int {
	b.run.Tasks = append(b.run.Tasks, t)
	return len(b.run.Tasks) - 1
}
