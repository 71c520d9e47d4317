//go:build explore

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/testenv"
)

// orderly is a fake whose streams do one thing at a time, when the explorer chooses them.
type orderly struct {
	*fake
	list []*fakeStream // all streams
	log  []uintptr     // addresses written to
	did  func(uintptr) // receives them; may be nil
}

// begin begins a run: streams wait for the explorer.
func (o *orderly) begin(x *hostqueue.Explorer) {
	o.log, o.explored = nil, func() { hostqueue.Step(o, nil) }
	for i := range engines {
		x.Start("GPU", true, func() { o.works(i) })
	}
}

func (o *orderly) StreamCreate(priority int) (uintptr, libcuda.Result) {
	h, r := o.fake.StreamCreate(priority)
	if r == libcuda.Success {
		o.list = append(o.list, o.streams[h])
	}
	return h, r
}

// EventRecord panics if the event is recorded again before it has happened.
func (o *orderly) EventRecord(event, stream uintptr) libcuda.Result {
	if e, r := o.event(event); r == libcuda.Success && e.happened < e.recorded {
		panic("BUG: an event has two owners")
	}
	return o.fake.EventRecord(event, stream)
}

func (o *orderly) EventQuery(event uintptr) libcuda.Result {
	hostqueue.Step(o, nil)
	return o.fake.EventQuery(event)
}

func (o *orderly) StreamQuery(stream uintptr) libcuda.Result {
	hostqueue.Step(o, nil)
	return o.fake.StreamQuery(stream)
}

func (o *orderly) EventSynchronize(event uintptr) libcuda.Result {
	if o.explored == nil {
		return o.fake.EventSynchronize(event)
	}
	e, r := o.event(event)
	if n := e.recorded; r == libcuda.Success {
		hostqueue.Step(o, func() bool { return o.passes(e, n) })
		_, r = o.event(event)
	}
	return r
}

// ModuleLoad refuses the driver's own kernels, since one of them waits for the host.
func (o *orderly) ModuleLoad(image []byte) (uintptr, string, libcuda.Result) {
	if string(image) == kernels.PTX {
		return 0, "", libcuda.NotSupported
	}
	return o.fake.ModuleLoad(image)
}

// passes reports whether a stream or a goroutine that waits for a record of an event may continue.
func (o *orderly) passes(e *fakeEvent, number uint64) bool {
	return e.happened >= number || o.gpu[e.gpu].broken != libcuda.Success
}

// next returns a stream of an engine that has work it can do, or nil.
func (o *orderly) next(engine int) *fakeStream {
	for i := engine; i < len(o.list); i += engines {
		s := o.list[i]
		if s.commands.Len() == 0 || o.gpu[s.gpu].broken != libcuda.Success {
			continue
		}
		if c := s.commands.Head(); c.kind != 'w' || o.passes(c.event, c.number) {
			return s
		}
	}
	return nil
}

// engines is the number of streams that work at a time.
const engines = 4

// works runs an engine of the GPUs.
func (o *orderly) works(engine int) {
	for {
		hostqueue.Step(o, func() bool { return o.next(engine) != nil })
		var c fakeOrder
		if o.next(engine).commands.Pop(&c); c.kind != 'w' {
			c.do()
		}
		if c.kind == '2' {
			c.dst = c.copy.Dst
		}
		if c.dst == 0 {
			continue
		}
		o.log = append(o.log, c.dst)
		if o.did != nil {
			o.did(c.dst)
		}
	}
}

// copying returns the number of copies on streams.
func (o *orderly) copying() (n int) {
	for _, s := range o.list {
		for i := range s.commands.Len() {
			if s.commands.At(i).kind == 'c' {
				n++
			}
		}
	}
	return n
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

// copies submits copies to places, beginning with first.
func (r *rig) copies(first, n int) {
	for i := range n {
		r.Copy(r.place(first+i), r.b.pinned, 8, driver.Tag{})
	}
}

func (r *rig) place(i int) uintptr { return r.b.dev[0] + 8*uintptr(i) }

// made reports whether exactly these places were copied to, in this order.
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

// end checks the final state. It does not close a stuck queue, which would wait.
func (r *rig) end() error {
	s := r.Snapshot()
	if s.State != hostqueue.Rest || s.Waiters != 0 || s.Tasks != 0 || r.runner != noRunner || r.marks.Len() > 0 {
		r.wants(false, fmt.Sprintf("stuck: %+v, runner %d, %d marks, %d soft, timed %t", s, r.runner, r.marks.Len(),
			r.softs, r.timed))
	} else if r.wants(r.Idle(), "not idle"); len(r.wrong) == 0 {
		r.Close()
	}
	if r.wrong != nil {
		return errors.New(fmt.Sprint(r.wrong, r.o.log))
	}
	return nil
}

// exploredPrograms lists the explored programs, by name.
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
	{"a report that takes its time", func(x *hostqueue.Explorer, r, _ *rig) {
		done := false
		x.Start("submitter", false, func() {
			r.Submit(driver.Op{Kind: driver.OpCopy, Dst: r.place(0), Src: r.b.pinned, N: 8, Done: func() {
				hostqueue.Step(r.o, nil)
				done = true
			}})
			r.waits()
			r.wants(done, "Wait returned before the copy was reported")
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
			on := len(r.o.log) + r.o.copying()
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

// exploring returns a driver with memory for explorations.
func exploring(t *testing.T, gpus int) (*bed, *orderly) {
	o := &orderly{fake: newFake(gpus)}
	o.noClock = true
	d, err := start(o, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBedOf(t, d, o.fake)
	b.d.hurry()
	return b, o
}

// rig returns a queue for a run.
func (b *bed) rig(o *orderly, device int) *rig {
	r := &rig{b: b, o: o}
	r.queue = b.devs[device].NewQueue(driver.QueueOptions{Events: driver.Events{Failed: r.TaskFailed}}).(*queue)
	return r
}

// walk runs a program in many random orders.
func walk(t *testing.T, runs int, p hostqueue.Program) {
	x := new(hostqueue.Explorer)
	if err := x.Walk(p, testenv.Rand(t)(1), runs); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs, %d steps, up to %d in a run", x.Runs, x.Steps, x.Deepest)
}

// TestExplore proves that queues of GPUs are correct in many random orders of the steps of a few goroutines and of the
// GPU: copies are made in order, waits return when they should, and no goroutine waits for ever.
func TestExplore(t *testing.T) {
	b, o := exploring(t, 1)
	for _, tt := range exploredPrograms {
		t.Run(tt.name, func(t *testing.T) {
			walk(t, 4000, func(x *hostqueue.Explorer) func() error {
				o.begin(x)
				r, other := b.rig(o, 0), b.rig(o, 0)
				tt.p(x, r, other)
				return func() error { return errors.Join(r.end(), other.end()) }
			})
		})
	}
	o.explored = nil
	t.Run("random", func(t *testing.T) { exploreRandom(t, 20000, false) })
	t.Run("random, and a GPU is lost", func(t *testing.T) { exploreRandom(t, 1000, true) })
}
