package model_test

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

// TestBlockingExecution proves that under launch blocking an execution returns when the model has run, and at once if
// the model waits for an event: the program may record it later.
func TestBlockingExecution(t *testing.T) {
	p, err := product.Find("A2", "")
	if err != nil {
		t.Fatal(err)
	}
	rt := core.New(core.Options{Driver: coretest.Open(t, soft.Options{Devices: 1, Memory: 64 << 20}), Product: p,
		Blocking: true})
	defer rt.Close() //nolint:errcheck // nothing is left
	m := &coretest.Machine{T: t, Runtime: rt}
	m.Th = m.NewThread(0)
	s, other := m.Stream(m.Th), m.Stream(m.Th)
	var dev, host core.Addr
	var event, plain, waits core.Handle
	m.OK(memory.Malloc(m.Th, &dev, 4096, abi.MemMallocHugeFirst))
	m.OK(memory.MallocHost(m.Th, &host, 4096))
	m.OK(m.Th.CreateEventWithFlag(&event, abi.EventExternal))
	fill := func(value int32) {
		m.OK(transfer.MemsetAsync(m.Th, dev, 4096, value, 4096, s))
		m.OK(transfer.MemcpyAsync(m.Th, host, 4096, dev, 4096, abi.MemcpyDeviceToHost, s))
	}
	m.OK(model.MdlRICaptureBegin(m.Th, s, relaxed))
	fill(7)
	m.OK(model.MdlRICaptureEnd(m.Th, s, &plain))
	m.OK(model.MdlRIExecuteAsync(m.Th, plain, s))
	if got := coretest.Bytes(host, 4096)[4095]; got != 7 {
		t.Fatalf("the model has not run: %d", got)
	}
	m.OK(model.MdlRICaptureBegin(m.Th, s, relaxed))
	m.OK(m.Th.StreamWaitEvent(s, event))
	m.OK(m.Th.ResetEvent(event, s))
	fill(8)
	m.OK(model.MdlRICaptureEnd(m.Th, s, &waits))
	m.Within("an execution that waits for an event", func() { m.OK(model.MdlRIExecuteAsync(m.Th, waits, s)) })
	m.OK(m.Th.RecordEvent(event, other))
	m.OK(m.Th.SynchronizeStream(s))
	if got := coretest.Bytes(host, 4096)[4095]; got != 8 {
		t.Fatalf("the model that waits has not run: %d", got)
	}
}
