package model_test

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// node is a step of a random program with control flow: a call, or a branch or a loop over lists of steps.
type node struct {
	kind  string // "call", "if", "while", "switch"
	call  action
	value uint64 // rounds of a loop, index of a switch
	kids  [][]node
}

func drawNodes(depth int) *rapid.Generator[[]node] {
	return rapid.Custom(func(t *rapid.T) (list []node) {
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			n := node{kind: "call", call: drawAction(t), value: uint64(rapid.IntRange(0, 3).Draw(t, "value"))}
			if depth > 0 {
				n.kind = rapid.SampledFrom([]string{"call", "call", "if", "while", "switch"}).Draw(t, "step")
			}
			kids := map[string]int{"if": 2, "while": 1, "switch": 3}[n.kind]
			if n.kind == "if" && n.value == 0 {
				kids = 1
			}
			for range kids {
				n.kids = append(n.kids, drawNodes(depth-1).Draw(t, "branch"))
			}
			list = append(list, n)
		}
		return list
	})
}

// stage is a side with what control flow needs.
type stage struct {
	*side
	tb    testing.TB
	minus core.Addr // a word that is -1
	extra []core.Handle
}

func newStage(t testing.TB, th *core.Thread) *stage {
	g := &stage{side: newSide(t, th), tb: t}
	coretest.OK(t, memory.Malloc(th, &g.minus, 64, abi.MemMallocHugeFirst))
	coretest.OK(t, transfer.MemsetD32(th, g.minus, 64, 0xFFFFFFFF, 1))
	for range 4 {
		var s core.Handle
		coretest.OK(t, th.CreateStream(&s))
		g.extra = append(g.extra, s)
	}
	return g
}

// on makes a call on a stream.
func (g *stage) on(s core.Handle, a action) {
	own := g.streams[0]
	g.streams[0], a.stream = s, 0
	g.do(g.tb, &a)
	g.streams[0] = own
}

// tested is where the byte lies that an "if" looks at.
func (g *stage) tested(n *node) core.Addr { return g.dev[n.call.to%2] + core.Addr(n.call.dst) }

// direct makes the calls themselves; the host decides.
func (g *stage) direct(list []node) {
	s := g.streams[0]
	for i := range list {
		switch n := &list[i]; n.kind {
		case "call":
			g.on(s, n.call)
		case "if":
			coretest.OK(g.tb, g.th.SynchronizeStream(s))
			var b [1]byte
			coretest.OK(g.tb, transfer.Memcpy(g.th, core.AddrOf(b[:]), 1, g.tested(n), 1, abi.MemcpyDeviceToHost))
			if b[0] != 0 {
				g.direct(n.kids[0])
			} else if len(n.kids) > 1 {
				g.direct(n.kids[1])
			}
		case "while":
			for range n.value {
				g.direct(n.kids[0])
			}
		case "switch":
			if n.value < uint64(len(n.kids)) {
				g.direct(n.kids[n.value])
			}
		}
	}
}

var condTypes = map[string]abi.MdlRICondTaskType{"if": abi.ModelRiCondTypeIf, "while": abi.ModelRiCondTypeWhile,
	"switch": abi.ModelRiCondTypeSwitch}

// capture captures the calls on stream depth into m, with condition tasks.
func (g *stage) capture(m core.Handle, list []node, depth int) {
	s := g.extra[depth]
	for i := range list {
		n := &list[i]
		if n.kind == "call" {
			g.on(s, n.call)
			continue
		}
		c, value := newCondition(g.tb, g.th, m, 0, 0)
		switch n.kind {
		case "if":
			coretest.OK(g.tb, transfer.MemsetAsync(g.th, value, 8, 0, 8, s))
			coretest.OK(g.tb, transfer.MemcpyAsync(g.th, value, 1, g.tested(n), 1, abi.MemcpyDeviceToDevice, s))
		default:
			coretest.OK(g.tb, signal.ValueWrite(g.th, value, n.value, 0, s))
		}
		for i, sub := range addBranches(g.tb, g.th, c, s, condTypes[n.kind], len(n.kids)) {
			coretest.OK(g.tb, model.MdlRICaptureToModelRIBegin(g.th, g.extra[depth+1], sub, relaxed))
			g.capture(sub, n.kids[i], depth+1)
			if n.kind == "while" {
				g.decrement(value, g.extra[depth+1])
			}
			coretest.OK(g.tb, model.MdlRICaptureEnd(g.th, g.extra[depth+1], nil))
		}
	}
}

