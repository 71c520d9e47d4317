package model_test

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/model"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

// changeable is a call of a program that becomes one task, and what has become of the task since.
type changeable struct {
	action
	off  bool
	task int // in the model
}

func drawChangeable(t *rapid.T) changeable {
	a := drawCopy(t)
	a.stream = rapid.IntRange(0, 2).Draw(t, "on")
	a.kind = rapid.SampledFrom([]string{"copy", "copy", "copy", "write", "write", "host"}).Draw(t, "what")
	return changeable{action: a}
}

// word is where a write goes.
func (s *side) word(a *action) core.Addr { return s.dev[a.to%2] + core.Addr(a.dst&^7) }

// submit makes the call, or what the task of it was changed into.
func (s *side) submit(t testing.TB, c *changeable, st core.Handle) {
	switch {
	case c.off || c.kind == "wait": // for something that is so
	case c.kind == "write":
		coretest.OK(t, signal.ValueWrite(s.th, s.word(&c.action), uint64(c.value), 0, st))
	case c.kind == "host":
		coretest.OK(t, s.th.LaunchHostFunc(st, func(core.Addr) { s.calls.Add(1) }, 0))
	default:
		to, from := s.at(c.to, c.dst), s.at(c.from, c.src)
		coretest.OK(t, transfer.MemcpyAsync(s.th, to, c.n, from, c.n, abi.MemcpyDefault, st))
	}
}

// captured captures the calls, on three streams, each after the one before.
func (s *side) captured(t testing.TB, list []changeable) (m core.Handle) {
	coretest.OK(t, model.MdlRICaptureBegin(s.th, s.streams[0], relaxed))
	var status abi.MdlRICaptureStatus
	coretest.OK(t, model.MdlRICaptureGetInfo(s.th, s.streams[0], &status, &m))
	last, joined := 0, [3]bool{true}
	for i := range list {
		c := &list[i]
		if c.stream != last || !joined[c.stream] {
			s.hop(t, c.event, last, c.stream)
			joined[c.stream] = true
		}
		last, c.task = c.stream, model.ModelTasks(s.th, m)
		s.submit(t, c, s.streams[c.stream])
	}
	for i := 1; i < 3; i++ {
		if joined[i] {
			s.hop(t, 0, i, 0)
		}
	}
	coretest.OK(t, model.MdlRICaptureEnd(s.th, s.streams[0], &m))
	return m
}

// change changes the task of c, which is what it says then.
func (s *side) change(t testing.TB, m core.Handle, c *changeable) {
	task := model.TaskHandle(s.th, m, c.task)
	params := abi.MdlRITaskParams{Type: abi.ModelRiTaskValueWrite}
	switch {
	case c.kind == "copy":
		coretest.OK(t, model.MdlRIUpdate(s.th, m))
		coretest.OK(t, model.SetModelCopy(s.th, m, c.task, s.at(c.to, c.dst), s.at(c.from, c.src), c.n))
		return
	case c.off:
		coretest.OK(t, model.MdlRITaskDisable(s.th, task))
		return
	case c.kind == "wait":
		params.Type = abi.ModelRiTaskValueWait
		v := params.Union.ValueWaitTaskParams()
		v.DevAddr, v.Flag = s.word(&c.action), 3 // until a bit is 0: no eight bytes here are all ones
	default:
		v := params.Union.ValueWriteTaskParams()
		v.DevAddr, v.Value = s.word(&c.action), uint64(c.value)
	}
	coretest.OK(t, model.MdlRITaskSetParams(s.th, task, &params))
}

