//go:build !amd64 || noasm

package kernels

import "ropeway/internal/driver"

func packStream(table []Entry, list []driver.Segment, to, toRoom, from, fromRoom uintptr, short uint64, tag Tag) int {
	return tag.pack(table, list, to, toRoom, from, fromRoom, short)
}

// Flush makes entries that Fill has written visible to the GPU.
func Flush() {}
