//go:build explore

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/testenv"
)

// orderly is a fake whose streams do one thing at a time, when the explorer says so.
type orderly struct {
	*fake
	on       bool                 // else it is the fake
	streams  map[uintptr]*ordered // by handle
	list     []*ordered
	happened map[uintptr]bool // events
	log      []uintptr        // where was copied to
}

// ordered is what is on a stream.
type ordered struct{ orders []order }

type order struct{ to, event, waits uintptr }

func (o *orderly) at(stream uintptr) *ordered {
	s := o.streams[stream]
	if s == nil {
		s = new(ordered)
		o.streams[stream] = s
		o.list = append(o.list, s)
	}
	return s
}

func (o *orderly) add(stream uintptr, what order) libcuda.Result {
	s := o.at(stream)
	hostqueue.Step(o, nil)
	s.orders = append(s.orders, what)
	return libcuda.Success
}

func (o *orderly) MemcpyAsync(dst, src uintptr, n uint64, stream uintptr) libcuda.Result {
	if !o.on {
		return o.fake.MemcpyAsync(dst, src, n, stream)
	}
	return o.add(stream, order{to: dst})
}

func (o *orderly) EventRecord(event, stream uintptr) libcuda.Result {
	if !o.on {
		return o.fake.EventRecord(event, stream)
	}
	o.happened[event] = false
	return o.add(stream, order{event: event})
}

func (o *orderly) StreamWaitEvent(stream, event uintptr) libcuda.Result {
	return o.add(stream, order{waits: event})
}

func (o *orderly) EventQuery(event uintptr) libcuda.Result {
	if !o.on {
		return o.fake.EventQuery(event)
	}
	hostqueue.Step(o, nil)
	if !o.happened[event] {
		return libcuda.NotReady
	}
	return libcuda.Success
}

func (o *orderly) EventSynchronize(event uintptr) libcuda.Result {
	if !o.on {
		return o.fake.EventSynchronize(event)
	}
	hostqueue.Step(o, func() bool { return o.happened[event] })
	return libcuda.Success
}

func (o *orderly) StreamQuery(stream uintptr) libcuda.Result {
	if !o.on {
		return o.fake.StreamQuery(stream)
	}
	hostqueue.Step(o, nil)
	if len(o.at(stream).orders) > 0 {
		return libcuda.NotReady
	}
	return libcuda.Success
}

func (o *orderly) EventElapsedTime(uintptr, uintptr) (float32, libcuda.Result) {
	return 0, libcuda.NotSupported
} // no clock
func (o *orderly) StreamWriteValue(uintptr, uintptr, uint32) libcuda.Result {
	return libcuda.NotSupported
} // no fence
func (o *orderly) ModuleLoad([]byte) (uintptr, string, libcuda.Result) {
	return 0, "", libcuda.NotSupported
}

// next is a stream that can do something, or nil.
func (o *orderly) next() *ordered {
	for _, s := range o.list {
		if len(s.orders) > 0 && (s.orders[0].waits == 0 || o.happened[s.orders[0].waits]) {
			return s
		}
	}
	return nil
}

// works is the GPU.
func (o *orderly) works() {
	for {
		hostqueue.Step(o, func() bool { return o.next() != nil })
		s := o.next()
		do := s.orders[0]
		s.orders = s.orders[1:]
		if do.to != 0 {
			o.log = append(o.log, do.to)
		}
		if do.event != 0 {
			o.happened[do.event] = true
		}
	}
}

// rig is a queue of one run.
type rig struct {
	*queue
	b     *bed
	o     *orderly
	wrong []string
}

func (r *rig) TaskFailed(_ driver.Tag, err error) { r.wants(false, err.Error()) }

func (r *rig) wants(so bool, what string) {
	if !so {
		r.wrong = append(r.wrong, what)
	}
}

// copies submits copies to places from first on.
func (r *rig) copies(first, n int) {
	for i := range n {
		r.Copy(r.place(first+i), r.b.pinned, 8, driver.Tag{})
	}
}

func (r *rig) place(i int) uintptr { return r.b.dev[0] + 8*uintptr(i) }

// made reports whether copies were made to these places, in this order.
func (r *rig) made(first, n int) bool {
	hostqueue.Step(r.o, nil)
	last := -1
	for i := range n {
		at := slices.Index(r.o.log, r.place(first+i))
		if at <= last {
			return false
		}
		last = at
	}
	return true
}

func (r *rig) waits() { r.wants(r.Wait(0, nil), "a wait without a limit gave up") }