// TestModelRecompileRandom changes, disables and enables tasks of random models, one or a few at a time, and compares
// every byte with a model of which everything is compiled after each change, and with the calls themselves.
func TestModelRecompileRandom(t *testing.T) {
	_, th := coretest.NewProcess(t, 256<<20)
	direct, part, whole := newSide(t, th), newSide(t, th), newSide(t, th)
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(drawChangeable), 1, 40).Draw(rt, "calls")
		if rapid.Bool().Draw(rt, "one program") {
			for i := range list {
				if list[i].kind == "host" {
					list[i].kind = "copy"
				}
			}
		}
		sides := []*side{direct, part, whole}
		for _, s := range sides {
			s.begin(t)
			s.calls.Store(0)
		}
		a, b := part.captured(t, list), whole.captured(t, list)
		for round := range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 4).Draw(rt, "changes") {
				c := &list[rapid.IntRange(0, len(list)-1).Draw(rt, "which")]
				if c.kind == "host" {
					continue
				}
				fresh := drawChangeable(rt)
				fresh.task, fresh.stream = c.task, c.stream
				if fresh.kind = c.kind; c.kind != "copy" {
					fresh.kind = rapid.SampledFrom([]string{"write", "write", "wait"}).Draw(rt, "into")
					fresh.off = rapid.IntRange(0, 3).Draw(rt, "off") == 0
					if fresh.off {
						fresh.kind = c.kind
					}
				}
				*c = fresh
				part.change(t, a, c)
				whole.change(t, b, c)
			}
			coretest.OK(t, model.MdlRIUpdate(th, a))
			coretest.OK(t, model.MdlRIUpdate(th, b))
			model.CompileWhole(th, b)
			for i := range list {
				direct.submit(t, &list[i], direct.streams[0])
			}
			coretest.OK(t, model.MdlRIExecuteAsync(th, a, part.streams[0]))
			coretest.OK(t, model.MdlRIExecuteAsync(th, b, whole.streams[0]))
			coretest.OK(t, th.SynchronizeDevice())
			want := direct.contents(t)
			if !bytes.Equal(want, whole.contents(t)) {
				rt.Fatalf("round %d: the model of which all was compiled differs from the calls", round)
			}
			if !bytes.Equal(want, part.contents(t)) {
				rt.Fatalf("round %d: the model of which changes were compiled differs from the calls", round)
			}
			if direct.calls.Load() != part.calls.Load() || direct.calls.Load() != whole.calls.Load() {
				rt.Fatalf("round %d: %d functions, %d and %d in models", round, direct.calls.Load(), part.calls.Load(),
					whole.calls.Load())
			}
		}
		coretest.OK(t, model.MdlRIDestroy(th, a))
		coretest.OK(t, model.MdlRIDestroy(th, b))
	})
}

// valueModel captures n copies, and a value write in the middle; with a function, too, it has lanes.
func valueModel(t testing.TB, s *side, n int, function bool) (m core.Handle, value int) {
	coretest.OK(t, model.MdlRICaptureBegin(s.th, s.streams[0], relaxed))
	for i := range n {
		switch at := core.Addr(i * 32 % 4000); {
		case i == n/2:
			coretest.OK(t, signal.ValueWrite(s.th, s.dev[1], 1, 0, s.streams[0]))
		case i == n/3 && function:
			coretest.OK(t, s.th.LaunchHostFunc(s.streams[0], func(core.Addr) { s.calls.Add(1) }, 0))
		default:
			to, from := s.dev[0]+at, s.host[0]+at
			coretest.OK(t, transfer.MemcpyAsync(s.th, to, 32, from, 32, abi.MemcpyDefault, s.streams[0]))
		}
	}
	coretest.OK(t, model.MdlRICaptureEnd(s.th, s.streams[0], &m))
	return m, n / 2
}

// TestModelRecompileIsPartial: a change of parameters, and disabling a task, leave the rest of a model as it is
// compiled.
func TestModelRecompileIsPartial(t *testing.T) {
	_, th := coretest.NewProcess(t, 64<<20)
	s := newSide(t, th)
	for _, function := range []bool{false, true} {
		m, value := valueModel(t, s, 500, function)
		was := model.Compiled(th, m)
		for _, c := range []changeable{
			{action: action{kind: "write", to: 1, value: 7}, task: value},
			{action: action{kind: "write", to: 1, value: 9}, task: value},
			{off: true, task: value},
			{action: action{kind: "write", to: 1, value: 11}, task: value},
			{action: action{kind: "copy", to: 1, from: 2, dst: 100, n: 50}, task: 3},
		} {
			s.change(t, m, &c)
			coretest.OK(t, model.MdlRIUpdate(th, m))
			if model.Compiled(th, m) != was {
				t.Errorf("function %v, %+v: all of the model was compiled", function, c)
			}
		}
		// With a wait the model needs its streams, which it has if there is a function.
		s.change(t, m, &changeable{action: action{kind: "wait", to: 1}, task: value})
		coretest.OK(t, model.MdlRIUpdate(th, m))
		if whole := model.Compiled(th, m) != was; whole == function {
			t.Errorf("function %v, a wait: all was compiled: %v", function, whole)
		}
		coretest.OK(t, model.MdlRIExecuteAsync(th, m, s.streams[0]))
		coretest.OK(t, th.SynchronizeDevice())
		coretest.OK(t, model.MdlRIDestroy(th, m))
	}
}

