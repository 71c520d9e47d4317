package native

import (
	"slices"
	"sync"
	"unsafe"

	"ropeway/internal/dl"
	"ropeway/internal/kernel"
)

func init() { kernel.RegisterWatch(seen.begin) }

const (
	pageBytes = 4096

	// mostPages is the largest number of watched pages; each takes a byte.
	mostPages = 1 << 24
)

// mostSeen is the largest number of touched pages recorded for a launch: each costs a signal, and perhaps a mapping,
// whose number the kernel limits similarly. Only tests change it.
var mostSeen = uint32(1 << 16)

// Accesses to a page, as in capi/shim/kernel.h.
const (
	readPage    = 1
	writtenPage = 2
)

// pageRange is ropeway_range of capi/shim/kernel.h.
type pageRange struct{ low, high, first uint64 }

// watched is ropeway_watch of capi/shim/kernel.h.
type watched struct {
	ranges  *pageRange
	pages   *byte
	list    *uint32
	count   uint32
	most    uint32
	touched uint32
	lost    uint32
}

// watching records the pages that kernels touch. It and its fields, which the C code uses, are locked from begin to
// end.
type watching struct {
	sync.Mutex
	watched
	support support
	all     []pageRange
	state   []byte
	numbers []uint32
}

var seen watching

// begin implements kernel.Watch.
func (w *watching) begin(pages []kernel.Range) (end func() ([]kernel.Touch, bool)) {
	mu.Lock()
	known := given.watch != 0
	mu.Unlock()
	if !known { // a Go program whose kernels are functions: it has no code that handles the faults
		return nil
	}
	s, err := find()
	if err != nil || !w.TryLock() {
		return nil
	}
	w.support, w.all = *s, w.all[:0]
	n := uint64(0)
	for _, r := range pages {
		w.all = append(w.all, pageRange{uint64(r.Lo), uint64(r.Hi), n})
		n += uint64(r.Hi-r.Lo) / pageBytes
	}
	if n == 0 || n > mostPages {
		w.Unlock()
		return nil
	}
	if uint64(len(w.state)) < n {
		w.state = make([]byte, n)
	}
	if w.numbers == nil {
		w.numbers = make([]uint32, mostSeen)
	}
	w.watched = watched{ranges: &w.all[0], pages: &w.state[0], list: &w.numbers[0], count: uint32(len(w.all)),
		most: mostSeen}
	dl.CallInt(s.watch, uintptr(unsafe.Pointer(&w.watched)))
	return w.end
}

// end ends it.
func (w *watching) end() (list []kernel.Touch, all bool) {
	defer w.Unlock()
	dl.CallInt(w.support.watch, 0)
	numbers := w.numbers[:min(w.touched, w.most)]
	slices.Sort(numbers)
	r := 0
	for _, n := range numbers {
		for r+1 < len(w.all) && w.all[r+1].first <= uint64(n) {
			r++
		}
		at := uintptr(w.all[r].low + (uint64(n)-w.all[r].first)*pageBytes)
		for _, what := range [...]byte{readPage, writtenPage} {
			if w.state[n]&what != 0 {
				list = appendPage(list, at, what == writtenPage)
			}
		}
		w.state[n] = 0
	}
	if w.lost != 0 {
		clear(w.state) // pages whose numbers did not fit in the list
	}
	return list, w.lost == 0
}

// appendPage extends the last range of the same access if it ends at the page, else appends a range.
func appendPage(list []kernel.Touch, at uintptr, write bool) []kernel.Touch {
	for i := len(list) - 1; i >= max(0, len(list)-2); i-- {
		if t := &list[i]; t.Write == write && t.Addr+uintptr(t.N) == at {
			t.N += pageBytes
			return list
		}
	}
	return append(list, kernel.Touch{Addr: at, N: pageBytes, Write: write})
}
