// Package stacks keeps the stacks of a program's calls, each once, and names their frames.
package stacks

import (
	"runtime"
	"strings"

	"ropeway/internal/finding"
	"ropeway/internal/observe"
)

// Deepest is the number of frames of a stack that are kept.
const Deepest = 32

// Stack is the place of a call.
type Stack[T any] struct {
	PCs   []uintptr
	Named [][2]uint32 // frames of an interpreter: number of the name, line
	InGo  bool        // a stack of a Go program
	Of    T           // facts of the caller about the stack
}

// Table has every stack once. The zero value is empty.
type Table[T any] struct {
	known   map[uint64]*Stack[T]
	scratch struct {
		pcs   [Deepest]uintptr
		named [Deepest][2]uint32
	}
}

// Caller walks the stack of a call.
type Caller interface {
	Stack(pcs []uintptr) int
	Frames(named [][2]uint32) int
}

// By returns the stack of a call of C, or of an interpreter.
func (t *Table[T]) By(by Caller) *Stack[T] {
	pcs, named := t.scratch.pcs[:], t.scratch.named[:] // saves an allocation for each call
	return t.find(pcs[:by.Stack(pcs)], named[:by.Frames(named)], false)
}

// find returns the stack with these frames.
func (t *Table[T]) find(pcs []uintptr, named [][2]uint32, inGo bool) *Stack[T] {
	if t.known == nil {
		t.known = map[uint64]*Stack[T]{}
	}
	if len(named) > 0 {
		pcs = nil // frames inside the interpreter do not matter
	}
	h := hashOf(pcs, named)
	if s, ok := t.known[h]; ok {
		return s
	}
	s := &Stack[T]{PCs: append([]uintptr(nil), pcs...), Named: append([][2]uint32(nil), named...), InGo: inGo}
	t.known[h] = s
	return s
}

// hashOf mixes the frames of a stack; with 64 bits collisions can be neglected.
func hashOf(pcs []uintptr, named [][2]uint32) uint64 {
	h := uint64(14695981039346656037)
	mix := func(v uint64) {
		h = (h ^ v) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	for _, pc := range pcs {
		mix(uint64(pc))
	}
	for _, f := range named {
		mix(uint64(f[0])<<32 | uint64(f[1]) | 1<<63)
	}
	return h
}

// Here returns the stack of a call of a Go program that has reached this function's caller, and the method that the
// program called.
func (t *Table[T]) Here() (s *Stack[T], method string) {
	var pcs [Deepest + 8]uintptr
	n := runtime.Callers(3, pcs[:])
	frames := runtime.CallersFrames(pcs[:n])
	first := 0
	for more := true; more; first++ {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function == "" || !observe.Own(f.Function) {
			break
		}
		if name, ok := strings.CutPrefix(f.Function, observe.GoPackage+".(*"); ok {
			method = strings.Replace(name, ")", "", 1)
		} else if name, ok := strings.CutPrefix(f.Function, observe.GoPackage+"/ascend."); ok {
			method = "ascend." + strings.NewReplacer("(*", "", ")", "").Replace(name)
		}
	}
	return t.find(pcs[min(first, n):n], nil, true), method
}

// Frames returns the named frames of a stack. name, which may be nil, names an interpreter's frames, which replace the
// C frames below them; symbols names C frames.
func (s *Stack[T]) Frames(name func(uint32) (file, function string),
	symbols func(pc uintptr) []finding.Frame) (list []finding.Frame) {
	switch {
	case s == nil:
		return nil
	case len(s.Named) > 0 && name != nil:
		for _, n := range s.Named {
			file, function := name(n[0])
			list = append(list, finding.Frame{Function: function, File: file, Line: int(n[1])})
		}
	case s.InGo:
		frames := runtime.CallersFrames(s.PCs)
		for more := len(s.PCs) > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "testing.") {
				continue // start of Go programs and of tests
			}
			list = append(list, finding.Frame{Function: f.Function, File: f.File, Line: f.Line, Address: uint64(f.PC)})
		}
	default:
		for _, pc := range s.PCs {
			list = append(list, symbols(pc)...)
		}
		list = finding.Trim(list)
	}
	return list
}
