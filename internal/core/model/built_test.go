package model_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

// streamDefault is ACL_MODEL_STREAM_FLAG_DEFAULT: another stream starts the stream.
const streamDefault = 0x7FFFFFFF

// builder builds a model of a random program: branches and loops are jumps to labels and switches of streams.
type builder struct {
	*stage
	m       core.Handle
	streams []core.Handle // bound
	lists   []core.Handle
	labels  []core.Handle
	memory  []core.Addr
	rt      *rapid.T
}

// bind is a new stream of the model.
func (b *builder) bind(flag uint32) (s core.Handle) {
	coretest.OK(b.tb, b.th.CreateStreamWithConfig(&s, 0, abi.StreamPersistent))
	coretest.OK(b.tb, model.MdlRIBindStream(b.th, b.m, s, flag))
	b.streams = append(b.streams, s)
	return s
}

// word is new device memory of 64 bytes.
func (b *builder) word() (p core.Addr) {
	coretest.OK(b.tb, memory.Malloc(b.th, &p, 64, abi.MemMallocHugeFirst))
	coretest.OK(b.tb, transfer.Memset(b.th, p, 64, 0, 64))
	b.memory = append(b.memory, p)
	return p
}

// list is a list of n new labels.
func (b *builder) list(n int) (labels []core.Handle, list core.Handle) {
	labels = make([]core.Handle, n)
	for i := range labels {
		coretest.OK(b.tb, model.CreateLabel(b.th, &labels[i]))
	}
	coretest.OK(b.tb, model.CreateLabelList(b.th, &labels[0], uint64(n), &list))
	b.lists, b.labels = append(b.lists, list), append(b.labels, labels...)
	return labels, list
}

func (b *builder) set(label, s core.Handle) { coretest.OK(b.tb, model.SetLabel(b.th, label, s)) }

func (b *builder) jump(p core.Addr, most int, list, s core.Handle) {
	coretest.OK(b.tb, model.SwitchLabelByIndex(b.th, p, uint32(most), list, s))
}

// to goes on at a label, whatever is in memory: the only one of its list.
func (b *builder) to(list, s core.Handle) { b.jump(b.word(), 0, list, s) }

// build submits the program to s, and returns the stream where it goes on.
func (b *builder) build(list []node, s core.Handle) core.Handle {
	for i := range list {
		switch n := &list[i]; n.kind {
		case "call":
			b.on(s, n.call)
		case "if":
			s = b.branch(n, s)
		case "while":
			s = b.loop(n, s)
		case "switch":
			p := b.word()
			coretest.OK(b.tb, signal.ValueWrite(b.th, p, n.value, 0, s))
			s = b.cases(p, n.kids, s)
		}
	}
	return s
}

// branch is an "if": another stream runs what is to be done if the byte is not 0.
func (b *builder) branch(n *node, s core.Handle) core.Handle {
	p, zero := b.word(), b.word()
	coretest.OK(b.tb, transfer.MemcpyAsync(b.th, p, 1, b.tested(n), 1, abi.MemcpyDeviceToDevice, s))
	other, after := b.bind(streamDefault), b.bind(streamDefault)
	coretest.OK(b.tb, model.SwitchStream(b.th, p, abi.ConditionNotEqual, zero, abi.SwitchInt32, other, 0, s))
	if len(n.kids) > 1 {
		s = b.build(n.kids[1], s)
	}
	coretest.OK(b.tb, model.ActiveStream(b.th, after, s))
	other = b.build(n.kids[0], other)
	coretest.OK(b.tb, model.ActiveStream(b.th, after, other))
	return after
}

// loop is a "while": a jump backwards.
func (b *builder) loop(n *node, s core.Handle) core.Handle {
	p, zero := b.word(), b.word()
	coretest.OK(b.tb, signal.ValueWrite(b.th, p, n.value, 0, s))
	again, list := b.list(1)
	after := b.bind(streamDefault)
	b.set(again[0], s)
	coretest.OK(b.tb, model.SwitchStream(b.th, p, abi.ConditionEqual, zero, abi.SwitchInt64, after, 0, s))
	s = b.build(n.kids[0], s)
	b.decrement(p, s)
	b.to(list, s)
	return after
}

