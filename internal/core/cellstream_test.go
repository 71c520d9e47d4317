package core

import (
	"sync"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/driver/soft"
	"ropeway/internal/observe"
	"ropeway/internal/product"
)

// What a stream is like that waits for a cell.

// cellWaits are the waits there are, by name: each holds a stream up until the function it returns is called.
func (m *memTest) cellWaits() map[string]func(s Handle) (open func()) {
	m.Helper()
	return map[string]func(s Handle) func(){
		"notify": func(s Handle) func() {
			n := m.notify()
			m.ok(m.th.WaitAndResetNotify(n, s, 0))
			return func() { m.ok(m.th.RecordNotify(n, 0)) }
		},
		"count": func(s Handle) func() {
			var n Handle
			m.ok(m.th.CntNotifyCreate(&n, 0))
			m.ok(m.th.CntNotifyWaitWithTimeout(n, s, &abi.CntNotifyWaitInfo{Mode: abi.CntNotifyWaitEqualMode, Value: 5}))
			return func() { m.ok(m.th.CntNotifyRecord(n, 0, &abi.CntNotifyRecordInfo{Value: 5})) }
		},
		"value": func(s Handle) func() {
			p := m.word()
			m.ok(m.th.ValueWait(p, 1, valueEQ, s))
			return func() { m.ok(m.th.ValueWrite(p, 1, 0, 0)) }
		},
		"IPC event": func(s Handle) func() {
			var e Handle
			m.ok(m.th.CreateEventExWithFlag(&e, abi.EventIpc))
			n, from := m.notify(), m.stream(m.th)
			m.ok(m.th.WaitAndResetNotify(n, from, 0))
			m.ok(m.th.RecordEvent(e, from))
			m.ok(m.th.StreamWaitEvent(s, e))
			return func() { m.ok(m.th.RecordNotify(n, 0)) }
		},
	}
}

// TestCellHoldsStream: a stream that waits is not ready, and stalled; aborting, stopping and destroying it do not wait for the cell; a failure
// that stops the context ends the wait.
func TestCellHoldsStream(t *testing.T) {
	for name := range newMemTest(t, "950", "").cellWaits() {
		for how, end := range map[string]func(m *memTest, s Handle, open func()){
			"opened": func(m *memTest, s Handle, open func()) {
				var status abi.StreamStatus
				m.ok(m.th.StreamQuery(s, &status))
				if status != abi.StreamStatusNotReady {
					m.Error("the stream is ready")
				}
				for q := m.rt.streams.get(s).queue; !q.Stalled(); {
					time.Sleep(time.Millisecond)
				}
				open()
				m.ok(m.th.SynchronizeStream(s))
				m.ok(m.th.StreamQuery(s, &status))
				if status != abi.StreamStatusComplete {
					m.Error("the stream is not ready")
				}
			},
			"aborted": func(m *memTest, s Handle, open func()) {
				m.ok(m.th.StreamAbort(s))
				m.ok(m.th.SynchronizeStream(s))
			},
			"stopped": func(m *memTest, s Handle, open func()) {
				m.ok(m.th.StreamStop(s))
				m.ok(m.th.SynchronizeStream(s))
			},
			"destroyed": func(m *memTest, s Handle, open func()) { m.ok(m.th.DestroyStreamForce(s)) },
			"reset":     func(m *memTest, s Handle, open func()) { m.ok(m.th.ResetDeviceForce(0)) },
			"aborted with its device": func(m *memTest, s Handle, open func()) {
				m.ok(m.th.DeviceTaskAbort(0, 0))
				m.ok(m.th.SynchronizeStream(s))
			},
			"failed": func(m *memTest, s Handle, open func()) {
				m.ok(m.th.SetStreamFailureMode(s, 1))
				p, other := m.device(64), m.stream(m.th)
				m.ok(m.th.ValueWrite(p+4, 1, 0, other)) // it is not aligned
				m.want(m.th.SynchronizeStream(other), abi.ErrRTSysDma)
				m.want(m.th.SynchronizeStream(s), abi.ErrRTSysDma)
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				m := newMemTest(t, "950", "")
				s := m.stream(m.th)
				open := m.cellWaits()[name](s)
				m.within(how, func() { end(m, s, open) })
			})
		}
	}
}

