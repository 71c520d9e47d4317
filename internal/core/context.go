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
	rt      *Runtime // immutable
	dev     *Device  // immutable
	handle  Handle   // immutable
	primary bool     // immutable
	def     *Stream  // immutable; what a NULL stream means

	dead    atomic.Bool  // destroyed; stays in the table while it is current in some thread
	threads atomic.Int32 // threads it is current in
	failed  atomic.Int32 // code of the failure that stopped it; 0 while it works
	stops   atomic.Bool  // a stream asked for STOP_ON_FAILURE

	overflow atomic.Uintptr // device address of the overflow flag, 0 until asked for

	calls sync.Mutex // held while a host function of the context runs: there is one thread for them

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
	c := &Context{rt: d.rt, dev: d, primary: primary, streams: map[*Stream]struct{}{}}
	c.def = c.newStream(0, 0)
	c.handle = d.rt.contexts.add(c)
	if c.handle == 0 {
		c.def.end(true)
		d.release()
		return nil, driver.ErrNoMemory
	}
	return c, nil
}

// all lists the streams of the context, the default one among them.
func (c *Context) all() []*Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*Stream, 0, len(c.streams))
	for s := range c.streams {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *Stream) int { return cmp.Compare(a.id, b.id) }) // whoever goes through them does it the same way each time
	return list
}

// destroy ends the context: what its streams have queued is dropped, they and its memory go. The first caller does
// it and gets true, others return at once. t is who does it, nil if the process ends.
func (c *Context) destroy(t *Thread) bool {
	if c.dead.Swap(true) {
		return false
	}
	for _, s := range c.all() {
		s.goWith(t)
	}
	d := c.dev
	if a := c.overflow.Load(); a != 0 {
		d.dev.Load().Free(a) //nolint:errcheck // a program that freed it itself has done the work
	}
	locked(&d.mu, d.release)
	eachPart(c.rt, ContextCloser.ContextDestroyed)
	if c.threads.Load() == 0 {
		c.rt.contexts.remove(c.handle)
	}
	return true
}

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
	*context = c.handle
	t.given(c.resource())
	t.adopt(c)
	return nil
}

// adopt makes an explicit context current, unless the thread is fixed in one.
func (t *Thread) adopt(c *Context) {
	if !t.shared {
		t.use(c, t.primary)
	}
}

// DestroyContext is aclrtDestroyContext.
func (t *Thread) DestroyContext(context Handle) *Error {
	const api = "aclrtDestroyContext"
	if err := t.checkDestroyContext(context); err != nil {
		return err
	}
	c := t.rt.contexts.get(context)
	switch {
	case c == nil:
		return fail(api, abi.ErrRTContextNull, "context", "%#x is no context, or one that was destroyed", uintptr(context)).because(Gone, uintptr(context))
	case c.primary:
		return fail(api, abi.ErrRTContextNull, "context", "%#x is the primary context of device %d; aclrtResetDevice ends it", uintptr(context), c.dev.user)
	}
	err := t.gives(c.resource(), func() *Error {
		if !c.destroy(t) {
			return fail(api, abi.ErrRTContextReleaseError, "context", "%#x is being destroyed, or was and is still current in another thread", uintptr(context)).
				because(Gone, uintptr(context))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if t.explicit == c && !t.shared {
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
	c := t.rt.contexts.get(context)
	if c == nil || c.dead.Load() {
		return refused(api, "context", "%#x is no live context", uintptr(context)).because(Gone, uintptr(context))
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
	c := t.current()
	if c == nil {
		return noContext(api).quiet()
	}
	*context = c.handle
	return nil
}

// CtxGetSysParamOpt is aclrtCtxGetSysParamOpt.
func (t *Thread) CtxGetSysParamOpt(opt abi.SysParamOpt, value *int64) *Error {
	const api = "aclrtCtxGetSysParamOpt"
	c, err := t.checkCtxGetSysParamOpt(opt, value)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.set[opt] {
		return fail(api, abi.ErrRTSysparamoptNotSet, "opt", "option %d was never set in this context", opt).quiet()
	}
	*value = c.params[opt]
	return nil
}

// CtxSetSysParamOpt is aclrtCtxSetSysParamOpt.
func (t *Thread) CtxSetSysParamOpt(opt abi.SysParamOpt, value int64) *Error {
	const api = "aclrtCtxSetSysParamOpt"
	if err := t.checkCtxSetSysParamOpt(opt, value); err != nil {
		return err
	}
	if err := checkSysParam(api, opt, value); err != nil {
		return err
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	locked(&c.mu, func() { c.params[opt], c.set[opt] = value, true })
	t.rt.process.params[opt].Store(value)
	return nil
}

// CtxGetCurrentDefaultStream is aclrtCtxGetCurrentDefaultStream.
func (t *Thread) CtxGetCurrentDefaultStream(stream *Handle) *Error {
	c, err := t.checkCtxGetCurrentDefaultStream(stream)
	if err != nil {
		return err
	}
	*stream = c.def.handle
	return nil
}

// GetPrimaryCtxState is aclrtGetPrimaryCtxState.
func (t *Thread) GetPrimaryCtxState(deviceID int32, flags *uint32, active *int32) *Error {
	d, err := t.checkGetPrimaryCtxState(deviceID, flags, active)
	if err != nil {
		return err
	}
	*active = 0
	locked(&d.mu, func() {
		if d.primary != nil {
			*active = 1
		}
	})
	return nil
}

// CtxGetFloatOverflowAddr is aclrtCtxGetFloatOverflowAddr. The flag is a cell of device memory that is always 0: the
// runtime has no kernels that could overflow.
func (t *Thread) CtxGetFloatOverflowAddr(overflowAddr *Addr) *Error {
	const api = "aclrtCtxGetFloatOverflowAddr"
	c, err := t.checkCtxGetFloatOverflowAddr(overflowAddr)
	if err != nil {
		return err
	}
	if c.overflow.Load() == 0 {
		if err := c.makeOverflowFlag(); err != nil {
			return fromDriver(api, "", err)
		}
	}
	*overflowAddr = c.overflow.Load()
	return nil
}

// makeOverflowFlag takes a cell of device memory for the flag; it goes with the context.
func (c *Context) makeOverflowFlag() error {
	d := c.dev.dev.Load()
	if d == nil {
		return driver.ErrLost // the context was destroyed meanwhile
	}
	a, err := d.Alloc(overflowBytes, driver.PageNormal)
	if err != nil {
		return err
	}
	err = c.rt.drv.Run(driver.Op{Kind: driver.OpFill, Dst: a, N: overflowBytes, Width: 1})
	if err != nil || !c.overflow.CompareAndSwap(0, a) {
		d.Free(a) //nolint:errcheck // it was allocated just now
	}
	return err
}

// overflowBytes is the size of an overflow flag.
const overflowBytes = 64

// aborting refuses work while the device of the context drops its tasks.
func (c *Context) aborting(api string) *Error {
	if c.dev.aborting.Load() {
		return fail(api, abi.ErrRTDeviceTaskAbort, "", "device %d is aborting its tasks", c.dev.user)
	}
	return nil
}
