package model_test

import (
	"encoding/binary"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// TestPoolInCapture proves that memory of a pool that is allocated and freed in a capture is the model's: it runs again
// and again, nothing else has the memory meanwhile, and the pool has it again when the model is destroyed.
func TestPoolInCapture(t *testing.T) {
	m := coretest.NewMachine(t, "A2", "")
	s := m.Stream(m.Th)
	const n = 1 << 20
	props := abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
	var pool, ri core.Handle
	var dev, up, down, other core.Addr
	m.OK(memory.MemPoolCreate(m.Th, &pool, &props))
	m.OK(memory.MallocHost(m.Th, &up, n))
	m.OK(memory.MallocHost(m.Th, &down, n))
	used := func() uint64 {
		m.Helper()
		value := make([]byte, 8)
		m.OK(memory.MemPoolGetAttr(m.Th, pool, abi.MemPoolAttrUsedMemCurrent, core.AddrOf(value)))
		return binary.LittleEndian.Uint64(value)
	}
	m.OK(model.MdlRICaptureBegin(m.Th, s, relaxed))
	m.OK(memory.MemPoolMallocAsync(m.Th, &dev, n, pool, s))
	m.OK(transfer.MemcpyAsync(m.Th, dev, n, up, n, abi.MemcpyHostToDevice, s))
	m.OK(transfer.MemcpyAsync(m.Th, down, n, dev, n, abi.MemcpyDeviceToHost, s))
	m.OK(memory.MemPoolFreeAsync(m.Th, dev, s))
	m.OK(model.MdlRICaptureEnd(m.Th, s, &ri))
	m.Want(memory.MemPoolFreeAsync(m.Th, dev, s), abi.ErrRTParamInvalid) // it is no longer the program's
	kept := used()
	m.OK(memory.MemPoolMallocAsync(m.Th, &other, n, pool, s))
	if other == dev {
		t.Fatal("the memory of the model is the program's, too")
	}
	for i := range 3 {
		coretest.Bytes(up, n)[n-1] = byte(i + 1)
		m.OK(model.MdlRIExecuteAsync(m.Th, ri, s))
		m.OK(m.Th.SynchronizeStream(s))
		if got := coretest.Bytes(down, n)[n-1]; got != byte(i+1) {
			t.Fatalf("execution %d: %d", i, got)
		}
	}
	m.OK(memory.MemPoolFreeAsync(m.Th, other, s))
	if got := used(); got != kept || got == 0 {
		t.Errorf("%d bytes of the pool are used while the model lives, want %d", got, kept)
	}
	m.OK(model.MdlRIDestroy(m.Th, ri))
	if got := used(); got != 0 {
		t.Errorf("%d bytes of the pool are used after the model", got)
	}
}
