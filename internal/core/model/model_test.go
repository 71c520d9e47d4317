package model_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
	"ropeway/internal/testenv"
	_ "ropeway/internal/testenv/seeded"
)

const (
	relaxed = abi.ModelRiCaptureModeRelaxed
	sideLen = 4096
)

// side is memory that a random program works on, with the streams, events and notifies that it uses.
type side struct {
	th      *core.Thread
	dev     [2]core.Addr
	host    [2]core.Addr
	streams [3]core.Handle
	events  [4]core.Handle
	notify  core.Handle
	calls   atomic.Int64
	mix     core.Handle // the kernel; 0: what it does is done by the test itself
}

func newSide(t testing.TB, th *core.Thread) *side {
	s := &side{th: th}
	for i := range s.dev {
		coretest.OK(t, memory.Malloc(th, &s.dev[i], sideLen, abi.MemMallocHugeFirst))
		coretest.OK(t, memory.MallocHost(th, &s.host[i], sideLen))
	}
	s.begin(t)
	for i := range s.streams {
		coretest.OK(t, th.CreateStream(&s.streams[i]))
	}
	for i := range s.events {
		coretest.OK(t, th.CreateEventExWithFlag(&s.events[i], abi.EventSync))
	}
	coretest.OK(t, signal.CreateNotify(th, &s.notify, 0))
	return s
}

// action is one call of a random program.
type action struct {
	kind       string
	stream     int
	event      int
	to, from   int // which memory: 0 and 1 device, 2 and 3 host
	dst, src   uint64
	n          uint64
	value      int32
	pitch, row uint64
}

func drawAction(t *rapid.T) action {
	kinds := []string{
		"copy",
		"copy",
		"copy",
		"copy",
		"fill",
		"2d",
		"batch",
		"event",
		"host",
		"notify",
		"reduce",
		"value",
	}
	a := action{
		kind:   rapid.SampledFrom(kinds).Draw(t, "kind"),
		stream: rapid.IntRange(0, 2).Draw(t, "stream"),
		event:  rapid.IntRange(0, 3).Draw(t, "event"),
	}
	a.to, a.from = rapid.IntRange(0, 3).Draw(t, "to"), rapid.IntRange(0, 3).Draw(t, "from")
	if a.to > 1 && a.from > 1 {
		a.from -= 2
	}
	a.n = uint64(rapid.IntRange(1, 300).Draw(t, "n"))
	a.dst, a.src = uint64(rapid.IntRange(0, 3000).Draw(t, "dst")), uint64(rapid.IntRange(0, 3000).Draw(t, "src"))
	a.value = int32(rapid.IntRange(0, 255).Draw(t, "value"))
	a.row, a.pitch = uint64(rapid.IntRange(1, 20).Draw(t, "row")), uint64(rapid.IntRange(20, 40).Draw(t, "pitch"))
	if a.kind == "2d" && a.to == a.from && max(a.dst, a.src)-min(a.dst, a.src) < 9*(a.pitch+3) {
		a.kind = "copy" // what rows that overlap leave depends on the device
	}
	return a
}

func (s *side) at(which int, off uint64) core.Addr {
	if which < 2 {
		return s.dev[which] + core.Addr(off)
	}
	return s.host[which-2] + core.Addr(off)
}

