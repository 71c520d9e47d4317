package check

import (
	"cmp"
	"runtime"
	"strings"

	"ropeway/internal/check/shadow"
	"ropeway/internal/core"
	"ropeway/internal/finding"
	"ropeway/internal/observe"
)

// origin is what did something: a task of a stream, or a call of a thread.
type origin struct {
	site   *site
	part   *part // see is; nil: nothing
	stream int32
	task   uint32
	thread uint32
}

// part is what tasks have in common that launch one kernel, or execute one model. There may be a million origins, so
// they share it.
type part struct {
	kernel string // name of the kernel, "": none
	model  *model // that is executed, nil: none
	born   uint64 // memory of a pool that came: Checker.born then
}

// partOf is the part for a kernel and a model. mu is held.
func (c *Checker) partOf(kernel string, m *model) *part {
	if kernel == "" && m == nil {
		return nil
	}
	parts := c.kernels
	if m != nil {
		parts = m.parts
	}
	p := parts[kernel]
	if p == nil {
		p = &part{kernel: kernel, model: m}
		parts[kernel] = p
	}
	return p
}

// is is what a task is besides; never nil.
func (o *origin) is() *part { return cmp.Or(o.part, new(part)) }

// site is a call of the program. Stacks are kept once, however many calls come from the same place.
type site struct {
	stack    *stack
	api      string // of a Go program: the method
	function uint32
	thread   uint32
	inCall   bool // function and arguments say which
	ignored  bool // the program asked not to be judged here
	shared   bool // by many calls: arguments and past are not valid
	cut      bool // the call had arguments, which were not kept
	given    uint8
	room     [10]uint64 // the first of them, given, are the arguments
	past     past       // of the task that it submitted; here, because both live as long
}

// arguments are those of the call, as far as they are known.
func (s *site) arguments() []uint64 { return s.room[:s.given] }

// calls notes the call that a thread is in.
func (s *site) calls(by core.Caller) {
	var arguments []uint64
	s.function, arguments, s.inCall = by.Calling()
	if s.inCall {
		s.given = uint8(copy(s.room[:], arguments))
	}
}

// again is the site for a further operation of a task: what the first one did to memory is not its own.
func (s *site) again() *site {
	if s == nil || s.shared {
		return s
	}
	other := *s
	other.shared = true
	return &other
}

// stack is where a call comes from.
type stack struct {
	pcs   []uintptr
	named [][2]uint32 // frames of an interpreter
	goPCs bool
	plain *site // a call from here, without its arguments
	asked bool  // drops is known
	drops bool  // the code that calls from here return is dropped
}

// deepest is how many functions of a stack are kept.
const deepest = 32

// stackTable holds every stack once.
type stackTable struct {
	known map[uint64]*stack
}

// find is the stack with these frames.
func (t *stackTable) find(pcs []uintptr, named [][2]uint32, goPCs bool) *stack {
	if t.known == nil {
		t.known = map[uint64]*stack{}
	}
	if len(named) > 0 {
		pcs = nil // what the interpreter does below is of no interest
	}
	h := hashOf(pcs, named)
	if s, ok := t.known[h]; ok {
		return s
	}
	s := &stack{pcs: append([]uintptr(nil), pcs...), named: append([][2]uint32(nil), named...), goPCs: goPCs}
	t.known[h] = s
	return s
}

// hashOf mixes the frames of a stack; 64 bits are enough never to meet two with the same.
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

// scratch is room for one stack, so that the heap is not asked for it at every call.
type scratch struct {
	pcs   [deepest]uintptr
	named [deepest][2]uint32
}

// There may be a million tasks in flight. From shadow.ManyCells ranges on, the arguments of calls are no longer kept;
// beyond mostCells the past is dropped.
const mostCells = 1_500_000

