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

	// mostPages is how many pages there may be in all, for each of which there is a byte.
	mostPages = 1 << 24
)

// mostSeen is how many touched pages of a launch are seen: each costs a signal, and perhaps a mapping, of which the
// system allows about as many. Changed by tests alone.
var mostSeen = uint32(1 << 16)

// What was done to a page, as capi/shim/kernel.h numbers it.
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

// watching sees what kernels touch. It is locked from begin to end, and so are its fields, which the C code uses
// meanwhile.
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
	if !known { // a Go program whose kernels are functions: there is nothing that catches faults
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
		clear(w.state) // pages for whose numbers there was no room
	}
	return list, w.lost == 0
}

// appendPage appends a page to what was seen, or to the last range of its kind, if that ends there.
func appendPage(list []kernel.Touch, at uintptr, write bool) []kernel.Touch {
	for i := len(list) - 1; i >= max(0, len(list)-2); i-- {
		if t := &list[i]; t.Write == write && t.Addr+uintptr(t.N) == at {
			t.N += pageBytes
			return list
		}
	}
	return append(list, kernel.Touch{Addr: at, N: pageBytes, Write: write})
}