// do makes the call. Streams go on in a fixed order, because each action waits for the one before it on another stream.
func (s *side) do(t testing.TB, a *action) {
	st := s.streams[a.stream]
	switch a.kind {
	case "copy":
		coretest.OK(
			t,
			transfer.MemcpyAsync(s.th, s.at(a.to, a.dst), a.n, s.at(a.from, a.src), a.n, abi.MemcpyDefault, st),
		)
	case "fill":
		coretest.OK(t, transfer.MemsetAsync(s.th, s.at(a.to%2, a.dst), a.n, a.value, a.n, st))
	case "2d":
		coretest.OK(
			t,
			transfer.Memcpy2dAsync(s.th, s.at(a.to, a.dst), a.pitch, s.at(a.from, a.src), a.pitch+3, a.row, 1+a.n%9,
				abi.MemcpyDefault, st),
		)
	case "reduce":
		coretest.OK(
			t,
			transfer.ReduceAsync(s.th, s.at(a.to%2, a.dst&^3), s.at(a.from%2, a.src&^3), 4*(1+a.n/4),
				abi.MemcpySdmaAutomaticSum, abi.DataTypeInt32, st, 0),
		)
	case "kernel":
		s.mixes(t, a, st)
	case "host":
		coretest.OK(t, s.th.LaunchHostFunc(st, func(core.Addr) { s.calls.Add(1) }, 0))
	case "notify":
		coretest.OK(t, signal.RecordNotify(s.th, s.notify, st))
		coretest.OK(t, signal.WaitAndResetNotify(s.th, s.notify, st, 0))
	case "value":
		coretest.OK(t, signal.ValueWrite(s.th, s.dev[a.to%2]+core.Addr(a.dst&^7), uint64(a.value), 0, st))
		coretest.OK(t, signal.ValueWait(s.th, s.dev[a.to%2]+core.Addr(a.dst&^7), uint64(a.value), 1, st))
	}
}

// hop makes stream b wait for what is on stream a.
func (s *side) hop(t testing.TB, event, a, b int) {
	coretest.OK(t, s.th.RecordEvent(s.events[event], s.streams[a]))
	coretest.OK(t, s.th.StreamWaitEvent(s.streams[b], s.events[event]))
}

// program makes the calls: all streams begin after the first, each action comes after the one before it, and the first
// stream ends last.
func (s *side) program(t testing.TB, list []action) {
	last := 0
	joined := [3]bool{true}
	for i := range list {
		a := &list[i]
		if a.stream != last || !joined[a.stream] {
			s.hop(t, a.event, last, a.stream)
			joined[a.stream] = true
		}
		last = a.stream
		s.do(t, a)
	}
	for i := 1; i < 3; i++ {
		if joined[i] {
			s.hop(t, 0, i, 0)
		}
	}
}

func (s *side) contents(t testing.TB) []byte {
	var all []byte
	b := make([]byte, sideLen)
	for i := range s.dev {
		coretest.OK(t, transfer.Memcpy(s.th, core.AddrOf(b), sideLen, s.dev[i], sideLen, abi.MemcpyDeviceToHost))
		all = append(append(all, b...), coretest.Bytes(s.host[i], sideLen)...)
	}
	return all
}

// TestModelRandom captures random programs, runs them, and compares every byte with the same calls made directly.
func TestModelRandom(t *testing.T) {
	_, th := coretest.NewProcess(t, 256<<20)
	randomModels(t, th, 0)
}

// randomModels is TestModelRandom. Some of the actions are launches of mix, if that is not 0.
func randomModels(t *testing.T, th *core.Thread, mix core.Handle) {
	one, other := newSide(t, th), newSide(t, th)
	other.mix = mix
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(drawAction), 0, 30).Draw(rt, "actions")
		if mix != 0 {
			someKernels(list)
		}
		if rapid.Bool().Draw(rt, "plain") { // without what waits or calls the program
			for i := range list {
				if k := &list[i].kind; *k == "host" || *k == "notify" || *k == "value" {
					*k = "copy"
				}
			}
		}
		coretest.OK(t, model.MdlRICaptureBegin(th, other.streams[0], relaxed))
		other.program(t, list)
		var m core.Handle
		coretest.OK(t, model.MdlRICaptureEnd(th, other.streams[0], &m))
		if !bytes.Equal(one.contents(t), other.contents(t)) {
			rt.Fatal("the capture has changed something")
		}
		for round := range rapid.IntRange(1, 3).Draw(rt, "runs") {
			one.program(t, list)
			coretest.OK(t, th.SynchronizeStream(one.streams[0]))
			coretest.OK(t, model.MdlRIExecuteAsync(th, m, other.streams[rapid.IntRange(0, 2).Draw(rt, "on")]))
			coretest.OK(t, th.SynchronizeDevice())
			a, b := one.contents(t), other.contents(t)
			for i := range a {
				if a[i] != b[i] {
					rt.Fatalf("run %d: byte %d is %d, and %d after the calls themselves", round, i, b[i], a[i])
				}
			}
			if one.calls.Load() != other.calls.Load() {
				rt.Fatalf("run %d: %d functions were called, and %d by the calls themselves", round,
					other.calls.Load(), one.calls.Load())
			}
		}
		coretest.OK(t, model.MdlRIDestroy(th, m))
	})
}