// decrement subtracts 1 from a word.
func (g *stage) decrement(p core.Addr, s core.Handle) {
	coretest.OK(g.tb, transfer.ReduceAsync(g.th, p, g.minus, 4, abi.MemcpySdmaAutomaticSum, abi.DataTypeInt32, s, 0))
}

func newCondition(t testing.TB, th *core.Thread, m core.Handle, value uint32,
	flag abi.MdlRICondHandleFlag) (c core.Handle, p core.Addr) {
	coretest.OK(t, model.MdlRICondHandleCreate(th, m, value, flag, &c))
	coretest.OK(t, model.MdlRICondHandleGetCondPtr(th, c, &p))
	return c, p
}

func addBranches(t testing.TB, th *core.Thread, c, s core.Handle, typ abi.MdlRICondTaskType, n int) []core.Handle {
	list := make([]core.Handle, n)
	coretest.OK(t, model.MdlRIAddCondTask(th, &abi.MdlRICondTaskParams{Handle: uintptr(c), Type: typ, Size: uint32(n),
		ModelRIArray: uintptr(unsafe.Pointer(&list[0]))}, s, 0))
	return list
}

// compare runs a model and the calls themselves, and compares every byte.
func (g *stage) compare(rt *rapid.T, other *stage, m core.Handle, list []node) {
	for round := range rapid.IntRange(1, 3).Draw(rt, "runs") {
		g.direct(list)
		coretest.OK(g.tb, g.th.SynchronizeStream(g.streams[0]))
		coretest.OK(g.tb, model.MdlRIExecuteAsync(g.th, m, other.streams[1]))
		coretest.OK(g.tb, g.th.SynchronizeStream(other.streams[1]))
		a, b := g.contents(g.tb), other.contents(g.tb)
		for i := range a {
			if a[i] != b[i] {
				rt.Fatalf("run %d: byte %d is %d, and %d after the calls themselves", round, i, b[i], a[i])
			}
		}
		if g.calls.Load() != other.calls.Load() {
			rt.Fatalf("run %d: %d functions were called, and %d by the calls themselves", round, other.calls.Load(),
				g.calls.Load())
		}
	}
}

// TestConditionsRandom captures random programs with branches and loops, runs them, and compares every byte with the
// same calls made directly.
func TestConditionsRandom(t *testing.T) {
	_, th := coretest.NewProcess(t, 256<<20)
	randomConditions(t, th, 0)
}

// randomConditions is TestConditionsRandom. Some of the calls are launches of mix, if that is not 0.
func randomConditions(t *testing.T, th *core.Thread, mix core.Handle) {
	one, other := newStage(t, th), newStage(t, th)
	other.mix = mix
	rapid.Check(t, func(rt *rapid.T) {
		list := drawNodes(2).Draw(rt, "program")
		if mix != 0 {
			someKernelsOf(list)
		}
		coretest.OK(t, model.MdlRICaptureBegin(th, other.extra[0], relaxed))
		var m core.Handle
		coretest.OK(t, model.MdlRICaptureGetInfo(th, other.extra[0], nil, &m))
		other.capture(m, list, 0)
		coretest.OK(t, model.MdlRICaptureEnd(th, other.extra[0], &m))
		one.compare(rt, other, m, list)
		coretest.OK(t, model.MdlRIDestroy(th, m))
	})
}

// endless is a model with a loop that does not end. It calls a function before.
func endless(t testing.TB, th *core.Thread, begins func(core.Addr), body func(s core.Handle)) core.Handle {
	var m, s, in core.Handle
	coretest.OK(t, th.CreateStream(&s))
	coretest.OK(t, th.CreateStream(&in))
	coretest.OK(t, model.MdlRICaptureBegin(th, s, relaxed))
	coretest.OK(t, model.MdlRICaptureGetInfo(th, s, nil, &m))
	coretest.OK(t, th.LaunchHostFunc(s, begins, 0))
	c, _ := newCondition(t, th, m, 1, abi.ModelRiCondHandleAssignDefault)
	sub := addBranches(t, th, c, s, abi.ModelRiCondTypeWhile, 1)[0]
	coretest.OK(t, model.MdlRICaptureToModelRIBegin(th, in, sub, relaxed))
	body(in)
	coretest.OK(t, model.MdlRICaptureEnd(th, in, nil))
	coretest.OK(t, model.MdlRICaptureEnd(th, s, &m))
	return m
}

