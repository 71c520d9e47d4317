package arena

// In a fenced arena an access just outside an allocation does not hit another allocation. Closed chunks separate each
// run from the next one. In its own chunks only the pages with bytes of the allocation are open. The allocation is at
// the end of these pages, as far as its alignment allows: an access past the end faults, or hits one of a few bytes
// that the caller can check.
//
// Every fence uses two of the mappings that the kernel allows a process. When there are mostFences allocations, later
// ones are open with all their chunks, so that neighbours share a mapping.

const (
	fenceChunks = FenceBytes >> chunkShift
	fenceAlign  = 64 // bytes; least alignment of a fenced allocation
	mostFences  = 8192
)

// FenceBytes is the least number of closed addresses before and after an allocation of a fenced arena.
const FenceBytes = 128 << 10

// fence returns the number of closed chunks after every run.
func (a *Arena) fence() int32 {
	if a.fenced {
		return fenceChunks
	}
	return 0
}

// skip returns the number of bytes that an allocation of size bytes leaves unused in its first page, so that it ends
// near the end of its last page.
func (a *Arena) skip(size uint64) uint64 {
	if !a.fenced {
		return 0
	}
	return -size % pageSize &^ (fenceAlign - 1)
}

// reach returns the number of bytes to open to the program in a run of n chunks that uses its first pages pages. mu
// is held.
func (a *Arena) reach(n int32, pages uint64) uint64 {
	if a.fenced && a.count < mostFences {
		return pages << pageShift
	}
	return uint64(n) << chunkShift
}

// The name of a run is one word: whether its page kind is 2 MiB, the unused bytes in its first page, and its ID.
const (
	skipShift = 1
	idShift   = skipShift + 6
	skipMask  = 1<<(idShift-skipShift) - 1
)

func idOf(id, skip uint64, huge bool) uint64 {
	name := id<<idShift | skip/fenceAlign<<skipShift
	if huge {
		name |= 1
	}
	return name
}

func skipIn(name uint64) uint64 { return name >> skipShift & skipMask * fenceAlign }

// startOf returns the start of the allocation with index entry e, as an offset in the window.
func (a *Arena) startOf(e uint64) uint64 {
	first := e >> firstShift
	r := a.dir[first/chunksInReg].Load()
	if r == nil { // only after Close
		return first << chunkShift
	}
	return first<<chunkShift + skipIn(r.id[first%chunksInReg].Load())
}
