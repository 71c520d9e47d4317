//go:build cgo

package main

import (
	"math"

	"ropeway/internal/core"
)

// slots are the arguments of a call; only as many as its function has are valid.
type slots [10]uint64

// float returns the float in slot i.
func (a *slots) float(i int) float32 { return math.Float32frombits(uint32(a[i])) }

// floatSlot returns a slot with a float.
func floatSlot(f float32) uint64 { return uint64(math.Float32bits(f)) }

// pointer returns the pointer of the program in a slot.
func pointer[T any](slot uint64) *T { return core.Pointer[T](core.Addr(slot)) }