// TestEndlessLoop: a loop that does not end is not waited for longer than asked, and ends by an abort of the model or
// of the stream. The model can be destroyed and run again.
func TestEndlessLoop(t *testing.T) {
	k := coretest.NewMachine(t, "", "")
	th := k.Th
	sd := newSide(t, th)
	rounds, began := make(chan struct{}, 1), make(chan struct{}, 1)
	bodies := map[string]func(s core.Handle){
		"empty": func(core.Handle) {},
		"copies": func(s core.Handle) {
			coretest.OK(t, transfer.MemcpyAsync(th, sd.dev[0], 64, sd.host[0], 64, abi.MemcpyHostToDevice, s))
		},
		"functions": func(s core.Handle) {
			coretest.OK(t, th.LaunchHostFunc(s, func(core.Addr) {
				select {
				case rounds <- struct{}{}:
				default:
				}
			}, 0))
		},
	}
	for name, body := range bodies {
		m := endless(t, th, func(core.Addr) { began <- struct{}{} }, body)
		s := k.Stream(th)
		for range 2 {
			coretest.OK(t, model.MdlRIExecuteAsync(th, m, s))
			if name == "functions" {
				for range 3 {
					<-rounds
				}
			}
			k.Want(th.SynchronizeStreamWithTimeout(s, 10), abi.ErrRTStreamSyncTimeout)
			<-began
			k.Within(name, func() {
				coretest.OK(t, model.MdlRIAbort(th, m))
				k.Want(th.SynchronizeStream(s), abi.ErrRTModelAbortNormal)
			})
		}
		coretest.OK(t, model.MdlRIExecuteAsync(th, m, s))
		<-began
		k.Within(name, func() {
			coretest.OK(t, th.DestroyStreamForce(s))
			coretest.OK(t, model.MdlRIDestroy(th, m))
		})
	}
}

// TestConditionFails: a task of a sub-model that fails ends the execution, and the model runs again.
func TestConditionFails(t *testing.T) {
	k := coretest.NewMachine(t, "", "")
	th, sd := k.Th, newSide(t, k.Th)
	rounds := make(chan struct{}, 1)
	m := endless(t, th, func(core.Addr) {}, func(s core.Handle) {
		coretest.OK(t, th.LaunchHostFunc(s, func(core.Addr) { // it has lanes
			select {
			case rounds <- struct{}{}:
			default:
			}
		}, 0))
		coretest.OK(t, transfer.MemcpyAsync(th, sd.dev[0], 64, sd.host[0], 64, abi.MemcpyHostToDevice, s))
	})
	s := k.Stream(th)
	for range 2 {
		coretest.OK(t, model.MdlRIExecuteAsync(th, m, s))
		<-rounds
		<-rounds // the loop runs, and all that is submitted from now on is of the model
		k.Faults.Fail(faulty.Task, 3, driver.ErrLost)
		k.Within("a task that fails", func() { k.Want(th.SynchronizeStream(s), abi.ErrRTModelExecute) })
		k.Faults.Heal()
		select { // of the rounds before the end
		case <-rounds:
		default:
		}
	}
	coretest.OK(t, model.MdlRIDestroy(th, m))
}

// TestConditionMemoryGone: memory that only a sub-model names is looked for, too.
func TestConditionMemoryGone(t *testing.T) {
	k := coretest.NewMachine(t, "", "")
	th := k.Th
	sd := newSide(t, th)
	var gone core.Addr
	coretest.OK(t, memory.Malloc(th, &gone, 4096, abi.MemMallocHugeFirst))
	m := endless(t, th, func(core.Addr) {}, func(s core.Handle) {
		coretest.OK(t, transfer.MemcpyAsync(th, gone, 64, sd.host[0], 64, abi.MemcpyHostToDevice, s))
	})
	coretest.OK(t, memory.Free(th, gone))
	if err := model.MdlRIExecuteAsync(th, m, 0); err == nil || err.Code != abi.ErrRTParamInvalid || err.Value != gone {
		t.Fatalf("%v, want 107000 that names %#x", err, gone)
	}
}