// end is what has to hold when nothing goes on any more.
func (r *rig) end() error {
	s := r.Snapshot()
	n := s.Submitted
	if s != (hostqueue.Snapshot{Shut: s.Shut, Submitted: n, Taken: n, Completed: n}) && !r.Idle() ||
		s.State != hostqueue.Rest || s.Waiters != 0 || s.Tasks != 0 {
		r.wants(false, fmt.Sprintf("not at rest: %+v", s))
	}
	r.wants(r.runner == noRunner && r.marks.Len() == 0, "a runner or a mark is left")
	r.Close()
	if r.wrong != nil {
		return errors.New(fmt.Sprint(r.wrong, r.o.log))
	}
	return nil
}

// exploredPrograms are what is explored, by what they are about.
var exploredPrograms = []struct {
	name string
	p    func(x *hostqueue.Explorer, r, other *rig)
}{
	{"two submitters", func(x *hostqueue.Explorer, r, _ *rig) {
		for i := range 2 {
			x.Start("submitter", false, func() {
				r.copies(10*i, 3)
				r.waits()
				r.wants(r.made(10*i, 3), "Wait returned before the copies were made")
			})
		}
	}},
	{"a waiter beside", func(x *hostqueue.Explorer, r, _ *rig) {
		x.Start("submitter", false, func() { r.copies(0, 4) })
		x.Start("waiter", false, r.waits)
		x.Start("impatient", false, func() { r.Wait(time.Hour, nil) })
	}},
	{"a copy that is reported", func(x *hostqueue.Explorer, r, _ *rig) {
		done := 0
		x.Start("submitter", false, func() {
			r.copies(0, 2)
			r.Submit(driver.Op{Kind: driver.OpCopy, Dst: r.place(2), Src: r.b.pinned, N: 8, Done: func() { done++ }})
			r.copies(3, 1)
			r.waits()
			r.wants(done == 1 && r.made(0, 4), "Wait returned too early, or the copies were made in another order")
		})
		x.Start("waiter", false, r.waits)
	}},
	{"a copy that is reported, and nobody waits", func(x *hostqueue.Explorer, r, _ *rig) {
		x.Start("submitter", false, func() {
			r.Submit(driver.Op{Kind: driver.OpCopy, Dst: r.place(0), Src: r.b.pinned, N: 8, Done: func() {
				r.wants(r.made(0, 1), "a copy was reported before it was made")
			}})
		})
		x.Start("other", false, func() {
			r.copies(1, 1)
			r.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() { r.wants(r.made(1, 1), "ran before the copy") }})
		})
		x.Start("asker", false, func() { r.Idle() })
	}},
	{"copies that are reported, and a flag", func(x *hostqueue.Explorer, r, other *rig) {
		f, done := r.b.d.NewFlag(), 0
		x.Start("submitter", false, func() {
			r.Submit(driver.Op{Kind: driver.OpCopy, Dst: r.place(0), Src: r.b.pinned, N: 8, Done: func() { done++ }})
			r.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
			r.Submit(driver.Op{Kind: driver.OpCopy, Dst: r.place(1), Src: r.b.pinned, N: 8, Done: func() { done++ }})
			r.waits()
			r.wants(done == 2 && r.made(0, 2), "Wait returned too early, or the copies were made in another order")
		})
		x.Start("other", false, func() {
			other.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
			other.copies(2, 1)
			other.waits()
			other.wants(slices.Index(r.o.log, r.place(0)) < slices.Index(r.o.log, r.place(2)),
				"passed a flag before it was set")
		})
	}},
	{"a host function between copies", func(x *hostqueue.Explorer, r, _ *rig) {
		x.Start("submitter", false, func() {
			r.copies(0, 2)
			r.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() {
				r.wants(r.made(0, 2) && !slices.Contains(r.o.log, r.place(2)), "the function ran too early or too late")
			}})
			r.copies(2, 2)
			r.waits()
			r.wants(r.made(0, 4), "Wait returned too early")
		})
		x.Start("submitter", false, func() { r.copies(10, 2) })
	}},
	{"work of the host before a copy", func(x *hostqueue.Explorer, r, _ *rig) {
		x.Start("submitter", false, func() {
			r.Submit(driver.Op{Kind: driver.OpCompute, Work: func() error {
				for range 3 {
					hostqueue.Step(r.o, nil)
				}
				r.wants(len(r.o.log) == 0, "a copy was made before the work was over")
				return nil
			}})
			r.copies(0, 2)
			r.waits()
		})
		x.Start("waiter", false, r.waits)
	}},
	{"a short task of the host", func(x *hostqueue.Explorer, r, _ *rig) {
		ran := 0
		x.Start("submitter", false, func() {
			r.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() { ran++ }})
			r.copies(0, 2)
			r.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() {
				ran++
				r.wants(r.made(0, 2),
					"ran before the copies")
			}})
			r.waits()
			r.wants(ran == 2, "Wait returned before the task had run")
		})
		x.Start("submitter", false, func() { r.copies(10, 1); r.waits() })
	}},
	{"a flag", func(x *hostqueue.Explorer, r, other *rig) {
		f := r.b.d.NewFlag()
		x.Start("submitter", false, func() {
			r.copies(0, 2)
			r.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
		})
		x.Start("other", false, func() {
			other.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
			other.copies(2, 1)
			other.waits()
			other.wants(other.made(0, 3), "passed a flag before it was set")
		})
	}},
	{"drop", func(x *hostqueue.Explorer, r, _ *rig) {
		ended := 0
		x.Start("submitter", false, func() {
			r.copies(0, 3)
			r.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() {}, Done: func() { ended++ }})
			r.waits()
			r.wants(ended == 1, "a task has not ended")
			r.copies(3, 1)
			r.waits()
			r.wants(r.made(3, 1), "what came after Drop was dropped")
		})
		x.Start("dropper", false, func() { r.Drop(); r.waits(); hostqueue.Step(r, nil) })
	}},
	{"close", func(x *hostqueue.Explorer, r, _ *rig) {
		x.Start("submitter", false, func() { r.copies(0, 3); r.waits() })
		x.Start("closer", false, func() {
			r.Close()
			r.copies(10, 1)
			r.waits()
			r.wants(!slices.Contains(r.o.log, r.place(10)), "something was copied after Close")
		})
	}},
	{"memory is freed", func(x *hostqueue.Explorer, r, _ *rig) {
		x.Start("submitter", false, func() {
			r.copies(0, 3)
			r.b.d.pollers.flush()
			hostqueue.Step(r.o, nil)
			on := len(r.o.log)
			for _, s := range r.o.list {
				on += len(slices.DeleteFunc(slices.Clone(s.orders), func(o order) bool { return o.to == 0 }))
			}
			r.wants(on >= 3, "copies are not on the stream")
		})
		x.Start("waiter", false, r.waits)
	}},
	{"memory is freed when a copy is over", func(x *hostqueue.Explorer, r, _ *rig) {
		done := 0
		x.Start("submitter", false, func() {
			r.copies(0, 2)
			r.Submit(driver.Op{Kind: driver.OpCopy, Dst: r.place(2), Src: r.b.pinned, N: 8, Done: func() {
				r.b.d.pollers.flush()
				done++
			}})
			r.copies(3, 3)
			r.waits()
			r.wants(done == 1 && r.made(0, 6), "Wait returned too early, or the copies were made in another order")
		})
		x.Start("submitter", false, func() { r.copies(10, 2) })
	}},
}

