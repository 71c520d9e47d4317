package core

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// Context holds the streams of one device that belong together. A device has one primary context, counted by
// aclrtSetDevice, and any number of explicit ones.
type Context struct {
	Runtime *Runtime // immutable
	Device  *Device  // immutable
	Handle  Handle   // immutable
	primary bool     // immutable
	Default *Stream  // immutable; the stream that NULL names

	dead    atomic.Bool  // destroyed; it stays in the table while it is current in a thread
	threads atomic.Int32 // threads in which it is current
	failed  atomic.Int32 // code of the failure that stopped it, or 0
	stops   atomic.Bool  // a stream asked for STOP_ON_FAILURE

	overflow atomic.Uintptr // device address of the overflow buffer, 0 until asked for

	calls sync.Mutex // held while a host function of the context runs: one at a time

	captures CaptureCounts // open captures of its streams

	mu      sync.Mutex
	streams map[*Stream]struct{} // guarded by mu
	params  [3]int64             // guarded by mu; system parameters
	set     [3]bool              // guarded by mu
}

// newContext makes a context and its default stream. d.mu is held.
func (d *Device) newContext(primary bool) (*Context, error) {
	if err := d.hold(); err != nil {
		return nil, err
	}
	c := &Context{Runtime: d.Runtime, Device: d, primary: primary, streams: map[*Stream]struct{}{}}
	c.Default = c.newStream(0, 0)
	c.Handle = d.Runtime.contexts.Add(c)
	if c.Handle == 0 {
		c.Default.end(true)
		d.release()
		return nil, driver.ErrNoMemory
	}
	return c, nil
}

