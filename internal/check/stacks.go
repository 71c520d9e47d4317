package check

import (
	"runtime"
	"strings"

	"ropeway/internal/core"
	"ropeway/internal/finding"
	"ropeway/internal/observe"
)

// deepest is the number of frames of a stack that are kept.
const deepest = 32

// stack is the place of a call, with the facts about calls from there.
type stack struct {
	pcs   []uintptr
	named [][2]uint32 // frames of an interpreter: number of the name, line
	inGo  bool        // a stack of a Go program
	plain *site       // a call from here, without its arguments
	asked bool        // drops is known
	drops bool        // the code that calls from here return is dropped
}

// stacks has every stack once. The zero value is empty.
type stacks struct {
	known   map[uint64]*stack
	scratch struct {
		pcs   [deepest]uintptr
		named [deepest][2]uint32
	}
}

// by returns the stack of a call of C, or of an interpreter.
func (t *stacks) by(by core.Caller) *stack {
	pcs, named := t.scratch.pcs[:], t.scratch.named[:] // saves an allocation for each call
	return t.find(pcs[:by.Stack(pcs)], named[:by.Frames(named)], false)
}

// find returns the stack with these frames.
func (t *stacks) find(pcs []uintptr, named [][2]uint32, inGo bool) *stack {
	if t.known == nil {
		t.known = map[uint64]*stack{}
	}
	if len(named) > 0 {
		pcs = nil // frames inside the interpreter do not matter
	}
	h := hashOf(pcs, named)
	if s, ok := t.known[h]; ok {
		return s
	}
	s := &stack{pcs: append([]uintptr(nil), pcs...), named: append([][2]uint32(nil), named...), inGo: inGo}
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

// here returns the stack of a call of a Go program that has reached this function's caller, and the method that the
// program called.
func (t *stacks) here() (s *stack, method string) {
	var pcs [deepest + 8]uintptr
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

// frames returns the named frames of a stack. name, which may be nil, names an interpreter's frames, which replace the
// C frames below them; symbols names C frames.
func (s *stack) frames(name func(uint32) (file, function string),
	symbols func(pc uintptr) []finding.Frame) (list []finding.Frame) {
	switch {
	case s == nil:
		return nil
	case len(s.named) > 0 && name != nil:
		for _, n := range s.named {
			file, function := name(n[0])
			list = append(list, finding.Frame{Function: function, File: file, Line: int(n[1])})
		}
	case s.inGo:
		frames := runtime.CallersFrames(s.pcs)
		for more := len(s.pcs) > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "testing.") {
				continue // start of Go programs and of tests
			}
			list = append(list, finding.Frame{Function: f.Function, File: f.File, Line: f.Line, Address: uint64(f.PC)})
		}
	default:
		for _, pc := range s.pcs {
			list = append(list, symbols(pc)...)
		}
		list = finding.Trim(list)
	}
	return list
}