// TestModelChangeBesideExecutions proves that a change in one thread and an execution in another exclude each other: an
// execution is never refused and copies what one of the changes says, and a change is made or refused.
func TestModelChangeBesideExecutions(t *testing.T) {
	rt, th := coretest.NewProcess(t, 64<<20)
	s := newSide(t, th)
	for _, function := range []bool{false, true} {
		m, _ := valueModel(t, s, 50, function)
		var changed, refused int
		var over atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			other := rt.NewThread(1)
			for !over.Load() || changed == 0 {
				from := s.host[changed%2]
				switch err := model.SetModelCopy(other, m, 0, s.dev[0], from, 32); {
				case err == nil:
					changed++
				case err.Code == abi.ErrRTModelUpdateFailed:
					refused++
				default:
					t.Error(err)
				}
			}
		})
		for range 300 {
			coretest.OK(t, model.MdlRIExecuteAsync(th, m, s.streams[0]))
			coretest.OK(t, th.SynchronizeStream(s.streams[0]))
			got := make([]byte, 32)
			coretest.OK(t, transfer.Memcpy(th, core.AddrOf(got), 32, s.dev[0], 32, abi.MemcpyDeviceToHost))
			if !bytes.Equal(got, coretest.Bytes(s.host[0], 32)) && !bytes.Equal(got, coretest.Bytes(s.host[1], 32)) {
				t.Fatalf("function %v: half of a change: %x", function, got)
			}
		}
		over.Store(true)
		wg.Wait()
		t.Logf("function %v: %d changes were made and %d refused", function, changed, refused)
		coretest.OK(t, model.MdlRIDestroy(th, m))
	}
}

// BenchmarkModelUpdate changes one task of a model and calls aclmdlRIUpdate, against compiling all of it.
func BenchmarkModelUpdate(b *testing.B) {
	_, th := coretest.NewProcess(b, 64<<20)
	s := newSide(b, th)
	for _, n := range []int{4096, 100_000} {
		for _, what := range []string{"value", "copy", "whole"} {
			b.Run(fmt.Sprintf("%s-%d", what, n), func(b *testing.B) {
				m, value := valueModel(b, s, n, false)
				c := changeable{action: action{kind: "write", to: 1}, task: value}
				if what == "copy" {
					c = changeable{action: action{kind: "copy", to: 1, from: 2, n: 32}, task: 3}
				}
				for b.Loop() {
					c.value++
					c.src = uint64(c.value) % 4000
					s.change(b, m, &c)
					if what == "whole" {
						model.CompileWhole(th, m)
					}
					coretest.OK(b, model.MdlRIUpdate(th, m))
				}
				coretest.OK(b, model.MdlRIDestroy(th, m))
			})
		}
	}
}

// TestModelDisabledRecord: what waits for a record of a model does not wait for ever if that is disabled.
func TestModelDisabledRecord(t *testing.T) {
	_, th := coretest.NewProcess(t, 64<<20)
	s := newSide(t, th)
	coretest.OK(t, model.MdlRICaptureBegin(th, s.streams[0], relaxed))
	s.hop(t, 0, 0, 1)
	coretest.OK(t, th.LaunchHostFunc(s.streams[1], func(core.Addr) { s.calls.Add(1) }, 0))
	s.hop(t, 1, 1, 0)
	var m core.Handle
	coretest.OK(t, model.MdlRICaptureEnd(th, s.streams[0], &m))
	coretest.OK(t, model.MdlRITaskDisable(th, model.TaskHandle(th, m, 0)))
	coretest.OK(t, model.MdlRIUpdate(th, m))
	coretest.OK(t, model.MdlRIExecuteAsync(th, m, s.streams[0]))
	coretest.OK(t, th.SynchronizeStreamWithTimeout(s.streams[0], 20_000))
	if s.calls.Load() != 1 {
		t.Errorf("the function was called %d times", s.calls.Load())
	}
	coretest.OK(t, model.MdlRIDestroy(th, m))
}