// cases jump to one of several labels, and go on after the last.
func (b *builder) cases(p core.Addr, kids [][]node, s core.Handle) core.Handle {
	labels, list := b.list(len(kids) + 1)
	after, end := b.list(1)
	b.jump(p, len(kids), list, s)
	for i, kid := range kids {
		b.set(labels[i], s)
		s = b.build(kid, s)
		b.to(end, s)
		if rapid.Bool().Draw(b.rt, "elsewhere") {
			s = b.bind(streamDefault)
		}
	}
	b.set(labels[len(kids)], s)
	b.set(after[0], s)
	return s
}

// end destroys all that was made.
func (b *builder) end() {
	coretest.OK(b.tb, model.MdlRIDestroy(b.th, b.m))
	for _, s := range b.streams {
		coretest.OK(b.tb, b.th.DestroyStream(s))
	}
	for _, l := range b.lists {
		coretest.OK(b.tb, model.DestroyLabelList(b.th, l))
	}
	for _, l := range b.labels {
		coretest.OK(b.tb, model.DestroyLabel(b.th, l))
	}
	for _, p := range b.memory {
		coretest.OK(b.tb, memory.Free(b.th, p))
	}
}

// TestBuiltRandom builds random programs by hand, with labels and switches, runs them, and compares every byte with the
// same calls made directly.
func TestBuiltRandom(t *testing.T) {
	_, th := coretest.NewProcess(t, 256<<20)
	randomBuilt(t, th, 0)
}

// randomBuilt is TestBuiltRandom. Some of the calls are launches of mix, if that is not 0.
func randomBuilt(t *testing.T, th *core.Thread, mix core.Handle) {
	one, other := newStage(t, th), newStage(t, th)
	other.mix = mix
	rapid.Check(t, func(rt *rapid.T) {
		list := drawNodes(2).Draw(rt, "program")
		if mix != 0 {
			someKernelsOf(list)
		}
		b := &builder{stage: other, rt: rt}
		coretest.OK(t, model.MdlRIBuildBegin(th, &b.m, 0))
		last := b.build(list, b.bind(0))
		coretest.OK(t, model.MdlRIEndTask(th, b.m, last))
		coretest.OK(t, model.MdlRIBuildEnd(th, b.m, 0))
		one.compare(rt, other, b.m, list)
		b.end()
	})
}

// TestBuiltEvents: streams of a model that is built by hand wait for each other by events that have a state.
func TestBuiltEvents(t *testing.T) {
	_, th := coretest.NewProcess(t, 256<<20)
	b := &builder{stage: newStage(t, th)}
	coretest.OK(t, model.MdlRIBuildBegin(th, &b.m, 0))
	first, second := b.bind(0), b.bind(0)
	var there, back core.Handle
	for _, e := range []*core.Handle{&there, &back} {
		coretest.OK(t, th.CreateEventWithFlag(e, abi.EventSync))
	}
	order := make([]string, 0, 9)
	call := func(s core.Handle, what string) {
		coretest.OK(t, th.LaunchHostFunc(s, func(core.Addr) { order = append(order, what) }, 0))
	}
	call(first, "a")
	coretest.OK(t, th.RecordEvent(there, first))
	coretest.OK(t, th.StreamWaitEvent(second, there))
	coretest.OK(t, th.ResetEvent(there, second))
	call(second, "b")
	coretest.OK(t, th.RecordEvent(back, second))
	coretest.OK(t, th.StreamWaitEvent(first, back))
	coretest.OK(t, th.ResetEvent(back, first))
	call(first, "c")
	coretest.OK(t, model.MdlRIEndTask(th, b.m, first))
	coretest.OK(t, model.MdlRIBuildEnd(th, b.m, 0))
	for range 3 {
		coretest.OK(t, model.MdlRIExecute(th, b.m, -1))
	}
	got := ""
	for _, w := range order {
		got += w
	}
	if got != "abcabcabc" {
		t.Errorf("the functions ran as %s", got)
	}
	b.end()
}

