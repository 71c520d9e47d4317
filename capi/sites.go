//go:build cgo

package main

// #include "shim/entry.h"
import "C"

import (
	"sync"

	"ropeway/internal/observe"
)

// sites has the call site of a thread, which the shim writes, and a cache of the tracer's numbers for recent ones. It
// belongs to the thread.
type sites struct {
	at    *C.ropeway_site
	known [64]calledFrom
}

// calledFrom is a function with a call site and the tracer's number plus 1. The zero value is none.
type calledFrom struct {
	address    uint64
	name, line uint32
	function   uint32
	number     uint32
}

// calls returns the tracer's number for the thread's current call of a function.
func (t *thread) calls(f uint32) uint16 {
	s := t.sites
	c := calledFrom{address: uint64(s.at.address), name: uint32(s.at.name), line: uint32(s.at.line), function: f}
	name := framed
	if c.name == 0 { // under the checker an interpreter reports that one
		if by := t.Caller(); by != nil {
			var frame [1][2]uint32
			if by.Frames(frame[:]) == 1 {
				c.name, c.line = frame[0][0], frame[0][1]
				name = frontEnd{}.FrameName
			}
		}
	}
	if c.name != 0 {
		c.address = 0
	}
	known := &s.known[(c.address^c.address>>6^uint64(c.line)*31^uint64(f)*7)%uint64(len(s.known))]
	if c.number = known.number; c.number != 0 && *known == c {
		return uint16(c.number - 1)
	}
	site := observe.Site{PC: uintptr(c.address)}
	if c.name != 0 {
		site.Line = int(c.line)
		site.File, site.Function = name(c.name)
	}
	c.number = 1 + uint32(opening.tracer.From(numberOf(f), site))
	*known = c
	return uint16(c.number - 1)
}

// frames are functions of an interpreter; their numbers are their indexes plus 1.
var frames struct {
	mu    sync.Mutex
	names [][2]string // guarded by mu; files and functions
}

// mostFrames is the largest number of named functions.
const mostFrames = 1 << 16

// nameFrame returns the number of an interpreter's function; 0 if no number is left.
func nameFrame(file, function string) uint32 {
	frames.mu.Lock()
	defer frames.mu.Unlock()
	if opening.tracer == nil || len(frames.names) == mostFrames {
		return 0
	}
	frames.names = append(frames.names, [2]string{file, function})
	return uint32(len(frames.names))
}

// framed returns the function with a number.
func framed(number uint32) (file, function string) {
	frames.mu.Lock()
	defer frames.mu.Unlock()
	if number == 0 || int(number) > len(frames.names) {
		return "", ""
	}
	n := frames.names[number-1]
	return n[0], n[1]
}
