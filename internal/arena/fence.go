package arena

// In a fenced arena an access beside an allocation meets no other allocation's bytes. Each run has closed chunks after
// it, which are before the next one, and of its own chunks only the pages with bytes of the allocation are open. The
// allocation lies at the end of those pages, as far as its alignment allows: what goes past the end faults, or stays
// within a few bytes that the caller can look at.
//
// Every fence takes two of the mappings that the kernel allows a process. From mostFences allocations on, what is
// handed out is open with all its chunks, so that neighbours are one mapping.

const (
	fenceChunks = FenceBytes >> chunkShift
	fenceAlign  = 64 // bytes; what the start of a fenced allocation is a multiple of, at least
	mostFences  = 8192
)

// FenceBytes is how many addresses, at least, are closed before and after what a fenced arena hands out.
const FenceBytes = 128 << 10

// fence is how many chunks are closed after every run.
func (a *Arena) fence() int32 {
	if a.fenced {
		return fenceChunks
	}
	return 0
}

// skip is how many bytes of its first page an allocation of size bytes leaves unused, so that it ends near the end of
// its last.
func (a *Arena) skip(size uint64) uint64 {
	if !a.fenced {
		return 0
	}
	return -size % pageSize &^ (fenceAlign - 1)
}

// reach is how many bytes of a run of n chunks, of which the first pages pages are used, the program is to reach. mu
// is held.
func (a *Arena) reach(n int32, pages uint64) uint64 {
	if a.fenced && a.count < mostFences {
		return pages << pageShift
	}
	return uint64(n) << chunkShift
}

// The name of a run is one word: whether its page kind is 2 MiB, how much of its first page it leaves unused, and its
// ID.
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

// startOf is where the allocation begins whose index entry is e, as an offset in the window.
func (a *Arena) startOf(e uint64) uint64 {
	first := e >> firstShift
	r := a.dir[first/chunksInReg].Load()
	if r == nil { // only after Close
		return first << chunkShift
	}
	return first<<chunkShift + skipIn(r.id[first%chunksInReg].Load())
}
