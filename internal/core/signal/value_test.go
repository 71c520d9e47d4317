package signal

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

func word(m *coretest.Machine) core.Addr {
	m.Helper()
	p := alloc(m, 8)
	m.OK(transfer.Memset(m.Th, p, 8, 0, 8))
	return p
}

const (
	valueGEQ = iota
	valueEQ
)

// TestValueNobodyWaits: once no stream waits for a word, polling stops.
func TestValueNobodyWaits(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	v, p, s := &signalsOf(m.Runtime).values, word(m), m.Stream(m.Th)
	looking := func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.looking
	}
	if looking() {
		t.Error("words are polled, and nothing waits")
	}
	m.OK(ValueWait(m.Th, p, 1, valueEQ, s))
	m.OK(ValueWait(m.Th, p, 2, valueEQ, m.Stream(m.Th)))
	for !looking() {
		runtime.Gosched()
	}
	m.OK(ValueWrite(m.Th, p, 1, 0, 0))
	m.Within("the first wait", func() { m.OK(m.Th.SynchronizeStream(s)) })
	m.OK(transfer.Memset(m.Th, p, 8, 2, 1)) // a change that is not reported
	m.Within("the second wait", func() { m.OK(m.Th.SynchronizeDevice()) })
	testenv.Eventually(t, "polling stops", func() bool { return !looking() })
	if n := v.waiting.Load(); n != 0 || len(v.waits) != 0 {
		t.Errorf("%d waits are counted, %d words are known", n, len(v.waits))
	}
}

// TestValueMoments: waits see every value that streams of the process write, however short it stays.
func TestValueMoments(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	p, writes := word(m), m.Stream(m.Th)
	const values = 200
	var streams []core.Handle
	for i := range uint64(values) {
		s := m.Stream(m.Th)
		m.OK(ValueWait(m.Th, p, i+1, valueEQ, s))
		streams = append(streams, s)
	}
	for _, s := range streams {
		for q := m.Runtime.Streams.Get(s); !q.Stalled(); { // the wait has come to its turn
			runtime.Gosched()
		}
	}
	for i := range uint64(values) {
		m.OK(ValueWrite(m.Th, p, i+1, 0, writes))
	}
	m.Within("the waits", func() { m.OK(m.Th.SynchronizeDevice()) })
}

// TestValuePassedOn: two streams pass a word back and forth, and no store is made twice: a second one could undo the
// other stream's.
func TestValuePassedOn(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	p, a, b := word(m), m.Stream(m.Th), m.Stream(m.Th)
	const rounds = 20_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		th := m.Runtime.NewThread(2)
		defer th.Close()
		allow(t, th.SetDevice(0))
		for i := range uint64(rounds) {
			allow(t, ValueWait(th, p, 2*i+1, valueEQ, b))
			allow(t, ValueWrite(th, p, 2*i+2, 0, b))
		}
	}()
	m.Within("streams", func() {
		for i := range uint64(rounds) {
			m.OK(ValueWrite(m.Th, p, 2*i+1, 0, a))
			m.OK(ValueWait(m.Th, p, 2*i+2, valueEQ, a))
		}
		<-done
		m.OK(m.Th.SynchronizeStream(a))
		m.OK(m.Th.SynchronizeStream(b))
	})
}

// wordless is a driver without Words.
type wordless struct{ driver.Driver }

func (d wordless) Caps() driver.Caps { return driver.Caps{Base: d} }

// TestValueWithoutWords: a driver that cannot change single words does not have the calls.
func TestValueWithoutWords(t *testing.T) {
	prod, err := product.Find("A2", "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	rt := core.New(core.Options{Driver: wordless{d}, Product: prod})
	defer rt.Close()
	m := &coretest.Machine{T: t, Runtime: rt}
	m.Th = m.NewThread(0)
	p := alloc(m, 8)
	m.Want(ValueWrite(m.Th, p, 1, 0, 0), abi.ErrRTFeatureNotSupport)
	m.Want(ValueWait(m.Th, p, 1, 0, 0), abi.ErrRTFeatureNotSupport)
}

// benchRuntime is a Machine for a benchmark.
func benchRuntime(b *testing.B) (*core.Runtime, *core.Thread) {
	prod, err := product.Find("A2", "")
	testenv.OK(b, err)
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(b, err)
	rt := core.New(core.Options{Driver: d, Product: prod})
	b.Cleanup(func() { rt.Close() })
	th := rt.NewThread(1)
	fine(b, th.SetDevice(0))
	return rt, th
}

func fine(b *testing.B, err *core.Error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// BenchmarkValueWake: two streams pass a word back and forth, a hundred times for one submission; the time is that of
// one wake. wakes/eventfd says how many times that of two threads that do the same with eventfds it is.
func BenchmarkValueWake(b *testing.B) {
	_, th := benchRuntime(b)
	var p core.Addr
	var s [2]core.Handle
	fine(b, memory.Malloc(th, &p, 8, abi.MemMallocHugeFirst))
	fine(b, transfer.Memset(th, p, 8, 0, 8))
	fine(b, th.CreateStream(&s[0]))
	fine(b, th.CreateStream(&s[1]))
	ground := eventfdWake(b)
	var at uint64
	const rounds = 100
	b.ResetTimer()
	for i := 0; i < b.N; i += 2 * rounds {
		b.StopTimer()
		var open core.Handle // holds both until all is queued
		fine(b, th.CreateEventWithFlag(&open, abi.EventSync))
		fine(b, th.StreamWaitEvent(s[0], open))
		for range rounds {
			fine(b, ValueWrite(th, p, at+1, 0, s[0]))
			fine(b, ValueWait(th, p, at+2, valueGEQ, s[0]))
			fine(b, ValueWait(th, p, at+1, valueGEQ, s[1]))
			fine(b, ValueWrite(th, p, at+2, 0, s[1]))
			at += 2
		}
		b.StartTimer()
		fine(b, th.RecordEvent(open, 0))
		fine(b, th.SynchronizeStream(s[0]))
		fine(b, th.SynchronizeStream(s[1]))
		b.StopTimer()
		fine(b, th.DestroyEvent(open))
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/ground, "wakes/eventfd")
}

// eventfdWake is how long one of two threads takes to wake the other by an eventfd, in nanoseconds.
func eventfdWake(b *testing.B) float64 {
	var fds [2]int
	for i := range fds {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			b.Fatal(err)
		}
		defer unix.Close(fd)
		fds[i] = fd
	}
	const rounds = 2000
	one := [8]byte{1}
	done := make(chan struct{})
	pass := func(mine, other int) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var got [8]byte
		for range rounds {
			unix.Read(mine, got[:])   //nolint:errcheck // a measurement
			unix.Write(other, one[:]) //nolint:errcheck // a measurement
		}
	}
	go func() { defer close(done); pass(fds[0], fds[1]) }()
	begin := time.Now()
	unix.Write(fds[0], one[:]) //nolint:errcheck // a measurement
	pass(fds[1], fds[0])
	<-done
	return float64(time.Since(begin).Nanoseconds()) / (2 * rounds)
}
