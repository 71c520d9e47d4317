package signal

import (
	"sync"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/driver/soft"
	"ropeway/internal/observe"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// What a stream is like that waits for a cell.

// cellWaits are the waits there are, by name: each holds a stream up until the function it returns is called.
func cellWaits(m *coretest.Machine) map[string]func(s core.Handle) (open func()) {
	m.Helper()
	return map[string]func(s core.Handle) func(){
		"notify": func(s core.Handle) func() {
			n := newNotify(m)
			m.OK(WaitAndResetNotify(m.Th, n, s, 0))
			return func() { m.OK(RecordNotify(m.Th, n, 0)) }
		},
		"count": func(s core.Handle) func() {
			var n core.Handle
			m.OK(CntNotifyCreate(m.Th, &n, 0))
			m.OK(CntNotifyWaitWithTimeout(m.Th, n, s, &abi.CntNotifyWaitInfo{Mode: abi.CntNotifyWaitEqualMode,
				Value: 5}))
			return func() { m.OK(CntNotifyRecord(m.Th, n, 0, &abi.CntNotifyRecordInfo{Value: 5})) }
		},
		"value": func(s core.Handle) func() {
			p := word(m)
			m.OK(ValueWait(m.Th, p, 1, valueEQ, s))
			return func() { m.OK(ValueWrite(m.Th, p, 1, 0, 0)) }
		},
		"IPC event": func(s core.Handle) func() {
			var e core.Handle
			m.OK(m.Th.CreateEventExWithFlag(&e, abi.EventIpc))
			n, from := newNotify(m), m.Stream(m.Th)
			m.OK(WaitAndResetNotify(m.Th, n, from, 0))
			m.OK(m.Th.RecordEvent(e, from))
			m.OK(m.Th.StreamWaitEvent(s, e))
			return func() { m.OK(RecordNotify(m.Th, n, 0)) }
		},
	}
}

// TestCellHoldsStream: a stream that waits is not ready, and stalled; aborting, stopping and destroying it do not
// wait for the cell; a failure that stops the context ends the wait.
func TestCellHoldsStream(t *testing.T) {
	for name := range cellWaits(coretest.NewMachine(t, "950", "")) {
		for how, end := range map[string]func(m *coretest.Machine, s core.Handle, open func()){
			"opened": func(m *coretest.Machine, s core.Handle, open func()) {
				var status abi.StreamStatus
				m.OK(m.Th.StreamQuery(s, &status))
				if status != abi.StreamStatusNotReady {
					m.Error("the stream is ready")
				}
				testenv.Eventually(t, "the stream is stalled", m.Runtime.Streams.Get(s).Stalled)
				open()
				m.OK(m.Th.SynchronizeStream(s))
				m.OK(m.Th.StreamQuery(s, &status))
				if status != abi.StreamStatusComplete {
					m.Error("the stream is not ready")
				}
			},
			"aborted": func(m *coretest.Machine, s core.Handle, open func()) {
				m.OK(m.Th.StreamAbort(s))
				m.OK(m.Th.SynchronizeStream(s))
			},
			"stopped": func(m *coretest.Machine, s core.Handle, open func()) {
				m.OK(m.Th.StreamStop(s))
				m.OK(m.Th.SynchronizeStream(s))
			},
			"destroyed": func(m *coretest.Machine, s core.Handle, open func()) { m.OK(m.Th.DestroyStreamForce(s)) },
			"reset":     func(m *coretest.Machine, s core.Handle, open func()) { m.OK(m.Th.ResetDeviceForce(0)) },
			"aborted with its device": func(m *coretest.Machine, s core.Handle, open func()) {
				m.OK(m.Th.DeviceTaskAbort(0, 0))
				m.OK(m.Th.SynchronizeStream(s))
			},
			"failed": func(m *coretest.Machine, s core.Handle, open func()) {
				m.OK(m.Th.SetStreamFailureMode(s, 1))
				p, other := alloc(m, 64), m.Stream(m.Th)
				m.OK(ValueWrite(m.Th, p+4, 1, 0, other)) // it is not aligned
				m.Want(m.Th.SynchronizeStream(other), abi.ErrRTSysDma)
				m.Want(m.Th.SynchronizeStream(s), abi.ErrRTSysDma)
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				m := coretest.NewMachine(t, "950", "")
				s := m.Stream(m.Th)
				open := cellWaits(m)[name](s)
				m.Within(how, func() { end(m, s, open) })
			})
		}
	}
}