// all returns the streams of the context, including the default one.
func (c *Context) all() []*Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*Stream, 0, len(c.streams))
	for s := range c.streams {
		list = append(list, s)
	}
	// in a deterministic order
	slices.SortFunc(list, func(a, b *Stream) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// destroy ends the context: it drops the queued work, ends the streams and frees the context's memory. The first
// caller does it and gets true, others return at once. t is the calling thread, nil if the process ends.
func (c *Context) destroy(t *Thread) bool {
	if c.dead.Swap(true) {
		return false
	}
	for _, s := range c.all() {
		s.endWithContext(t)
	}
	eachPart(c.Runtime, func(p ContextEnder) { p.ContextEnding(t, c) })
	d := c.Device
	if a := c.overflow.Load(); a != 0 {
		d.Opened.Load().Free(a) //nolint:errcheck // the program may have freed it
	}
	Locked(&d.mu, d.release)
	eachPart(c.Runtime, ContextCloser.ContextDestroyed)
	if c.threads.Load() == 0 {
		c.Runtime.contexts.Remove(c.Handle)
	}
	return true
}

// Gone reports whether the context was destroyed or is being destroyed.
func (c *Context) Gone() bool { return c.dead.Load() }

// CreateContext is aclrtCreateContext.
func (t *Thread) CreateContext(context *Handle, deviceID int32) *Error {
	const api = "aclrtCreateContext"
	d, refusal := t.checkCreateContext(context, deviceID)
	if refusal != nil {
		return refusal
	}
	d.mu.Lock()
	c, err := d.newContext(false)
	d.mu.Unlock()
	if err != nil {
		return notSetUp(api, deviceID, err)
	}
	*context = c.Handle
	t.Acquired(c.resource())
	t.adopt(c)
	return nil
}

// adopt makes an explicit context current, unless the thread cannot change its context.
func (t *Thread) adopt(c *Context) {
	if !t.Shared {
		t.use(c, t.Primary)
	}
}

// DestroyContext is aclrtDestroyContext.
func (t *Thread) DestroyContext(context Handle) *Error {
	const api = "aclrtDestroyContext"
	if err := t.checkDestroyContext(context); err != nil {
		return err
	}
	c := t.Runtime.contexts.Get(context)
	switch {
	case c == nil:
		return Fail(api, abi.ErrRTContextNull, "context", "%#x is no context, or one that was destroyed",
			uintptr(context)).Because(Gone, uintptr(context))
	case c.primary:
		return Fail(api, abi.ErrRTContextNull, "context",
			"%#x is the primary context of device %d; aclrtResetDevice ends it", uintptr(context), c.Device.User)
	}
	err := t.Releasing(c.resource(), func() *Error {
		if !c.destroy(t) {
			return Fail(api, abi.ErrRTContextReleaseError, "context",
				"%#x is being destroyed, or was and is still current in another thread", uintptr(context)).
				Because(Gone, uintptr(context))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if t.Explicit == c && !t.Shared {
		t.use(nil, nil)
	}
	return nil
}

// SetCurrentContext is aclrtSetCurrentContext.
func (t *Thread) SetCurrentContext(context Handle) *Error {
	const api = "aclrtSetCurrentContext"
	if err := t.checkSetCurrentContext(context); err != nil {
		return err
	}
	c := t.Runtime.contexts.Get(context)
	if c == nil || c.dead.Load() {
		return Refused(api, "context", "%#x is no live context", uintptr(context)).Because(Gone, uintptr(context))
	}
	t.adopt(c)
	return nil
}

// GetCurrentContext is aclrtGetCurrentContext.
func (t *Thread) GetCurrentContext(context *Handle) *Error {
	const api = "aclrtGetCurrentContext"
	if err := t.checkGetCurrentContext(context); err != nil {
		return err
	}
	c := t.Current()
	if c == nil {
		return NoCurrentContext(api).NotRecorded()
	}
	*context = c.Handle
	return nil
}

// CtxGetSysParamOpt is aclrtCtxGetSysParamOpt.
func (t *Thread) CtxGetSysParamOpt(opt abi.SysParamOpt, value *int64) *Error {
	const api = "aclrtCtxGetSysParamOpt"
	c, err := t.checkCtxGetSysParamOpt(opt, value)
	if err != nil {
		return err
	}
	var now int64
	var set bool
	Locked(&c.mu, func() { now, set = c.params[opt], c.set[opt] })
	if !set {
		return Fail(api, abi.ErrRTSysparamoptNotSet, "opt", "option %d was never set in this context",
			opt).NotRecorded()
	}
	*value = now
	return nil
}

// CtxSetSysParamOpt is aclrtCtxSetSysParamOpt.
func (t *Thread) CtxSetSysParamOpt(opt abi.SysParamOpt, value int64) *Error {
	const api = "aclrtCtxSetSysParamOpt"
	if err := t.checkCtxSetSysParamOpt(opt, value); err != nil {
		return err
	}
	if err := CheckSysParam(api, opt, value); err != nil {
		return err
	}
	c := t.Current()
	if c == nil {
		return NoCurrentContext(api)
	}
	Locked(&c.mu, func() { c.params[opt], c.set[opt] = value, true })
	t.Runtime.Params[opt].Store(value)
	return nil
}

// CtxGetCurrentDefaultStream is aclrtCtxGetCurrentDefaultStream.
func (t *Thread) CtxGetCurrentDefaultStream(stream *Handle) *Error {
	c, err := t.checkCtxGetCurrentDefaultStream(stream)
	if err != nil {
		return err
	}
	*stream = c.Default.Handle
	return nil
}

// GetPrimaryCtxState is aclrtGetPrimaryCtxState.
func (t *Thread) GetPrimaryCtxState(deviceID int32, flags *uint32, active *int32) *Error {
	d, err := t.checkGetPrimaryCtxState(deviceID, flags, active)
	if err != nil {
		return err
	}
	var is int32
	Locked(&d.mu, func() {
		if d.primary != nil {
			is = 1
		}
	})
	*active = is
	return nil
}

// Aborting refuses work while the device of the context drops its tasks.
func (c *Context) Aborting(api string) *Error {
	if c.Device.aborting.Load() {
		return Fail(api, abi.ErrRTDeviceTaskAbort, "", "device %d is aborting its tasks", c.Device.User)
	}
	return nil
}

// CheckSysParam refuses values that a system parameter cannot have.
func CheckSysParam(api string, opt abi.SysParamOpt, value int64) *Error {
	limit := int64(2)
	if opt == abi.OptDeterministic {
		limit = 4
	}
	if value < 0 || value >= limit {
		return Refused(api, "value", "%d is not 0 to %d for option %d", value, limit-1, opt)
	}
	return nil
}
