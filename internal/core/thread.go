package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/observe"
)

// Thread is one thread of the program: its current context, its last error, its error texts. It belongs to that
// thread, or, made by ThreadIn, to everybody, and is then never written.
type Thread struct {
	rt       *Runtime
	id       uint32 // operating system's number, 0 if unknown
	pthread  uint64 // pthread id, 0 if unknown: how aclrtSubscribeReport names it
	shared   bool   // made by ThreadIn: nothing is remembered
	explicit *Context
	primary  *Context // of the last aclrtSetDevice
	last     abi.Code
	texts    []text
	lastTask uint32
	nearSrc  places  // where the last asynchronous copy read
	nearDst  places  // and wrote
	pass     pass    // what its checks have shown
	limits   *Stream // whose core limits the thread uses

	captureMode abi.MdlRICaptureMode // of aclmdlRICaptureThreadExchangeMode; read by nothing else until captures are built

	pushed []any        // ranges of aclprofPush that are not popped; package info has them
	caller Caller       // knows what the thread is doing; nil unless somebody watches
	call   OngoingCall  // for who observes
	copied observe.Task // that the call made, if it says so
}

// NewThread makes the state of a thread that has no context. id is the operating system's number of it.
func (rt *Runtime) NewThread(id uint32) *Thread { return &Thread{rt: rt, id: id} }

// ThreadIn makes a thread that is for ever in one context, remembers no errors, and may be used concurrently.
func (rt *Runtime) ThreadIn(c Handle) *Thread {
	return &Thread{rt: rt, shared: true, explicit: rt.contexts.get(c)}
}

// Runtime is what the thread belongs to.
func (t *Thread) Runtime() *Runtime { return t.rt }

// Close lets go of the thread's context: the thread has ended.
func (t *Thread) Close() {
	if t.shared {
		return
	}
	t.use(nil, nil)
	t.rt.forgetThread(t)
}

// Done records how a call ended and returns its code.
func (t *Thread) Done(err *Error) abi.Code {
	if err == nil {
		return abi.Success
	}
	if err.recorded() && !t.shared {
		t.last = err.Code
	}
	if w := t.rt.watch; w != nil {
		w.Refused(t, err)
	}
	if !err.Minor {
		t.remember(err)
	}
	t.logError(err)
	return err.Code
}

// current is the context calls act on, or nil.
func (t *Thread) current() *Context {
	c := t.explicit
	if c == nil {
		c = t.primary
	}
	if c == nil {
		c = t.fallback()
	}
	if c == nil || c.dead.Load() {
		return nil
	}
	return c
}

// fallback is the primary context of the configured default device, retained when a thread first needs it.
func (t *Thread) fallback() *Context {
	id := t.rt.defaultDevice.Load()
	if id == 0 || t.shared {
		return nil
	}
	c, err := t.rt.device(id - 1).retain()
	if err != nil {
		return nil
	}
	t.use(nil, c)
	return c
}

// use changes the thread's contexts. Contexts count the threads they are current in.
func (t *Thread) use(explicit, primary *Context) {
	for _, c := range [...]*Context{explicit, primary} {
		if c != nil {
			c.threads.Add(1)
		}
	}
	for _, c := range [...]*Context{t.explicit, t.primary} {
		if c != nil && c.threads.Add(-1) == 0 && c.dead.Load() {
			t.rt.contexts.remove(c.handle)
		}
	}
	t.explicit, t.primary = explicit, primary
}

// noContext is the answer to a thread without a context.
func noContext(api string) *Error {
	return fail(api, abi.ErrRTContextNull, "", "this thread has no current context; call aclrtSetDevice or aclrtSetCurrentContext in it first").because(NoContext, 0)
}

// stream finds the stream a handle names; NULL gives nil, which means the default stream of whatever context comes out.
func (t *Thread) stream(api, arg string, h Handle) (*Stream, *Error) {
	if h == 0 {
		return nil, nil
	}
	if p := &t.pass; h == p.stream && p.slot.handle.Load() == uintptr(h) {
		t.about(p.s)
		return p.s, nil
	}
	if s := t.rt.streams.get(h); s != nil {
		t.about(s)
		return s, nil
	}
	return nil, fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no stream, or one that was destroyed", uintptr(h)).because(Gone, uintptr(h))
}

// on returns the stream to submit to: s, or c's default stream. A stream of another context is refused.
func (c *Context) on(api string, s *Stream) (*Stream, *Error) {
	if s == nil {
		return c.def, nil
	}
	if s.ctx != c {
		return nil, fail(api, abi.ErrRTStreamContext, "stream", "stream %d belongs to context %#x, but %#x is current in this thread", s.id, uintptr(s.ctx.handle), uintptr(c.handle)).because(OtherContext, 0)
	}
	return s, nil
}

// noDefault refuses the default stream where a product has no such use for it, and where there is none.
func (t *Thread) noDefault(api string, s *Stream, c *Context) *Error {
	switch {
	case s != nil:
		return nil
	case !t.rt.prod.Modern:
		return refused(api, "stream", "is NULL, the default stream, which %s does not allow here", t.rt.prod.Name)
	case c == nil:
		return refused(api, "stream", "is NULL, the default stream, but this thread has no current context")
	}
	return nil
}

// named is the stream a handle names, or the current context's default stream. Streams of other contexts are taken.
func (t *Thread) named(api string, s *Stream) (*Stream, *Error) {
	if s != nil {
		return s, nil
	}
	c := t.current()
	if c == nil {
		return nil, noContext(api)
	}
	return c.def, nil
}

// signalling is the stream of the current context that a record or a wait goes to.
func (t *Thread) signalling(api string, s *Stream) (*Stream, *Error) {
	c := t.current()
	if c == nil {
		return nil, noContext(api)
	}
	return c.on(api, s)
}
