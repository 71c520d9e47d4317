//go:build linux

package memory_test

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

// TestPoolFreeBehindStream: memory that aclrtFree returns to its pool is for another stream only when streams have
// reached the frees that came before.
func TestPoolFreeBehindStream(t *testing.T) {
	m := newMachine(t, "A2", "")
	const n = 2 << 20
	var pool core.Handle
	m.OK(memory.MemPoolCreate(m.Th, &pool,
		&abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}))
	held, other := m.Stream(m.Th), m.Stream(m.Th)
	var a, again, b core.Addr
	m.OK(memory.MemPoolMallocAsync(m.Th, &a, n, pool, held))
	var gate core.Handle
	m.OK(signal.CreateNotify(m.Th, &gate, abi.NotifyDefault))
	m.OK(signal.WaitAndResetNotify(m.Th, gate, held, 0))
	m.OK(transfer.MemsetAsync(m.Th, a, n, 7, n, held))
	m.OK(memory.MemPoolFreeAsync(m.Th, a, held))
	m.OK(memory.MemPoolMallocAsync(m.Th, &again, n, pool, held))
	if again != a {
		t.Fatalf("the stream gets %#x, freed was %#x", again, a)
	}
	m.OK(memory.Free(m.Th, again))
	m.OK(memory.MemPoolMallocAsync(m.Th, &b, n, pool, other))
	if b == a {
		t.Error("another stream has memory that the first has not written yet")
	}
	m.OK(signal.RecordNotify(m.Th, gate, other))
	m.OK(m.Th.SynchronizeStream(held))
	m.OK(memory.MemPoolMallocAsync(m.Th, &again, n, pool, other))
	if again != a {
		t.Errorf("memory that everybody is done with is not used again: %#x, not %#x", again, a)
	}
}

// keyRoom is how many bytes a key takes.
const keyRoom = 65

// mapTwo maps two memories that touch and returns where, with their handles.
func mapTwo(m *machine, n uint64) (at core.Addr, h [2]core.Handle) {
	prop := &abi.PhysicalMemProp{MemAttr: abi.MemAttrHBMMemHuge,
		Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
	m.OK(memory.ReserveMemAddress(m.Th, &at, 2*n, 0, 0, 0))
	for i := range h {
		m.OK(memory.MallocPhysical(m.Th, &h[i], n, prop, 0))
		m.OK(memory.MapMem(m.Th, at+core.Addr(i)*core.Addr(n), n, 0, h[i], 0))
	}
	return at, h
}

// TestExportOfMapping: a key of the second of two mappings that touch is of its memory, and a key never goes across
// the border.
func TestExportOfMapping(t *testing.T) {
	m := newMachine(t, "A2", "")
	const n = 2 << 20
	at, _ := mapTwo(m, n)
	m.OK(transfer.Memset(m.Th, at, n, 1, n))
	m.OK(transfer.Memset(m.Th, at+n, n, 2, n))
	var key [keyRoom]byte
	m.Want(memory.IpcMemGetExportKey(m.Th, at, 2*n, &key[0], keyRoom, 1), abi.ErrRTParamInvalid)
	m.OK(memory.IpcMemGetExportKey(m.Th, at+n, n, &key[0], keyRoom, 1))
	_, importer := coretest.NewProcess(t, 64<<20)
	var p core.Addr
	m.OK(memory.IpcMemImportByKey(importer, &p, &key[0], 0))
	got := make([]byte, n)
	m.OK(transfer.Memcpy(importer, core.AddrOf(got), n, p, n, abi.MemcpyDeviceToHost))
	for i, b := range got {
		if b != 2 {
			t.Fatalf("byte %d is %d, not of the memory that was exported", i, b)
		}
	}
}

// TestKeyEndsWithMapping: when the mapping has gone that a key was made of, it cannot be imported.
func TestKeyEndsWithMapping(t *testing.T) {
	m := newMachine(t, "A2", "")
	const n = 2 << 20
	at, h := mapTwo(m, n)
	var key [keyRoom]byte
	m.OK(memory.IpcMemGetExportKey(m.Th, at, n, &key[0], keyRoom, 1))
	m.OK(memory.UnmapMem(m.Th, at))
	m.OK(memory.FreePhysical(m.Th, h[0]))
	_, importer := coretest.NewProcess(t, 64<<20)
	var p core.Addr
	m.Want(memory.IpcMemImportByKey(importer, &p, &key[0], 0), abi.ErrRTDrvInternalError)
}

// TestNumbersTooLarge: nothing is allocated for a number of elements, which may be wrong, but for those that are there.
func TestNumbersTooLarge(t *testing.T) {
	m := newMachine(t, "A2", "")
	m.OK(transfer.DefineSymbol(m.Runtime, core.AddrOf([]byte{1}), 1<<39, []byte{7}))
	m.Want(transfer.DefineSymbol(m.Runtime, core.AddrOf([]byte{1}), 1<<50, nil), abi.ErrRTMemoryAllocation)
	var p core.Addr // the program's memory: slices of Go's own may not be longer than it is
	m.OK(memory.MallocHost(m.Th, &p, 4096))
	attributes := core.Array(core.Pointer[abi.MemManagedRangeAttribute](p), 2)
	attributes[0], attributes[1] = abi.MemRangeAttributeReadMostly, 0
	m.Want(memory.MemManagedGetAttrs(m.Th, &attributes[0], 1<<40, 1<<40, 1, core.Pointer[core.Addr](p),
		core.Pointer[uint64](p)), abi.ErrRTParamInvalid)
}

// TestImportedIsNotExported: an importer of memory cannot export it.
func TestImportedIsNotExported(t *testing.T) {
	m := newMachine(t, "A2", "")
	_, h := mapTwo(m, 2<<20)
	var number, again uint64
	m.OK(memory.MemExportToShareableHandle(m.Th, h[0], 0, 1, &number))
	_, importer := coretest.NewProcess(t, 64<<20)
	var got core.Handle
	m.OK(memory.MemImportFromShareableHandle(importer, number, 0, &got))
	m.Want(memory.MemExportToShareableHandle(importer, got, 0, 1, &again), abi.ErrRTDrvInternalError)
}
