//go:build cgo

package main

import (
	"math"

	"ropeway/internal/core"
)

// slots are the arguments of a call, as many as its function has.
type slots [10]uint64

// float is the float in slot i.
func (a *slots) float(i int) float32 { return math.Float32frombits(uint32(a[i])) }

// floatSlot is a slot with a float in it.
func floatSlot(f float32) uint64 { return uint64(math.Float32bits(f)) }

// pointer is a pointer of the program.
func pointer[T any](slot uint64) *T { return core.Pointer[T](core.Addr(slot)) }
