package core_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// eventHammer is many threads that use the same events on the same streams.
type eventHammer struct {
	t       *testing.T
	rt      *core.Runtime
	streams []core.Handle
	events  []atomic.Uintptr // handles; each is destroyed and made again all the time
	states  []core.Handle    // state events; recorded all the time from a stream that waits for nothing
	abort   bool             // streams are aborted now and then
}

const hammerEvents = 24

// newEvent makes an event for slot i: a third is of aclrtCreateEvent, the others are Ex.
func (h *eventHammer) newEvent(th *core.Thread, i int) core.Handle {
	var e core.Handle
	if i%3 == 0 {
		h.allow(th.CreateEvent(&e))
	} else {
		h.allow(th.CreateEventExWithFlag(&e, abi.EventSync|abi.EventCaptureStreamProgress|abi.EventTimeLine))
	}
	return e
}

// allow fails the test unless a call ended well or with one of codes. Any call on an event may find it destroyed, and
// any wait its stream aborted.
func (h *eventHammer) allow(err *core.Error, codes ...abi.Code) {
	h.t.Helper()
	switch {
	case err == nil, err.Code == abi.ErrRTInvalidHandle, h.abort && err.Code == abi.ErrRTStreamAbort:
	case !slices.Contains(codes, err.Code):
		h.t.Error(err)
	}
}

// step does one random thing.
func (h *eventHammer) step(th *core.Thread, r *rand.Rand) {
	s := h.streams[r.IntN(len(h.streams))]
	i := r.IntN(len(h.events))
	e := core.Handle(h.events[i].Load())
	var (
		recorded abi.EventRecordedStatus
		old      abi.EventStatus
		waits    abi.EventWaitStatus
		us       uint64
		id       uint32
		ms       float32
	)
	switch r.IntN(16) {
	case 0, 1, 2:
		h.allow(th.RecordEvent(e, s))
	case 3, 4, 5: // 107000: never recorded
		h.allow(th.StreamWaitEvent(s, e), abi.ErrRTParamInvalid)
	case 6:
		h.allow(th.StreamWaitEvent(s, h.states[i%len(h.states)]))
	case 7:
		h.allow(th.QueryEventStatus(e, &recorded))
	case 8: // 207000: Ex
		h.allow(th.QueryEvent(e, &old), abi.ErrRTFeatureNotSupport)
	case 9:
		h.allow(th.QueryEventWaitStatus(e, &waits), abi.ErrRTFeatureNotSupport)
	case 10:
		h.allow(th.SynchronizeEvent(e))
	case 11:
		h.allow(th.SynchronizeEventWithTimeout(e, 1), abi.ErrRTEventSyncTimeout)
	case 12:
		h.allow(th.EventGetTimestamp(e, &us), abi.ErrRTInternalError, abi.ErrRTEventTimestampInvalid)
		h.allow(th.GetEventID(e, &id), abi.ErrRTInternalError)
		o := core.Handle(h.events[r.IntN(len(h.events))].Load())
		h.allow(th.EventElapsedTime(&ms, e, o), abi.ErrRTInternalError, abi.ErrRTEventTimestampInvalid)
	case 13:
		if i%3 == 0 {
			h.allow(th.ResetEvent(e, s), abi.ErrRTFeatureNotSupport)
		}
	case 14:
		h.allow(th.DestroyEvent(core.Handle(h.events[i].Swap(uintptr(h.newEvent(th, i))))))
	case 15:
		if h.abort && r.IntN(8) == 0 {
			h.allow(th.StreamAbort(s))
		} else {
			h.allow(th.SynchronizeStreamWithTimeout(s, 1), abi.ErrRTStreamSyncTimeout)
		}
	}
}

