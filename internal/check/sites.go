package check

import (
	"cmp"

	"ropeway/internal/check/shadow"
	"ropeway/internal/check/stacks"
	"ropeway/internal/core"
	"ropeway/internal/finding"
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

// stack is where a call comes from, with what is known of it.
type stack = stacks.Stack[fromHere]

type fromHere struct {
	plain *site // a call from here, without its arguments
	asked bool  // drops is known
	drops bool  // the code that calls from here return is dropped
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
		s.stack, s.api = c.stacks.Here()
		return s
	}
	stack := c.stacks.By(by)
	if c.shadow.Len() >= shadow.ManyCells {
		function, arguments, in := by.Calling()
		if p := stack.Of.plain; p != nil && p.function == function && p.thread == t.ID() && p.inCall == in &&
			p.ignored == ignored(by) {
			return p
		}
		stack.Of.plain = &site{thread: t.ID(), stack: stack, function: function, inCall: in, ignored: ignored(by),
			shared: true, cut: len(arguments) > 0}
		return stack.Of.plain
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

// frames gives a stack its names.
func (c *Checker) frames(s *stack) []finding.Frame {
	if c.face == nil {
		return s.Frames(nil, c.symbols.Frames)
	}
	return s.Frames(c.face.FrameName, c.symbols.Frames)
}

// languageOf is the language in which functions are called at an origin.
func (c *Checker) languageOf(from origin) finding.Language {
	if s := from.site; s != nil && s.stack != nil && len(s.stack.Named) > 0 {
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
