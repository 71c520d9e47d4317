package core

import (
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Calls submit tasks to a stream with Put, with PutCopy for a plain copy, the most frequent task, or with PutLaunch.
// All number the task, report it to the probe if there is one, and enqueue it. The caller has checked that the stream
// accepts tasks (Stream.Admit). Other operations of a task use Stream.Part.

// Task is a task that a call submits to a stream.
type Task struct {
	Op    driver.Op    // numbered by Put, unless the caller has done so
	Kind  observe.Kind // for a tracer, if the operation does not determine it
	About uint64       // the common handle or address of records and waits, or 0
	After EventRecord  // the record that it waits for, if any
	Order *Order       // the order that it signals or waits for, for a checker; may be nil

	Version uint32 // of an executed model, for a tracer: observe.ModelGraph.Version

	Outside bool        // never captured
	Value   ValueParams // of a value task
	Changes Changer     // of a task that can be changed in a model; may be nil
}

// Changer is a task with parameters that another task can change to those at an address.
type Changer interface{ Change(src Addr) error }

// ValueParams has the parameters of a value write or wait.
type ValueParams struct {
	Addr  Addr
	Value uint64
	Flag  uint32
}

// Put submits a task to the stream.
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

// PutCopy puts a plain copy between two locations on the stream.
func (s *Stream) PutCopy(api string, t *Thread, dst, src Addr, n uint64, from, to driver.Location) {
	s.putCopy(api, t, dst, src, n, packEnds(from, to))
}

// putCopy is PutCopy with packed locations. The usual copy calls nothing before its queue.
func (s *Stream) putCopy(api string, t *Thread, dst, src Addr, n, ends uint64) {
	number := uint32(s.Tasks.Add(1))
	if number == 0 || s.Runtime.Probe != nil {
		s.putCopyWatched(api, t, dst, src, n, ends, number)
		return
	}
	if !t.Shared {
		t.lastTask, t.lastStream = number, s.ID
	}
	s.queue.Copy(dst, src, n, driver.Tag{Task: number, Thread: t.id})
}

// putCopyWatched is putCopy where something watches.
func (s *Stream) putCopyWatched(api string, t *Thread, dst, src Addr, n, ends uint64, number uint32) {
	tag := s.numbered(t, number, nil)
	if s.Runtime.Tracer() != nil {
		s.putCopyObserved(api, t, dst, src, n, ends, tag)
		return
	}
	s.queue.Copy(dst, src, n, tag)
}

// TakesLaunch reports whether PutLaunch can submit a launch to the stream: there is no probe and no lane, and the
// launch is not refused.
func (s *Stream) TakesLaunch() bool {
	return s.Runtime.Probe == nil && !s.Runtime.blocking && s.lane.Load() == nil &&
		s.updater.Load() == nil && !s.Context.Device.aborting.Load() && s.Context.failed.Load() == 0
}

// PutLaunch submits a launch to the stream; TakesLaunch has returned true. A capture that begins since does not include
// it.
func (s *Stream) PutLaunch(t *Thread, l *driver.Launch) {
	s.queue.Launch(l, s.NextTag(t, nil))
}

// Part enqueues an operation before the one of a task that is already numbered. The caller ensures that nothing is
// submitted between the two.
func (s *Stream) Part(tag driver.Tag, op driver.Op) {
	op.Tag = tag
	op.Tag.More = true
	s.queue.Submit(op)
}