// TestExplore proves that queues of GPUs are right in many orders of the steps of a few goroutines and of the GPU,
// which are drawn: copies are made in order, waits return when they should, and nobody waits for ever.
func TestExplore(t *testing.T) {
	const runs = 4000
	o := &orderly{fake: newFake(1), streams: map[uintptr]*ordered{}, happened: map[uintptr]bool{}}
	d, err := start(o, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBedOf(t, d, o.fake)
	b.d.hurry()
	o.on = true
	defer func() { o.on = false }()
	for _, tt := range exploredPrograms {
		t.Run(tt.name, func(t *testing.T) {
			x := new(hostqueue.Explorer)
			err := x.Walk(func(x *hostqueue.Explorer) func() error {
				o.log = nil
				r, other := &rig{b: b, o: o}, &rig{b: b, o: o}
				r.queue = b.devs[0].NewQueue(driver.QueueOptions{Sink: r}).(*queue)
				other.queue = b.devs[0].NewQueue(driver.QueueOptions{Sink: other}).(*queue)
				x.Start("GPU", true, o.works)
				tt.p(x, r, other)
				return func() error { return errors.Join(r.end(), other.end()) }
			}, testenv.Rand(t)(1), runs)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d runs, %d steps, up to %d in a run", x.Runs, x.Steps, x.Deepest)
		})
	}
}
