//go:build linux

package core

import (
	"testing"

	"ropeway/internal/abi"
)

// TestPoolFreeBehindStream: memory that aclrtFree gives back to its pool is for another stream only when streams have reached the frees
// that came before.
func TestPoolFreeBehindStream(t *testing.T) {
	m := newMemTest(t, "A2", "")
	const n = 2 << 20
	var pool Handle
	m.ok(m.th.MemPoolCreate(&pool, &abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}))
	held, other := m.stream(m.th), m.stream(m.th)
	var a, again, b Addr
	m.ok(m.th.MemPoolMallocAsync(&a, n, pool, held))
	gate := m.notify()
	m.ok(m.th.WaitAndResetNotify(gate, held, 0))
	m.ok(m.th.MemsetAsync(a, n, 7, n, held))
	m.ok(m.th.MemPoolFreeAsync(a, held))
	m.ok(m.th.MemPoolMallocAsync(&again, n, pool, held))
	if again != a {
		t.Fatalf("the stream gets %#x, freed was %#x", again, a)
	}
	m.ok(m.th.Free(again))
	m.ok(m.th.MemPoolMallocAsync(&b, n, pool, other))
	if b == a {
		t.Error("another stream has memory that the first has not written yet")
	}
	m.ok(m.th.RecordNotify(gate, other))
	m.ok(m.th.SynchronizeStream(held))
	m.ok(m.th.MemPoolMallocAsync(&again, n, pool, other))
	if again != a {
		t.Errorf("memory that everybody is done with is not used again: %#x, not %#x", again, a)
	}
}

// mapTwo maps two memories that touch and returns where, with their handles.
func mapTwo(m *memTest, n uint64) (at Addr, h [2]Handle) {
	prop := &abi.PhysicalMemProp{MemAttr: abi.MemAttrHBMMemHuge, Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
	m.ok(m.th.ReserveMemAddress(&at, 2*n, 0, 0, 0))
	for i := range h {
		m.ok(m.th.MallocPhysical(&h[i], n, prop, 0))
		m.ok(m.th.MapMem(at+Addr(i)*Addr(n), n, 0, h[i], 0))
	}
	return at, h
}

// TestExportOfMapping: a key of the second of two mappings that touch is of its memory, and a key never goes across the border.
func TestExportOfMapping(t *testing.T) {
	m := newMemTest(t, "A2", "")
	const n = 2 << 20
	at, _ := mapTwo(m, n)
	m.ok(m.th.Memset(at, n, 1, n))
	m.ok(m.th.Memset(at+n, n, 2, n))
	var key [keyRoom]byte
	m.want(m.th.IpcMemGetExportKey(at, 2*n, &key[0], keyRoom, 1), abi.ErrRTParamInvalid)
	m.ok(m.th.IpcMemGetExportKey(at+n, n, &key[0], keyRoom, 1))
	_, importer := process(t, 64<<20)
	var p Addr
	m.ok(importer.IpcMemImportByKey(&p, &key[0], 0))
	got := make([]byte, n)
	m.ok(importer.Memcpy(AddrOf(got), n, p, n, abi.MemcpyDeviceToHost))
	for i, b := range got {
		if b != 2 {
			t.Fatalf("byte %d is %d, not of the memory that was exported", i, b)
		}
	}
}

// TestKeyEndsWithMapping: when the mapping has gone that a key was made of, nobody can import it.
func TestKeyEndsWithMapping(t *testing.T) {
	m := newMemTest(t, "A2", "")
	const n = 2 << 20
	at, h := mapTwo(m, n)
	var key [keyRoom]byte
	m.ok(m.th.IpcMemGetExportKey(at, n, &key[0], keyRoom, 1))
	m.ok(m.th.UnmapMem(at))
	m.ok(m.th.FreePhysical(h[0]))
	_, importer := process(t, 64<<20)
	var p Addr
	m.want(importer.IpcMemImportByKey(&p, &key[0], 0), abi.ErrRTDrvInternalError)
}

// TestNumbersTooLarge: nothing is allocated for a number of elements, which may be wrong, but for those that are there.
func TestNumbersTooLarge(t *testing.T) {
	m := newMemTest(t, "A2", "")
	m.ok(m.rt.RegisterSymbol(AddrOf([]byte{1}), 1<<39, []byte{7}))
	m.want(m.rt.RegisterSymbol(AddrOf([]byte{1}), 1<<50, nil), abi.ErrRTMemoryAllocation)
	var p Addr // the program's memory: slices of Go's own may not be longer than it is
	m.ok(m.th.MallocHost(&p, 4096))
	attributes := array(pointer[abi.MemManagedRangeAttribute](p), 2)
	attributes[0], attributes[1] = abi.MemRangeAttributeReadMostly, 0
	m.want(m.th.MemManagedGetAttrs(&attributes[0], 1<<40, 1<<40, 1, pointer[Addr](p), pointer[uint64](p)), abi.ErrRTParamInvalid)
}

// TestImportedIsNotExported: who was allowed to import memory cannot let others have it.
func TestImportedIsNotExported(t *testing.T) {
	m := newMemTest(t, "A2", "")
	_, h := mapTwo(m, 2<<20)
	var number, again uint64
	m.ok(m.th.MemExportToShareableHandle(h[0], 0, 1, &number))
	_, importer := process(t, 64<<20)
	var got Handle
	m.ok(importer.MemImportFromShareableHandle(number, 0, &got))
	m.want(importer.MemExportToShareableHandle(got, 0, 1, &again), abi.ErrRTDrvInternalError)
}
