package check

import (
	"cmp"

	"ropeway/internal/core"
	"ropeway/internal/finding"
)

// origin is the author of an access or a mistake: a task of a stream, or a call of a thread.
type origin struct {
	site   *site
	part   *part // see is; nil: empty
	stream int32
	task   uint32
	thread uint32
}

// part has the facts shared by tasks that launch one kernel or execute one model. There may be a million origins, so
// they share it.
type part struct {
	kernel string // name of the kernel, "": none
	model  *model // the model executed; nil: none
	born   uint64 // of an allocation of pool memory: ledger.born then
}

// is returns the part of an origin, never nil.
func (o *origin) is() *part { return cmp.Or(o.part, new(part)) }

// site is a call of the program. Calls from the same place share a stack.
type site struct {
	stack    *stack
	api      string // the method, in a Go program
	function uint32
	thread   uint32
	inCall   bool // function and arguments are valid
	ignored  bool // the program asked the checker to ignore the call
	shared   bool // many calls share it: arguments and past are not valid
	cut      bool // the call had arguments, which were not kept
	given    uint8
	room     [10]uint64 // the arguments are the first given of them
	past     past       // of the task that it submitted, which lives as long
}

// arguments returns the call's arguments, as far as they are known.
func (s *site) arguments() []uint64 { return s.room[:s.given] }

// calls fills in the call that a thread is in.
func (s *site) calls(by core.Caller) {
	var arguments []uint64
	s.function, arguments, s.inCall = by.Calling()
	if s.inCall {
		s.given = uint8(copy(s.room[:], arguments))
	}
}

// further returns a site for a further operation of a task, which must not share past with the first one.
func (s *site) further() *site {
	if s == nil || s.shared {
		return s
	}
	other := *s
	other.shared = true
	return &other
}

// here returns the call that t is in; t may be nil. Of plain calls, those from one place share a site. Checker.mu is
// held.
func (r *report) here(t *core.Thread, plain bool) *site {
	if t == nil {
		return &site{}
	}
	by := t.Caller()
	if by == nil {
		s := &site{thread: t.ID()}
		s.stack, s.api = r.stacks.here()
		return s
	}
	stack := r.stacks.by(by)
	if plain {
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

// ignored reports whether a thread has asked the checker to ignore it (ropeway/check.h).
func ignored(by core.Caller) bool {
	i, ok := by.(interface{ Ignored() bool })
	return ok && i.Ignored()
}

// frames returns the frames of a stack with their names.
func (r *report) frames(s *stack) []finding.Frame {
	if r.front == nil {
		return s.frames(nil, r.symbols.Frames)
	}
	return s.frames(r.front.FrameName, r.symbols.Frames)
}

// languageOf returns the language of the calls at an origin.
func (r *report) languageOf(from origin) finding.Language {
	if s := from.site; s != nil && s.stack != nil && len(s.stack.named) > 0 {
		return finding.Python
	}
	return r.language
}

// call formats the call of a site for people.
func (r *report) call(s *site) string {
	switch {
	case s == nil:
		return ""
	case s.api != "":
		return s.api
	case !s.inCall || r.front == nil:
		return ""
	}
	name, text := r.front.Describe(s.function, s.arguments())
	if s.cut {
		return r.languageOf(origin{site: s}).Name(name) + "(...)"
	}
	if l := r.languageOf(origin{site: s}); l.Name(name) != name {
		return l.Name(name) + "(" + r.front.PythonArguments(s.function, s.arguments()) + ")"
	}
	return name + "(" + text + ")"
}

// at returns an origin as a site of a finding.
func (r *report) at(role string, from origin) finding.Site {
	f := finding.Site{Role: role, Thread: from.thread}
	if from.task != 0 {
		number := from.stream
		f.Stream, f.Task = &number, from.task
	}
	if s := from.site; s != nil {
		f.Call, f.Stack = r.call(s), r.frames(s.stack)
		if f.Thread == 0 {
			f.Thread = s.thread
		}
	}
	return f
}

// accessBy returns the origin of an access to memory, usually outside of any call. Checker.mu is held.
func (r *report) accessBy(by core.Caller, thread uint32) origin {
	stack := r.stacks.by(by)
	s := &site{thread: thread, stack: stack, ignored: ignored(by)}
	s.calls(by)
	return origin{thread: thread, site: s}
}
