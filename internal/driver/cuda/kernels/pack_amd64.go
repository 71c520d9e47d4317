//go:build !noasm

package kernels

import (
	"golang.org/x/sys/cpu"

	"ropeway/internal/driver"
)

// packStream is pack with stores that go past the cache: the GPU, which may be looking already, would have to fetch every line from there.
func packStream(table []Entry, list []driver.Segment, to, toRoom, from, fromRoom uintptr, short uint64, tag Tag) int {
	n := 0
	if len(list) >= wideMin && cpu.X86.HasAVX512F {
		w := wide{short: short, tag: tag}
		for i := range w.base {
			w.base[i], w.room[i] = to, toRoom
			if i%2 != 0 {
				w.base[i], w.room[i] = from, fromRoom
			}
		}
		n = packWide(table, list, &w)
	}
	return n + packNarrow(table[n:], list[n:], to, toRoom, from, fromRoom, short, tag)
}

// wideMin is from how many segments on packWide is worth while.
const wideMin = 32

// wide is what packWide compares with: addresses, destinations and sources in turn, and lengths.
type wide struct {
	base, room [8]uintptr
	short      uint64
	tag        Tag
}

// packWide is packNarrow for eight segments at a time, if table begins at a line of the cache. It stops before eight segments of which
// one is not as it should be. It needs AVX-512.
//
//go:noescape
func packWide(table []Entry, list []driver.Segment, w *wide) int

//go:noescape
func packNarrow(table []Entry, list []driver.Segment, to, toRoom, from, fromRoom uintptr, short uint64, tag Tag) int

// Flush makes entries that Fill has written visible to the GPU.
//
//go:noescape
func Flush()
