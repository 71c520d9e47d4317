package model_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// drawCopy is a copy that is not from host to host, and not onto itself, which would be no task.
func drawCopy(t *rapid.T) action {
	a := drawAction(t)
	a.kind, a.stream = "copy", 0
	if a.to == a.from && a.dst == a.src {
		a.src++
	}
	return a
}

// begin gives all memory the bytes that it has at first.
func (s *side) begin(t testing.TB) {
	for i := range s.dev {
		b := coretest.Bytes(s.host[i], sideLen)
		for j := range b {
			b[j] = byte(j*7 + i*13 + j>>8)
		}
		coretest.OK(t, transfer.Memcpy(s.th, s.dev[i], sideLen, s.host[i], sideLen, abi.MemcpyHostToDevice))
	}
}

// TestModelUpdateRandom changes copies of a model one by one between executions, and compares every byte with the same
// calls made directly. Ranges overlap, so that what depends on what changes, too.
func TestModelUpdateRandom(t *testing.T) {
	_, th := coretest.NewProcess(t, 256<<20)
	one, other := newSide(t, th), newSide(t, th)
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(drawCopy), 1, 40).Draw(rt, "copies")
		one.begin(t)
		other.begin(t)
		coretest.OK(t, model.MdlRICaptureBegin(th, other.streams[0], relaxed))
		other.program(t, list)
		var m core.Handle
		coretest.OK(t, model.MdlRICaptureEnd(th, other.streams[0], &m))
		for round := range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 3).Draw(rt, "changes") {
				i, a := rapid.IntRange(0, len(list)-1).Draw(rt, "which"), drawCopy(rt)
				list[i] = a
				err := model.SetModelCopy(th, m, i, other.at(a.to, a.dst), other.at(a.from, a.src), a.n)
				coretest.OK(t, err)
			}
			one.program(t, list)
			coretest.OK(t, th.SynchronizeStream(one.streams[0]))
			coretest.OK(t, model.MdlRIExecuteAsync(th, m, other.streams[0]))
			coretest.OK(t, th.SynchronizeStream(other.streams[0]))
			if !bytes.Equal(one.contents(t), other.contents(t)) {
				rt.Fatalf("round %d: the model and the calls themselves differ", round)
			}
		}
		coretest.OK(t, model.MdlRIDestroy(th, m))
	})
}

// TestModelAllocsOfCopies: submitting a copy to a stream that is not captured allocates nothing.
func TestModelAllocsOfCopies(t *testing.T) {
	_, th := coretest.NewProcess(t, 64<<20)
	s := newSide(t, th)
	submit := func() {
		coretest.OK(t, transfer.MemcpyAsync(th, s.dev[0], 64, s.host[0], 64, abi.MemcpyHostToDevice, s.streams[0]))
		coretest.OK(t, transfer.MemsetAsync(th, s.dev[0], 64, 1, 64, s.streams[0]))
		coretest.OK(t, th.SynchronizeStream(s.streams[0]))
	}
	submit()
	if got := testing.AllocsPerRun(200, submit); got > 0 {
		t.Errorf("a copy, a fill and a synchronisation allocate %v times", got)
	}
}
