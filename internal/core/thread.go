package core

import (
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core/message"
	"ropeway/internal/observe"
)

// Thread is one thread of the program: its current context, its last error, its error texts. That thread owns it; one
// from ThreadIn is shared, and never written.
type Thread struct {
	Runtime    *Runtime
	id         uint32 // operating system's number, 0 if unknown
	pthread    uint64 // pthread id, 0 if unknown: how aclrtSubscribeReport names it
	Shared     bool   // made by ThreadIn: nothing is remembered
	Explicit   *Context
	Primary    *Context // of the last aclrtSetDevice
	Last       abi.Code
	texts      message.Texts
	lastTask   uint32
	lastStream int32
	Limits     *Stream  // whose core limits the thread uses
	lent       *Context // whose host function the thread runs; see Lend

	captureMode abi.MdlRICaptureMode // of aclmdlRICaptureThreadExchangeMode
	captures    CaptureCounts        // open captures that the thread began

	Pushed []any        // ranges of aclprofPush that are not popped; see core/process/marks.go
	caller Caller       // describes the thread's call; nil without a checker
	Call   OngoingCall  // for a tracer
	copied observe.Task // copy made by the call, if Call.copied is set
}

// NewThread returns the state of a thread without a context. id is the operating system's number of the thread.
func (rt *Runtime) NewThread(id uint32) *Thread { return &Thread{Runtime: rt, id: id} }

// ThreadIn returns a thread that stays in one context, keeps no errors, and may be used concurrently.
func (rt *Runtime) ThreadIn(c Handle) *Thread {
	return &Thread{Runtime: rt, Shared: true, Explicit: rt.contexts.Get(c)}
}

// Close releases the thread's context after the thread has ended.
func (t *Thread) Close() {
	if t.Shared {
		return
	}
	t.use(nil, nil)
	t.Runtime.callbacks.reports.ThreadGone(t.pthread)
	eachPart(t.Runtime, func(p ThreadCloser) { p.ThreadClosed(t) })
}

// Done records the result of a call and returns its code.
func (t *Thread) Done(err *Error) abi.Code {
	if err == nil {
		return abi.Success
	}
	if err.Recorded() && !t.Shared {
		t.Last = err.Code
	}
	t.ReportRefused(err)
	if !err.Minor {
		t.remember(err)
	}
	t.LogError(err)
	return err.Code
}

// Current returns the context that calls use, or nil.
func (t *Thread) Current() *Context {
	c := t.Explicit
	if c == nil {
		c = t.Primary
	}
	if c == nil {
		c = t.lent
	}
	if c == nil {
		c = t.fallback()
	}
	if c == nil || c.dead.Load() {
		return nil
	}
	return c
}

// Lend makes c, or nothing if c is nil, the current context of a thread that has none of its own: the context whose
// host function it runs.
func (t *Thread) Lend(c *Context) { t.lent = c }

// fallback returns the primary context of the configured default device, which the first call retains.
func (t *Thread) fallback() *Context {
	id := t.Runtime.DefaultDevice.Load()
	if id == 0 || t.Shared {
		return nil
	}
	c, err := t.Runtime.Device(id - 1).retain()
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
	for _, c := range [...]*Context{t.Explicit, t.Primary} {
		if c != nil && c.threads.Add(-1) == 0 && c.dead.Load() {
			t.Runtime.contexts.Remove(c.Handle)
		}
	}
	t.Explicit, t.Primary = explicit, primary
}

// NoCurrentContext returns the error for a thread without a context.
func NoCurrentContext(api string) *Error {
	return Fail(api, abi.ErrRTContextNull, "",
		"this thread has no current context; call aclrtSetDevice or aclrtSetCurrentContext in it first").
		Because(NoContext, 0)
}

// Stream returns the stream of a handle; nil for NULL, which means the default stream of the context found later.
func (t *Thread) Stream(api, arg string, h Handle) (*Stream, *Error) {
	if h == 0 {
		return nil, nil
	}
	if slot := t.Runtime.Streams.Slot(h); slot != nil { // Get is not inlined
		if s := slot.Object(h); s != nil {
			t.about(s)
			return s, nil
		}
	}
	return nil, Fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no stream, or one that was destroyed",
		uintptr(h)).Because(Gone, uintptr(h))
}

// On returns the stream to submit to: s, or c's default stream. A stream of another context is refused.
func (c *Context) On(api string, s *Stream) (*Stream, *Error) {
	if s == nil {
		return c.Default, nil
	}
	if s.Context != c {
		return nil, Fail(api, abi.ErrRTStreamContext, "stream",
			"stream %d belongs to context %#x, but %#x is current in this thread", s.ID, uintptr(s.Context.Handle),
			uintptr(c.Handle)).Because(OtherContext, 0)
	}
	return s, nil
}

// NoDefault refuses the default stream if the product does not allow it for the call, and if there is none.
func (t *Thread) NoDefault(api string, s *Stream, c *Context) *Error {
	switch {
	case s != nil:
		return nil
	case !t.Runtime.Product.Modern:
		return Refused(api, "stream", "is NULL, the default stream, which %s does not allow here",
			t.Runtime.Product.Name)
	case c == nil:
		return Refused(api, "stream", "is NULL, the default stream, but this thread has no current context")
	}
	return nil
}

// StreamOrDefault returns s, or the current context's default stream if s is nil. It accepts streams of other contexts.
func (t *Thread) StreamOrDefault(api string, s *Stream) (*Stream, *Error) {
	if s != nil {
		return s, nil
	}
	c := t.Current()
	if c == nil {
		return nil, NoCurrentContext(api)
	}
	return c.Default, nil
}

// StreamOfCurrent returns the stream of the current context for a record or a wait.
func (t *Thread) StreamOfCurrent(api string, s *Stream) (*Stream, *Error) {
	c := t.Current()
	if c == nil {
		return nil, NoCurrentContext(api)
	}
	return c.On(api, s)
}

// Lacks returns the error of a product whose documents do not list the function api, or nil.
func (t *Thread) Lacks(api string) *Error {
	if t.Runtime.Product.Has(api) {
		return nil
	}
	return Unsupported(api, "", "%s does not have this function", t.Runtime.Product.Name)
}

// Product reports whether the product is one of these; the 310 counts as a 310P unless it is named itself.
func (t *Thread) Product(names ...string) bool {
	name := t.Runtime.Product.Name
	return slices.Contains(names, name) || name == "310" && slices.Contains(names, "310P")
}
