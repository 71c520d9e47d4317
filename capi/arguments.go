//go:build cgo

package main

import (
	"fmt"
	"math"
	"strconv"
)

// parameter formats an argument for messages.
type parameter struct {
	name string
	text func(slot uint64) string
}

// pythonArgument is an argument of a Python form, with its slot in the C function; -1: none.
type pythonArgument struct {
	name string
	slot int
}

func asAddress(slot uint64) string {
	if slot == 0 {
		return "NULL"
	}
	return "0x" + strconv.FormatUint(slot, 16)
}

func asNumber(slot uint64) string { return strconv.FormatUint(slot, 10) }

func asSigned(slot uint64) string { return strconv.FormatInt(int64(slot), 10) }

func asFloat(slot uint64) string {
	return strconv.FormatFloat(float64(math.Float32frombits(uint32(slot))), 'g', -1, 32)
}

// asEnum returns the name of a value of an enum.
func asEnum[E interface {
	~int32
	fmt.Stringer
}](slot uint64) string {
	return E(slot).String()
}
