package core_test

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
	"ropeway/internal/testenv"
)

// wildIn is the address f panics with, because it cannot be memory of the program; 0 if f returns.
func wildIn(f func()) (at core.Addr) {
	defer func() {
		if p := recover(); p != nil {
			at = p.(core.Wild).Addr()
		}
	}()
	f()
	return 0
}

// TestTopOfAddresses proves that a list near the top of the address space is a wild pointer, and no mistake of ours: no
// list ends past it.
func TestTopOfAddresses(t *testing.T) {
	const top = ^core.Addr(1023) // checkptr refuses structures that go past the end
	for _, at := range []core.Addr{top, 1 << 63, 1<<56 + 8, 1 << 56, 1<<56 - 8} {
		if got := wildIn(func() { core.Array(core.Pointer[uint64](at), 2) }); got != at {
			t.Errorf("two words at %#x: panic with %#x", at, got)
		}
	}
	if wildIn(func() { core.Array(core.Pointer[uint64](1<<56-16), 2) }) != 0 ||
		wildIn(func() { core.Array(core.Pointer[uint64](4096), 1<<53-512) }) != 0 {
		t.Error("a list that ends at the top was refused")
	}
	if wildIn(func() { core.Array(core.Pointer[uint64](4096), 1<<53-511) }) != 4096 {
		t.Error("a list past the top was not refused")
	}
	if wildIn(func() { core.Pointer[byte](4095) }) != 4095 || core.Pointer[byte](0) != nil {
		t.Error("an address in the first page is a pointer, or NULL is none")
	}
	_, th := coretest.NewProcess(t, 64<<20)
	var fail uint64
	at, size := []core.Addr{4096}, []uint64{64}
	var zero uint64
	attr := new(abi.MemcpyBatchAttr)
	if wildIn(func() {
		transfer.MemcpyBatchAsync(th, &at[0], &size[0], &at[0], &size[0], 1, core.Pointer[abi.MemcpyBatchAttr](top),
			&zero, 1, &fail, 0)
	}) != top {
		t.Error("attrs")
	}
	if wildIn(func() {
		transfer.MemcpyBatchAsync(th, &at[0], &size[0], &at[0], core.Pointer[uint64](top), 2, attr, &zero, 1, &fail, 0)
	}) != top {
		t.Error("sizes")
	}
	if wildIn(func() { signal.NotifyBatchReset(th, core.Pointer[core.Handle](top), 3) }) != top {
		t.Error("notifies")
	}
}

// TestCountTooLarge proves that a count that leads past an allocation of pinned memory is refused before anything is
// read: reading takes memory for all addresses that may become pinned.
func TestCountTooLarge(t *testing.T) {
	const size, n = 128 << 10, 1 << 36
	_, th := coretest.NewProcess(t, 64<<20)
	var p core.Addr
	if err := memory.MallocHost(th, &p, size); err != nil {
		t.Fatal(err)
	}
	list := core.Pointer[uint64](p)
	var fail, zero uint64
	attr := new(abi.MemcpyBatchAttr)
	at := core.Addr(4096)
	var managed core.Addr
	coretest.OK(t, memory.MemAllocManaged(th, &managed, 2<<20, 1))
	for what, call := range map[string]func(){
		"aclrtMemcpyBatchAsync": func() {
			transfer.MemcpyBatchAsync(th, &at, &zero, &at, list, n, attr, &zero, 1, &fail,
				0)
		},
		"aclrtMemcpyBatch": func() { transfer.MemcpyBatch(th, &at, &zero, &at, list, n, attr, &zero, 1, &fail) },
		"aclrtDeviceGetP2PAtomicCapabilities": func() {
			memory.DeviceGetP2PAtomicCapabilities(th, core.Pointer[uint32](p), core.Pointer[abi.AtomicOperation](p),
				1<<32-1, 0, 1)
		},
		"aclrtMemManagedGetAttr": func() {
			memory.MemManagedGetAttr(th, abi.MemRangeAttributeAccessedBy, managed, 4096, p, 4*n)
		},
		"ropewayRegisterSymbol": func() { transfer.RegisterSymbol(th, 8, n, p) },
	} {
		if got := wildIn(call); got != p+size {
			t.Errorf("%s: panic with %#x, want %#x", what, got, p+size)
		}
	}
	// As many as there are is right, and so is what the driver does not know.
	if wildIn(func() { core.ArrayOf(th, list, size/8) }) != 0 ||
		wildIn(func() { core.ArrayOf(th, &make([]uint64, 1<<20)[0], 1<<20) }) != 0 {
		t.Error("a list that is there was refused")
	}
	// A registered part of a list is followed by what only the program knows.
	b := make([]uint64, 64<<10)
	if _, err := th.Runtime.Driver.Register(core.AddressOf(&b[0]), 64<<10, false, 0); err != nil {
		t.Fatal(err)
	}
	if wildIn(func() { core.ArrayOf(th, &b[0], uint64(len(b))) }) != 0 {
		t.Error("a list of which a part is registered was refused")
	}
	testenv.OK(t, th.Runtime.Driver.Unregister(core.AddressOf(&b[0])))
}