// here is the call that t is in. t may be nil. mu is held.
func (c *Checker) here(t *core.Thread) *site {
	if t == nil {
		return &site{}
	}
	by := t.Caller()
	if by == nil {
		s := &site{thread: t.ID()}
		c.hereInGo(s)
		return s
	}
	pcs, named := c.scratch.pcs[:], c.scratch.named[:]
	stack := c.stacks.find(pcs[:by.Stack(pcs)], named[:by.Frames(named)], false)
	if c.shadow.Len() >= shadow.ManyCells {
		function, arguments, in := by.Calling()
		if p := stack.plain; p != nil && p.function == function && p.thread == t.ID() && p.inCall == in &&
			p.ignored == ignored(by) {
			return p
		}
		stack.plain = &site{thread: t.ID(), stack: stack, function: function, inCall: in, ignored: ignored(by),
			shared: true, cut: len(arguments) > 0}
		return stack.plain
	}
	s := &site{thread: t.ID(), stack: stack, ignored: ignored(by)}
	s.calls(by)
	return s
}

// ignored reports whether a thread asked not to be judged just now (ropeway/check.h).
func ignored(by core.Caller) bool {
	i, ok := by.(interface{ Ignored() bool })
	return ok && i.Ignored()
}

// hereInGo is the call that a Go program is in.
func (c *Checker) hereInGo(s *site) {
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
			s.api = strings.Replace(name, ")", "", 1)
		} else if name, ok := strings.CutPrefix(f.Function, observe.GoPackage+"/ascend."); ok {
			s.api = "ascend." + strings.NewReplacer("(*", "", ")", "").Replace(name)
		}
	}
	s.stack = c.stacks.find(pcs[min(first, n):n], nil, true)
}

// frames gives a stack its names. Interpreted frames stand for what the interpreter does below them.
func (c *Checker) frames(s *stack) []finding.Frame {
	if s == nil {
		return nil
	}
	var list []finding.Frame
	switch {
	case len(s.named) > 0 && c.face != nil:
		for _, n := range s.named {
			file, function := c.face.FrameName(n[0])
			list = append(list, finding.Frame{Function: function, File: file, Line: int(n[1])})
		}
	case s.goPCs:
		frames := runtime.CallersFrames(s.pcs)
		for more := len(s.pcs) > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.HasPrefix(f.Function, "runtime.") {
				continue // how Go starts
			}
			list = append(list, finding.Frame{Function: f.Function, File: f.File, Line: f.Line, Address: uint64(f.PC)})
		}
	default:
		for _, pc := range s.pcs {
			list = append(list, c.symbols.Frames(pc)...)
		}
		list = finding.Trim(list)
	}
	return list
}

// languageOf is the language in which functions are called at an origin.
func (c *Checker) languageOf(from origin) finding.Language {
	if s := from.site; s != nil && s.stack != nil && len(s.stack.named) > 0 {
		return finding.Python
	}
	return c.language
}

// call writes the call of a site for people.
func (c *Checker) call(s *site) string {
	switch {
	case s == nil:
		return ""
	case s.api != "":
		return s.api
	case !s.inCall || c.face == nil:
		return ""
	}
	name, text := c.face.Describe(s.function, s.arguments())
	if s.cut {
		return c.languageOf(origin{site: s}).Name(name) + "(...)"
	}
	if l := c.languageOf(origin{site: s}); l.Name(name) != name {
		return l.Name(name) + "(" + c.face.PythonArguments(s.function, s.arguments()) + ")"
	}
	return name + "(" + text + ")"
}

// at writes where something happened.
func (c *Checker) at(role string, from origin) finding.Site {
	f := finding.Site{Role: role, Thread: from.thread}
	if from.task != 0 {
		number := from.stream
		f.Stream, f.Task = &number, from.task
	}
	if s := from.site; s != nil {
		f.Call, f.Stack = c.call(s), c.frames(s.stack)
		if f.Thread == 0 {
			f.Thread = s.thread
		}
	}
	return f
}