// TestModelMany runs one model on several streams at a time, and destroys models right after they were launched.
func TestModelMany(t *testing.T) {
	rt, th := coretest.NewProcess(t, 256<<20)
	s := newSide(t, th)
	list := []action{
		{kind: "copy", to: 0, from: 2, n: 64},
		{kind: "host"},
		{kind: "copy", stream: 1, to: 3, from: 0, n: 64},
	}
	done := make(chan struct{})
	for i := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			own := rt.NewThread(uint32(10 + i))
			coretest.OK(t, own.SetDevice(0))
			mine := newSide(t, own)
			for range 20 {
				coretest.OK(t, model.MdlRICaptureBegin(own, mine.streams[0], relaxed))
				mine.program(t, list)
				var m core.Handle
				coretest.OK(t, model.MdlRICaptureEnd(own, mine.streams[0], &m))
				for j := range 6 {
					coretest.OK(t, model.MdlRIExecuteAsync(own, m, mine.streams[j%3]))
				}
				coretest.OK(t, model.MdlRIDestroy(own, m))
			}
			if mine.calls.Load() != 120 {
				t.Errorf("%d functions were called, want 120", mine.calls.Load())
			}
		}()
	}
	for range 4 {
		<-done
	}
	_ = s
}

// TestModelAllocs: executing a model allocates nothing.
func TestModelAllocs(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector makes sync.Pool allocate")
	}
	_, th := coretest.NewProcess(t, 256<<20)
	s := newSide(t, th)
	coretest.OK(t, model.MdlRICaptureBegin(th, s.streams[0], relaxed))
	for i := range uint64(60) {
		coretest.OK(
			t,
			transfer.MemcpyAsync(th, s.dev[0]+core.Addr(i*64), 64, s.host[0]+core.Addr(i*64), 64,
				abi.MemcpyHostToDevice, s.streams[0]),
		)
	}
	var m core.Handle
	coretest.OK(t, model.MdlRICaptureEnd(th, s.streams[0], &m))
	run := func() { coretest.OK(t, model.MdlRIExecuteAsync(th, m, s.streams[0])) }
	if got := testing.AllocsPerRun(100, run); got != 0 {
		t.Errorf("an execution allocates %v times", got)
	}
	coretest.OK(t, th.SynchronizeStream(s.streams[0]))
}

// TestModelMemoryGone: memory that was freed since the capture is named when the model is executed, and nothing runs.
func TestModelMemoryGone(t *testing.T) {
	_, th := coretest.NewProcess(t, 256<<20)
	s := newSide(t, th)
	var gone core.Addr
	coretest.OK(t, memory.Malloc(th, &gone, 4096, abi.MemMallocHugeFirst))
	coretest.OK(t, model.MdlRICaptureBegin(th, s.streams[0], relaxed))
	coretest.OK(t, transfer.MemcpyAsync(th, s.dev[0], 64, s.host[0], 64, abi.MemcpyHostToDevice, s.streams[0]))
	coretest.OK(t, transfer.MemcpyAsync(th, gone, 64, s.host[0], 64, abi.MemcpyHostToDevice, s.streams[0]))
	var m core.Handle
	coretest.OK(t, model.MdlRICaptureEnd(th, s.streams[0], &m))
	coretest.OK(t, model.MdlRIExecuteAsync(th, m, s.streams[0]))
	coretest.OK(t, th.SynchronizeStream(s.streams[0]))
	coretest.OK(t, memory.Free(th, gone))
	err := model.MdlRIExecuteAsync(th, m, s.streams[0])
	if err == nil || err.Code != abi.ErrRTParamInvalid || err.Value != gone {
		t.Fatalf("%v, want 107000 that names %#x", err, gone)
	}
	coretest.OK(t, model.MdlRIDestroy(th, m))
}

