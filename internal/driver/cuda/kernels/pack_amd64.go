//go:build !noasm

package kernels

import "ropeway/internal/driver"

// packStream is pack with stores that bypass the cache: the GPU, which may be reading already, would have to fetch
// every line from the cache. It uses no vectors: after a pause a processor takes microseconds until it has its wide
// ones at full speed.
//
//go:noescape
func packStream(table []Entry, list []driver.Segment, to, toRoom, from, fromRoom uintptr, short uint64, tag Tag) int

// Flush makes entries that Fill has written visible to the GPU.
//
//go:noescape
func Flush()
