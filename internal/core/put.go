package core

import (
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// A call has one way to put a task on a stream: put, or, for a plain copy, PutCopy, which every program calls most.
// Both number the task, report it to the probe if there is one, and enqueue it. The caller has checked that the
// stream takes tasks (Stream.admit). What a task needs beside its own operation is no task: see Stream.Part.

// Task is what a call puts on a stream.
type Task struct {
	Op    driver.Op    // numbered by put, unless the caller has done so
	Kind  observe.Kind // what a tracer sees, where the operation does not say it
	About uint64       // the handle or the address that records and waits have in common, or 0
	After EventRecord  // the record that it waits for, if there is one
	Order *Order       // what it signals or waits for, for a checker; may be nil

	Version uint32 // of a model that is executed, for a tracer: observe.ModelGraph.Version

	Outside bool        // it is not captured, whatever the stream
	Value   ValueParams // of a value task
	Changes Changer     // of a task that can be changed while a model has it; may be nil
}

// Changer is a task whose parameters another task changes, to those that lie at an address then.
type Changer interface{ Change(src Addr) error }

// ValueParams is what a program said of a value write or wait.
type ValueParams struct {
	Addr  Addr
	Value uint64
	Flag  uint32
}

// Put puts a task on the stream.
func (s *Stream) Put(api string, t *Thread, k Task) {
	if l := s.lane.Load(); l != nil && !k.Outside && keepTask(*l, t, k) {
		return
	}
	if k.Op.Tag.Task == 0 {
		k.Op.Tag = s.NextTag(t, k.Order)
	}
	if s.Runtime.Tracer() != nil {
		s.putObserved(api, t, &k)
		return
	}
	s.queue.Submit(k.Op)
}

// PutCopy puts a plain copy on the stream; both ranges are where from and to say. It is put with as few calls as can
// be.
func (s *Stream) PutCopy(api string, t *Thread, dst, src Addr, n uint64, from, to *driver.Location) {
	number := uint32(s.Tasks.Add(1))
	if number == 0 || t.Shared || s.Runtime.Probe != nil {
		s.putCopyWatched(api, t, dst, src, n, from, to, number)
		return
	}
	t.lastTask = number
	s.queue.Copy(dst, src, n, driver.Tag{Task: number, Thread: t.id})
}

// putCopyWatched is PutCopy where something watches, or several goroutines share the thread.
func (s *Stream) putCopyWatched(api string, t *Thread, dst, src Addr, n uint64, from, to *driver.Location,
	number uint32) {
	tag := s.numbered(t, number, nil)
	if s.Runtime.Tracer() != nil {
		s.putCopyObserved(api, t, dst, src, n, tag, from, to)
		return
	}
	s.queue.Copy(dst, src, n, tag)
}

// TakesLaunch reports whether PutLaunch can put a launch on the stream: its queue takes launches by themselves, nothing
// watches, no model has a part in it, and it is not refused.
func (s *Stream) TakesLaunch() bool {
	return s.launches != nil && s.Runtime.Probe == nil && !s.Runtime.blocking && s.lane.Load() == nil &&
		s.updater.Load() == nil && !s.Context.Device.aborting.Load() && s.Context.failed.Load() == 0
}

// PutLaunch puts a launch on the stream, which takes it. A capture that begins meanwhile does not have it.
func (s *Stream) PutLaunch(t *Thread, l *driver.Launch) {
	s.launches.Launch(l, s.NextTag(t, nil))
}

// Part enqueues what comes before the operation of a task that is numbered already. The caller ensures that nothing is
// put between the two.
func (s *Stream) Part(tag driver.Tag, op driver.Op) {
	op.Tag = tag
	op.Tag.More = true
	s.queue.Submit(op)
}