// TestCellBlocking: under launch blocking records and waits return at once: what lets a wait go may be submitted after
// it.
func TestCellBlocking(t *testing.T) {
	prod, err := product.Find("950", "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	m := &coretest.Machine{T: t, Runtime: core.New(core.Options{Driver: d, Product: prod, Blocking: true})}
	defer m.Runtime.Close()
	m.Th = m.NewThread(0)
	for name, wait := range cellWaits(m) {
		s := m.Stream(m.Th)
		m.Within(name, func() {
			open := wait(s)
			open()
			m.OK(m.Th.SynchronizeStream(s))
		})
	}
}

// TestCellThreadIn: a thread that is for everybody signals too, from many goroutines.
func TestCellThreadIn(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	var c core.Handle
	m.OK(m.Th.GetCurrentContext(&c))
	th := m.Runtime.ThreadIn(c)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var n, s core.Handle
			allow(t, CreateNotify(th, &n, 0))
			allow(t, th.CreateStream(&s))
			for range 50 {
				allow(t, WaitAndResetNotify(th, n, s, 0))
				allow(t, RecordNotify(th, n, 0))
			}
			allow(t, th.SynchronizeStreamWithTimeout(0, 10_000))
			allow(t, RecordNotify(th, n, 0)) // some records may have come together
			allow(t, DestroyNotify(th, n))
			allow(t, th.DestroyStreamForce(s))
		})
	}
	m.Within("threads", all.Wait)
}

// taskList is a tracer that keeps tasks.
type taskList struct {
	observe.Tracer // the methods that a program without calls does not need
	mu             sync.Mutex
	tasks          []observe.Task
}

func (l *taskList) Now() int64 { return time.Now().UnixNano() }
func (l *taskList) Submitted(t observe.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks = append(l.tasks, t)
}
func (l *taskList) Ran(int32, uint32, int64, int64, observe.Result) {}
func (l *taskList) Called(observe.Call)                             {}
func (l *taskList) Copied(observe.Call, observe.Task)               {}
func (l *taskList) Function(string) uint16                          { return 1 }
func (l *taskList) Sites() bool                                     { return false }
func (l *taskList) Device(int32, string)                            {}
func (l *taskList) Stream(int32, int32, bool)                       {}
func (l *taskList) Close() error                                    { return nil }

// TestCellObserved: records and waits are tasks of a kind of their own, and name what they have in common.
func TestCellObserved(t *testing.T) {
	prod, err := product.Find("950", "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	l := &taskList{}
	m := &coretest.Machine{T: t, Runtime: core.New(core.Options{Driver: d, Product: prod, Probe: core.Probe{Trace: l}})}
	defer m.Runtime.Close()
	m.Th = m.NewThread(0)
	n, p, s := newNotify(m), word(m), m.Stream(m.Th)
	var count, event core.Handle
	m.OK(CntNotifyCreate(m.Th, &count, 0))
	m.OK(m.Th.CreateEventExWithFlag(&event, abi.EventIpc))
	l.tasks = nil
	m.OK(RecordNotify(m.Th, n, s))
	m.OK(WaitAndResetNotify(m.Th, n, 0, 0))
	m.OK(CntNotifyRecord(m.Th, count, s, &abi.CntNotifyRecordInfo{Value: 1}))
	m.OK(CntNotifyWaitWithTimeout(m.Th, count, 0, &abi.CntNotifyWaitInfo{Mode: abi.CntNotifyWaitEqualMode, Value: 1}))
	m.OK(ValueWrite(m.Th, p, 1, 0, s))
	m.OK(ValueWait(m.Th, p, 1, valueEQ, 0))
	m.OK(m.Th.RecordEvent(event, s))
	m.OK(m.Th.StreamWaitEvent(0, event))
	m.OK(m.Th.SynchronizeDevice())
	want := []struct {
		record, wait observe.Kind
		about        uint64
	}{
		{observe.NotifyRecord, observe.NotifyWait, uint64(n)}, {observe.NotifyRecord, observe.NotifyWait,
			uint64(count)},
		{observe.ValueWrite, observe.ValueWait, uint64(p)}, {observe.Record, observe.Wait, uint64(event)},
	}
	if len(l.tasks) != 2*len(want) {
		t.Fatalf("%d tasks: %+v", len(l.tasks), l.tasks)
	}
	for i, w := range want {
		record, wait := l.tasks[2*i], l.tasks[2*i+1]
		if record.Kind != w.record || wait.Kind != w.wait || record.Event != w.about || wait.Event != w.about ||
			record.Stream == wait.Stream {
			t.Errorf("%v: %+v, %+v", w, record, wait)
		}
	}
	if after := l.tasks[7].After; after != (observe.At{Stream: l.tasks[6].Stream, Number: l.tasks[6].Number}) {
		t.Errorf("the wait for the event is behind %+v", after)
	}
}