// TestCellBlocking: under launch blocking records and waits return at once: what lets a wait go may be submitted behind it.
func TestCellBlocking(t *testing.T) {
	prod, err := product.Find("950", "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	m := &memTest{T: t, rt: New(Options{Driver: d, Product: prod, Blocking: true})}
	defer m.rt.Close()
	m.th = m.thread(0)
	for name, wait := range m.cellWaits() {
		s := m.stream(m.th)
		m.within(name, func() {
			open := wait(s)
			open()
			m.ok(m.th.SynchronizeStream(s))
		})
	}
}

// TestCellThreadIn: a thread that is for everybody signals too, from many goroutines.
func TestCellThreadIn(t *testing.T) {
	m := newMemTest(t, "A2", "")
	var c Handle
	m.ok(m.th.GetCurrentContext(&c))
	th := m.rt.ThreadIn(c)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var n, s Handle
			allow(t, th.CreateNotify(&n, 0))
			allow(t, th.CreateStream(&s))
			for range 50 {
				allow(t, th.WaitAndResetNotify(n, s, 0))
				allow(t, th.RecordNotify(n, 0))
			}
			allow(t, th.SynchronizeStreamWithTimeout(0, 10_000))
			allow(t, th.RecordNotify(n, 0)) // some records may have come together
			allow(t, th.DestroyNotify(n))
			allow(t, th.DestroyStreamForce(s))
		})
	}
	m.within("threads", all.Wait)
}

// taskList is an observer that keeps tasks.
type taskList struct {
	observe.Observer // the methods that a program without calls does not need
	mu               sync.Mutex
	tasks            []observe.Task
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
	if err != nil {
		t.Fatal(err)
	}
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l := &taskList{}
	m := &memTest{T: t, rt: New(Options{Driver: d, Product: prod, Observe: l})}
	defer m.rt.Close()
	m.th = m.thread(0)
	n, p, s := m.notify(), m.word(), m.stream(m.th)
	var count, event Handle
	m.ok(m.th.CntNotifyCreate(&count, 0))
	m.ok(m.th.CreateEventExWithFlag(&event, abi.EventIpc))
	l.tasks = nil
	m.ok(m.th.RecordNotify(n, s))
	m.ok(m.th.WaitAndResetNotify(n, 0, 0))
	m.ok(m.th.CntNotifyRecord(count, s, &abi.CntNotifyRecordInfo{Value: 1}))
	m.ok(m.th.CntNotifyWaitWithTimeout(count, 0, &abi.CntNotifyWaitInfo{Mode: abi.CntNotifyWaitEqualMode, Value: 1}))
	m.ok(m.th.ValueWrite(p, 1, 0, s))
	m.ok(m.th.ValueWait(p, 1, valueEQ, 0))
	m.ok(m.th.RecordEvent(event, s))
	m.ok(m.th.StreamWaitEvent(0, event))
	m.ok(m.th.SynchronizeDevice())
	want := []struct {
		record, wait observe.Kind
		about        uint64
	}{
		{observe.NotifyRecord, observe.NotifyWait, uint64(n)}, {observe.NotifyRecord, observe.NotifyWait, uint64(count)},
		{observe.ValueWrite, observe.ValueWait, uint64(p)}, {observe.Record, observe.Wait, uint64(event)},
	}
	if len(l.tasks) != 2*len(want) {
		t.Fatalf("%d tasks: %+v", len(l.tasks), l.tasks)
	}
	for i, w := range want {
		record, wait := l.tasks[2*i], l.tasks[2*i+1]
		if record.Kind != w.record || wait.Kind != w.wait || record.Event != w.about || wait.Event != w.about || record.Stream == wait.Stream {
			t.Errorf("%v: %+v, %+v", w, record, wait)
		}
	}
	if after := l.tasks[7].After; after != (observe.At{Stream: l.tasks[6].Stream, Number: l.tasks[6].Number}) {
		t.Errorf("the wait for the event is behind %+v", after)
	}
}
