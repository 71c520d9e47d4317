package model_test

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/model"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

const externalFlag = 1

// TestModelExternal: an external record is the newest one of its event from the call of each execution on, and done
// when the model gets there; an external wait means the newest record at that call.
func TestModelExternal(t *testing.T) {
	_, th := coretest.NewProcess(t, 64<<20)
	s := newSide(t, th)
	out, in := s.events[0], s.events[1]
	coretest.OK(t, model.MdlRICaptureBegin(th, s.streams[0], relaxed))
	coretest.OK(t, signal.WaitAndResetNotify(th, s.notify, s.streams[0], 0)) // holds the model up
	coretest.OK(t, th.StreamWaitEventWithFlag(s.streams[0], in, 0, externalFlag))
	coretest.OK(t, transfer.MemsetAsync(th, s.dev[0], 64, 7, 64, s.streams[0]))
	coretest.OK(t, th.RecordEventWithFlag(out, s.streams[0], externalFlag))
	coretest.OK(t, signal.WaitAndResetNotify(th, s.notify, s.streams[0], 0)) // the record does not wait for the end
	var m core.Handle
	coretest.OK(t, model.MdlRICaptureEnd(th, s.streams[0], &m))
	done := func() bool {
		var status abi.EventRecordedStatus
		coretest.OK(t, th.QueryEventStatus(out, &status))
		return status == abi.EventRecordedStatusComplete
	}
	var producer, free core.Handle
	coretest.OK(t, signal.CreateNotify(th, &producer, 0))
	coretest.OK(t, th.CreateStream(&free))
	for range 3 {
		coretest.OK(t, transfer.Memset(th, s.dev[0], 64, 0, 64))
		coretest.OK(t, signal.WaitAndResetNotify(th, producer, s.streams[2], 0))
		coretest.OK(t, th.RecordEvent(in, s.streams[2]))
		coretest.OK(t, model.MdlRIExecuteAsync(th, m, s.streams[0]))
		coretest.OK(t, th.StreamWaitEvent(s.streams[1], out))
		coretest.OK(t, transfer.MemcpyAsync(th, s.host[0], 64, s.dev[0], 64, abi.MemcpyDeviceToHost, s.streams[1]))
		coretest.OK(t, signal.RecordNotify(th, s.notify, free))
		coretest.OK(t, th.SynchronizeStream(free))
		if done() {
			t.Fatal("the external record is done, and what the external wait waits for is not")
		}
		coretest.OK(t, signal.RecordNotify(th, producer, free))
		coretest.OK(t, th.SynchronizeStream(s.streams[1]))
		if got := coretest.Bytes(s.host[0], 1)[0]; got != 7 || !done() {
			t.Fatalf("the stream that waited for the external record read %d, want 7", got)
		}
		coretest.OK(t, signal.RecordNotify(th, s.notify, free))
		coretest.OK(t, th.SynchronizeStream(s.streams[0]))
	}
	coretest.OK(t, model.MdlRIDestroy(th, m))
}

// TestModelExternalDropped: waits for an external record of an execution that is aborted, before it begins or while it
// runs, end as those for any record that is dropped.
func TestModelExternalDropped(t *testing.T) {
	_, th := coretest.NewProcess(t, 64<<20)
	s := newSide(t, th)
	coretest.OK(t, model.MdlRICaptureBegin(th, s.streams[0], relaxed))
	coretest.OK(t, signal.WaitAndResetNotify(th, s.notify, s.streams[0], 0))
	coretest.OK(t, th.RecordEventWithFlag(s.events[0], s.streams[0], externalFlag))
	var m core.Handle
	coretest.OK(t, model.MdlRICaptureEnd(th, s.streams[0], &m))
	for _, runs := range []int{1, 2} { // the second one does not begin
		for range runs {
			coretest.OK(t, model.MdlRIExecuteAsync(th, m, s.streams[0]))
		}
		coretest.OK(t, th.StreamWaitEvent(s.streams[1], s.events[0]))
		coretest.OK(t, th.StreamAbort(s.streams[0]))
		if err := th.SynchronizeStream(s.streams[1]); err == nil || err.Code != abi.ErrRTStreamAbort {
			t.Errorf("%v, want 107023: the record will never be done", err)
		}
	}
	coretest.OK(t, model.MdlRIDestroy(th, m))
}

// TestModelExternalRefused: an event is used with the EXTERNAL flag once in a model, and not where it was recorded
// outside before.
func TestModelExternalRefused(t *testing.T) {
	_, th := coretest.NewProcess(t, 64<<20)
	s := newSide(t, th)
	coretest.OK(t, th.RecordEvent(s.events[1], s.streams[1]))
	coretest.OK(t, model.MdlRICaptureBegin(th, s.streams[0], relaxed))
	coretest.OK(t, th.RecordEventWithFlag(s.events[0], s.streams[0], externalFlag))
	for name, err := range map[string]*core.Error{
		"twice":             th.RecordEventWithFlag(s.events[0], s.streams[0], externalFlag),
		"both ways":         th.StreamWaitEventWithFlag(s.streams[0], s.events[0], 0, externalFlag),
		"recorded outside":  th.StreamWaitEventWithFlag(s.streams[0], s.events[1], 0, externalFlag),
		"plain record":      th.RecordEvent(s.events[0], s.streams[1]),
		"plain wait for it": th.StreamWaitEvent(s.streams[1], s.events[1]),
	} {
		if err == nil || err.Code != abi.ErrRTParamInvalid {
			t.Errorf("%s: %v, want 107000", name, err)
		}
	}
	var m core.Handle
	coretest.OK(t, model.MdlRICaptureEnd(th, s.streams[0], &m)) // none of it has harmed the capture
	coretest.OK(t, model.MdlRIDestroy(th, m))
}
