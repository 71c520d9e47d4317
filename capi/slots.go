//go:build cgo

package main

import (
	"math"
	"unsafe"

	"ropeway/internal/core"
)

// slots are the arguments of a call, as many as its function has.
type slots [10]uint64

// float is the float in slot i.
func (a *slots) float(i int) float32 { return math.Float32frombits(uint32(a[i])) }

// floatSlot is a slot with a float in it.
func floatSlot(f float32) uint64 { return uint64(math.Float32bits(f)) }

// lowest is the first address that can be memory. The Go runtime takes a fault below it for a nil pointer of its own.
const lowest = 4096

// pointer is a pointer of the program. What it points to is C memory; going through &slot says so to vet.
func pointer[T any](slot uint64) *T {
	if slot != 0 && slot < lowest {
		panic(core.Wild(slot))
	}
	return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&slot)))
}