func BenchmarkModel(b *testing.B) {
	for _, n := range []uint64{64, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, th := coretest.NewProcess(b, 256<<20)
			const count = 4096
			var host, dev core.Addr
			coretest.OK(b, memory.MallocHost(th, &host, count*n))
			coretest.OK(b, memory.Malloc(th, &dev, count*n, abi.MemMallocHugeFirst))
			var s, m core.Handle
			coretest.OK(b, th.CreateStream(&s))
			coretest.OK(b, model.MdlRICaptureBegin(th, s, relaxed))
			for i := range uint64(count) {
				coretest.OK(
					b,
					transfer.MemcpyAsync(th, dev+core.Addr(i*n), n, host+core.Addr((i*2654435761)%count*n), n,
						abi.MemcpyHostToDevice, s),
				)
			}
			coretest.OK(b, model.MdlRICaptureEnd(th, s, &m))
			for b.Loop() {
				coretest.OK(b, model.MdlRIExecuteAsync(th, m, s))
				coretest.OK(b, th.SynchronizeStream(s))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/copy")
		})
	}
}

// TestModelStops: an execution that waits is ended by the abort of its stream, by a failure of another lane, and when
// its context goes.
func TestModelStops(t *testing.T) {
	rt, th := coretest.NewProcess(t, 256<<20)
	s := newSide(t, th)
	capture := func(f func(on core.Handle)) (m core.Handle) {
		coretest.OK(t, model.MdlRICaptureBegin(th, s.streams[0], relaxed))
		f(s.streams[0])
		coretest.OK(t, model.MdlRICaptureEnd(th, s.streams[0], &m))
		return m
	}
	waits := capture(func(on core.Handle) { coretest.OK(t, signal.WaitAndResetNotify(th, s.notify, on, 0)) })
	coretest.OK(t, model.MdlRIExecuteAsync(th, waits, s.streams[1]))
	coretest.OK(t, th.StreamAbort(s.streams[1]))
	coretest.OK(t, th.SynchronizeStream(s.streams[1]))
	coretest.OK(t, signal.RecordNotify(th, s.notify, s.streams[2])) // the wait that was dropped has taken nothing
	coretest.OK(t, model.MdlRIExecuteAsync(th, waits, s.streams[1]))
	coretest.OK(t, th.SynchronizeStream(s.streams[1]))

	// One lane waits for ever, another one fails when it gets to memory that has gone meanwhile.
	var gone core.Addr
	coretest.OK(t, memory.Malloc(th, &gone, 4096, abi.MemMallocHugeFirst))
	free := func(core.Addr) { coretest.OK(t, memory.Free(rt.NewThread(9), gone)) }
	fails := capture(func(on core.Handle) {
		s.hop(t, 0, 0, 1)
		coretest.OK(t, signal.WaitAndResetNotify(th, s.notify, s.streams[1], 0))
		coretest.OK(t, th.LaunchHostFunc(on, free, 0))
		coretest.OK(t, transfer.MemsetAsync(th, gone, 64, 1, 64, on))
		s.hop(t, 1, 1, 0)
	})
	coretest.OK(t, model.MdlRIExecuteAsync(th, fails, s.streams[2]))
	if err := th.SynchronizeStream(s.streams[2]); err == nil || err.Code != abi.ErrRTSysDma {
		t.Errorf("%v, want the code of a memory fault", err)
	}

	coretest.OK(t, model.MdlRIExecuteAsync(th, waits, s.streams[1]))
	other := rt.NewThread(11)
	var c core.Handle
	coretest.OK(t, other.CreateContext(&c, 0))
	mine := newSide(t, other)
	coretest.OK(t, model.MdlRICaptureBegin(other, mine.streams[0], relaxed))
	coretest.OK(t, signal.WaitAndResetNotify(other, mine.notify, mine.streams[0], 0))
	var m core.Handle
	coretest.OK(t, model.MdlRICaptureEnd(other, mine.streams[0], &m))
	coretest.OK(t, model.MdlRIExecuteAsync(other, m, mine.streams[1]))
	coretest.OK(
		t,
		model.MdlRICaptureBegin(other, mine.streams[0], abi.ModelRiCaptureModeGlobal),
	) // and a capture is open
	coretest.OK(t, other.DestroyContext(c))
	if err := model.MdlRIDestroy(other, m); err == nil || err.Code != abi.ErrRTInvalidHandle {
		t.Errorf("%v, want 107017: the model went with its context", err)
	}
	coretest.OK(t, th.StreamAbort(s.streams[1]))
}