// TestBuiltEndless: a model whose streams jump for ever is not waited for longer than asked, and ends by an abort, by
// an abort of the stream it runs on, and when it is destroyed.
func TestBuiltEndless(t *testing.T) {
	k := coretest.NewMachine(t, "", "")
	th := k.Th
	b := &builder{stage: newStage(t, th)}
	coretest.OK(t, model.MdlRIBuildBegin(th, &b.m, 0))
	s := b.bind(0)
	began := make(chan struct{}, 1)
	coretest.OK(t, th.LaunchHostFunc(s, func(core.Addr) { began <- struct{}{} }, 0))
	labels, list := b.list(1)
	b.set(labels[0], s)
	b.to(list, s)
	coretest.OK(t, model.MdlRIEndTask(th, b.m, s))
	coretest.OK(t, model.MdlRIBuildEnd(th, b.m, 0))
	k.Within("aclmdlRIExecute", func() {
		k.Want(model.MdlRIExecute(th, b.m, 5), abi.ErrRTStreamSyncTimeout)
		<-began
		coretest.OK(t, model.MdlRIAbort(th, b.m)) // waits for the end of that execution: no later one is said to be it
		coretest.OK(t, th.SynchronizeStream(0))
	})
	other := k.NewThread(0)
	k.Within("an abort by another thread", func() {
		go func() {
			<-began
			coretest.OK(t, model.MdlRIAbort(other, b.m))
		}()
		k.Want(model.MdlRIExecute(th, b.m, -1), abi.ErrRTModelAbortNormal)
	})
	on := k.Stream(th)
	k.Within("an abort of the stream", func() {
		coretest.OK(t, model.MdlRIExecuteAsync(th, b.m, on))
		<-began
		coretest.OK(t, th.StreamAbort(on))
	})
	k.Within("the end of the model", func() {
		coretest.OK(t, model.MdlRIExecuteAsync(th, b.m, on))
		<-began
		b.end()
		th.SynchronizeStreamWithTimeout(on, int32(time.Minute/time.Millisecond))
	})
}

// TestBuiltWrong: a task that starts what is not in the model, and an index that no label has, fail the execution.
func TestBuiltWrong(t *testing.T) {
	k := coretest.NewMachine(t, "", "")
	th := k.Th
	for name, submit := range map[string]func(b *builder, s, foreign core.Handle){
		"a stream of another model": func(b *builder, s, foreign core.Handle) {
			coretest.OK(t, model.ActiveStream(th, foreign, s))
		},
		"a label of another model": func(b *builder, s, foreign core.Handle) {
			labels, list := b.list(1)
			b.set(labels[0], foreign)
			b.to(list, s)
		},
		"an index that no label has": func(b *builder, s, foreign core.Handle) {
			labels, list := b.list(1)
			b.set(labels[0], s)
			p := b.word()
			coretest.OK(t, transfer.MemsetD32(th, p, 64, 5, 1))
			b.jump(p, 9, list, s)
		},
		"a label that is not set": func(b *builder, s, foreign core.Handle) {
			_, list := b.list(1)
			b.to(list, s)
		},
	} {
		a, b := &builder{stage: newStage(t, th)}, &builder{stage: newStage(t, th)}
		coretest.OK(t, model.MdlRIBuildBegin(th, &a.m, 0))
		coretest.OK(t, model.MdlRIBuildBegin(th, &b.m, 0))
		s := b.bind(0)
		submit(b, s, a.bind(0))
		coretest.OK(t, model.MdlRIEndTask(th, b.m, s))
		coretest.OK(t, model.MdlRIBuildEnd(th, b.m, 0))
		k.Within(name, func() { k.Want(model.MdlRIExecute(th, b.m, -1), abi.ErrRTModelExecute) })
		b.end()
		a.end()
	}
}

// TestUnbind: the tasks of a stream that is unbound are dropped, and the rest of the model runs.
func TestUnbind(t *testing.T) {
	_, th := coretest.NewProcess(t, 256<<20)
	b := &builder{stage: newStage(t, th)}
	coretest.OK(t, model.MdlRIBuildBegin(th, &b.m, 0))
	keeps, goes := b.bind(0), b.bind(0)
	p := b.word()
	coretest.OK(t, transfer.MemsetAsync(th, p, 8, 1, 8, keeps))
	coretest.OK(t, transfer.MemsetAsync(th, p+8, 8, 2, 8, goes))
	coretest.OK(t, model.MdlRIEndTask(th, b.m, keeps))
	coretest.OK(t, model.MdlRIBuildEnd(th, b.m, 0))
	coretest.OK(t, model.MdlRIUnbindStream(th, b.m, goes))
	coretest.OK(t, model.MdlRIExecute(th, b.m, -1))
	got := make([]byte, 16)
	coretest.OK(t, transfer.Memcpy(th, core.AddrOf(got), 16, p, 16, abi.MemcpyDeviceToHost))
	if got[0] != 1 || got[8] != 0 {
		t.Errorf("%v: the first 8 bytes are to be written, and the others not", got)
	}
	b.end()
}
