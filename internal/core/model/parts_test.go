package model_test

import (
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/observe"
	"ropeway/internal/product"
)

// partList is a tracer that keeps parts of executions.
type partList struct {
	observe.Tracer
	mu     sync.Mutex
	clock  int64
	parts  []observe.Part
	models map[uint32][]observe.ModelTask
}

func (l *partList) Now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	return l.clock
}

func (l *partList) Part(p observe.Part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts = append(l.parts, p)
}

func (l *partList) Modelled(m *observe.ModelGraph) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.models[m.Number] = m.Tasks
}

func (l *partList) Submitted(observe.Task)                          {}
func (l *partList) Ran(int32, uint32, int64, int64, observe.Result) {}
func (l *partList) Called(observe.Call)                             {}
func (l *partList) Copied(observe.Call, observe.Task)               {}
func (l *partList) Function(string) uint16                          { return 1 }
func (l *partList) Sites() bool                                     { return false }
func (l *partList) Device(int32, string)                            {}
func (l *partList) Stream(stream, device int32, isDefault bool)     {}
func (l *partList) Thread(uint32)                                   {}
func (l *partList) Close() error                                    { return nil }

// TestPartsOfLoop: each round of a loop has the times of its pieces, under the number of its sub-model; the condition
// task has one, from the first round to the last. There is a limit for a loop that goes on.
func TestPartsOfLoop(t *testing.T) {
	prod, err := product.Find("", "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l := &partList{models: map[uint32][]observe.ModelTask{}}
	rt := core.New(core.Options{Driver: d, Product: prod, Probe: core.Probe{Trace: l}})
	defer rt.Close()
	th := rt.NewThread(1)
	coretest.OK(t, th.SetDevice(0))
	g := newStage(t, th)
	for _, rounds := range []int{3, 10_000} {
		var m core.Handle
		coretest.OK(t, model.MdlRICaptureBegin(th, g.extra[0], relaxed))
		coretest.OK(t, model.MdlRICaptureGetInfo(th, g.extra[0], nil, &m))
		h, value := newCondition(t, th, m, uint32(rounds), abi.ModelRiCondHandleAssignDefault)
		sub := addBranches(t, th, h, g.extra[0], abi.ModelRiCondTypeWhile, 1)[0]
		coretest.OK(t, model.MdlRICaptureToModelRIBegin(th, g.extra[1], sub, relaxed))
		coretest.OK(t, transfer.MemcpyAsync(th, g.dev[0], 64, g.dev[1], 64, abi.MemcpyDeviceToDevice, g.extra[1]))
		g.decrement(value, g.extra[1])
		coretest.OK(t, model.MdlRICaptureEnd(th, g.extra[1], nil))
		coretest.OK(t, model.MdlRICaptureEnd(th, g.extra[0], &m))
		var root, body uint32
		coretest.OK(t, model.MdlRIGetId(th, m, &root))
		coretest.OK(t, model.MdlRIGetId(th, sub, &body))
		l.parts = nil
		coretest.OK(t, model.MdlRIExecuteAsync(th, m, g.streams[0]))
		coretest.OK(t, th.SynchronizeStream(g.streams[0]))
		inner, outer := 0, 0
		for _, p := range l.parts {
			switch p.Model {
			case body:
				inner++
			case 0:
				outer++
				if rounds == 3 && (p.Began > l.parts[0].Began || p.Ended < l.parts[len(l.parts)-2].Ended) {
					t.Errorf("the condition task took from %d to %d: %+v", p.Began, p.Ended, l.parts)
				}
			}
			if p.Ended < p.Began || p.Stream == 0 || p.Number == 0 {
				t.Errorf("%+v", p)
			}
		}
		pieces := len(l.models[body])
		if rounds == 3 && (inner < 3 || inner > 3*pieces || outer != 1) {
			t.Errorf("%d rounds: %d parts of %d pieces in the body, %d of the condition", rounds, inner, pieces, outer)
		}
		if rounds > 4096 && len(l.parts) != 4096 {
			t.Errorf("%d parts, want 4096", len(l.parts))
		}
		if l.models[root][0].Piece != 0 {
			t.Errorf("the condition task is in piece %d", l.models[root][0].Piece)
		}
		coretest.OK(t, model.MdlRIDestroy(th, m))
	}
}