// run lets the threads loose for n steps each and then looks whether everything comes to rest and nothing is left.
func (h *eventHammer) run(threads, n int) {
	th := h.rt.NewThread(1)
	h.allow(th.SetDevice(0))
	var all uint32
	h.allow(th.GetEventAvailNum(&all))
	h.streams, h.states = make([]core.Handle, 6), make([]core.Handle, 3)
	h.events = make([]atomic.Uintptr, hammerEvents)
	for i := range h.streams {
		h.allow(th.CreateStream(&h.streams[i]))
	}
	for i := range h.states {
		h.allow(th.CreateEventWithFlag(&h.states[i], abi.EventSync))
	}
	for i := range h.events {
		h.events[i].Store(uintptr(h.newEvent(th, i)))
	}
	stop := make(chan struct{})
	var pump, work sync.WaitGroup
	pump.Go(func() { h.pump(stop) })
	start := make(chan struct{})
	source := testenv.Rand(h.t)
	for i := range threads {
		work.Go(func() {
			th := h.rt.NewThread(uint32(10 + i))
			defer th.Close()
			h.allow(th.SetDevice(0))
			r := source(i)
			<-start
			for range n {
				h.step(th, r)
			}
			h.allow(th.ResetDevice(0))
		})
	}
	close(start)
	work.Wait()
	for _, s := range h.streams {
		h.allow(th.SynchronizeStreamWithTimeout(s, 30_000))
	}
	close(stop)
	pump.Wait()
	for i := range h.events {
		h.allow(th.DestroyEvent(core.Handle(h.events[i].Load())))
	}
	for _, e := range h.states {
		h.allow(th.DestroyEvent(e))
	}
	var left uint32
	h.allow(th.GetEventAvailNum(&left))
	if live := h.rt.Live().Events; live != 0 || left != all {
		h.t.Errorf("%d events are left, %d of %d ids are free", live, left, all)
	}
}

// pump records and resets the state events, so that every wait for one ends.
func (h *eventHammer) pump(stop <-chan struct{}) {
	th := h.rt.NewThread(2)
	h.allow(th.SetDevice(0))
	var s core.Handle
	h.allow(th.CreateStream(&s))
	for {
		for _, e := range h.states {
			h.allow(th.RecordEvent(e, s))
			h.allow(th.SynchronizeEvent(e))
		}
		select {
		case <-stop:
			h.allow(th.DestroyStream(s))
			return
		case <-time.After(200 * time.Microsecond):
		}
		for _, e := range h.states {
			h.allow(th.ResetEvent(e, s))
		}
	}
}

// TestEventHammer: threads that record, wait for, ask, reset, destroy and make the same events on the same streams end,
// get only results that some order of the calls explains, and leave nothing behind.
func TestEventHammer(t *testing.T) {
	for _, abort := range []bool{false, true} {
		name := "plain"
		if abort {
			name = "with aborts"
		}
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { goleak.VerifyNone(t) }) // registered first: runs when the runtime is closed
			rt, _ := newRuntime(t, "A2")
			n := 4000
			if testing.Short() {
				n = 500
			}
			(&eventHammer{t: t, rt: rt, abort: abort}).run(8, n)
		})
	}
}

// slowDriver lets a test step in where an operation is about to be put on a queue, or has been; either may be nil.
type slowDriver struct {
	driver.Driver
	before, after func(op *driver.Op)
}

type slowDevice struct {
	driver.Device
	d *slowDriver
}

type slowQueue struct {
	driver.Queue
	d *slowDriver
}

func (d *slowDriver) Open(i int) (driver.Device, error) {
	v, err := d.Driver.Open(i)
	return slowDevice{v, d}, err
}

func (v slowDevice) NewQueue(o driver.QueueOptions) driver.Queue {
	return slowQueue{v.Device.NewQueue(o), v.d}
}

func (q slowQueue) Submit(op driver.Op) {
	if q.d.before != nil {
		q.d.before(&op)
	}
	q.Queue.Submit(op)
	if q.d.after != nil {
		q.d.after(&op)
	}
}

// TestEventRecordInTwoThreads: while one thread is inside aclrtRecordEvent, a wait that another thread puts on the same
// stream does not refer to the record, which comes after it.
func TestEventRecordInTwoThreads(t *testing.T) {
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	p, err := product.Find("A2", "")
	testenv.OK(t, err)
	slow := &slowDriver{Driver: d}
	rt := core.New(core.Options{Driver: slow, Product: p})
	defer rt.Close()
	th := rt.NewThread(1)
	slow.before = func(*driver.Op) {}
	must(t, th.SetDevice(0))
	var e, s core.Handle
	must(t, th.CreateEvent(&e))
	must(t, th.CreateStream(&s))
	must(t, th.RecordEvent(e, s))
	other := rt.NewThread(2)
	must(t, other.SetDevice(0))
	slow.before = func(op *driver.Op) {
		if op.Kind != driver.OpSet {
			return
		}
		slow.before = func(*driver.Op) {}
		if err := other.StreamWaitEvent(s, e); err != nil {
			t.Error(err)
		}
	}
	must(t, th.RecordEvent(e, s))
	if err := th.SynchronizeStreamWithTimeout(s, 5000); err != nil {
		must(t, th.StreamAbort(s))
		t.Error(err)
	}
}
