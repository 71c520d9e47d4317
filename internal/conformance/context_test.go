package conformance

import (
	"slices"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// context makes an explicit context on device 0, current in th.
func context(e *env, th *core.Thread) core.Handle {
	e.Helper()
	var c core.Handle
	e.ok(th.CreateContext(&c, 0))
	return c
}

// contextOf is th's current context, 0 without one.
func contextOf(e *env, th *core.Thread) core.Handle {
	e.Helper()
	var c core.Handle
	if err := th.GetCurrentContext(&c); err != nil {
		e.want(err, abi.ErrRTContextNull)
	}
	return c
}

// withDead is a thread whose current context another thread has destroyed, and that context.
func withDead(e *env) (*core.Thread, core.Handle) {
	e.Helper()
	o := e.stranger()
	c := context(e, o)
	e.ok(e.th.DestroyContext(c))
	return o, c
}

func init() {
	prove("aclrtCreateContext", "device-fails", func(e *env) *core.Error {
		e.faults.FailAll(faulty.Open, driver.ErrLost)
		was := contextOf(e, e.th)
		c := garbage
		err := e.th.CreateContext(&c, 1)
		is(e, "untouched output", c, garbage)
		is(e, "current context", contextOf(e, e.th), was)
		return err
	})
	behaves("aclrtCreateContext", func(e *env) {
		var c, def, own core.Handle
		primary := contextOf(e, e.th)
		e.ok(e.th.CtxGetCurrentDefaultStream(&def))
		e.ok(e.th.CreateContext(&c, 2))
		is(e, "current context", contextOf(e, e.th), c)
		is(e, "its device", current(e, e.th), 2)
		e.ok(e.th.CtxGetCurrentDefaultStream(&own))
		if c == primary || own == def {
			e.Error("the context is not one of its own")
		}
		var active int32
		e.ok(e.th.GetPrimaryCtxState(2, nil, &active))
		is(e, "the primary context is not made", active, 0)
	})

	prove("aclrtDestroyContext", "context-unknown", func(e *env) *core.Error {
		c := context(e, e.th)
		e.ok(e.th.DestroyContext(c))
		e.want(e.th.DestroyContext(c), abi.ErrRTContextNull) // gone, since nobody has it current
		o := e.stranger()
		c = context(e, o)
		e.ok(o.SetDevice(0)) // nobody has it current before it goes
		e.ok(e.th.DestroyContext(c))
		e.want(e.th.DestroyContext(c), abi.ErrRTContextNull)
		e.want(e.th.DestroyContext(e.foreign()), abi.ErrRTContextNull)
		return e.th.DestroyContext(garbage)
	})
	prove("aclrtDestroyContext", "primary", func(e *env) *core.Error {
		c := contextOf(e, e.th)
		err := e.th.DestroyContext(c)
		is(e, "current context", contextOf(e, e.th), c)
		e.ok(e.stranger().ResetDevice(0))
		e.want(e.th.DestroyContext(c), abi.ErrRTContextNull) // dead and still current here, but primary comes first
		return err
	})
	prove("aclrtDestroyContext", "destroyed", func(e *env) *core.Error {
		o, c := withDead(e)
		err := e.th.DestroyContext(c)
		e.ok(o.SetDevice(0)) // now nobody has it
		e.want(e.th.DestroyContext(c), abi.ErrRTContextNull)
		return err
	})
	behaves("aclrtDestroyContext", func(e *env) {
		c := context(e, e.th)
		s := e.stream()
		started, gate := make(chan struct{}), make(chan struct{})
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { close(started); <-gate }, 0))
		<-started
		p := e.device(64)
		e.ok(transfer.Memset(e.th, p, 64, 1, 64))
		e.ok(transfer.MemsetAsync(e.th, p, 64, 2, 64, s))
		// what runs is waited for
		e.ok(e.waits(func() { close(gate) }, func() *core.Error { return e.th.DestroyContext(c) }))
		is(e, "no context", contextOf(e, e.th), 0)
		e.want(e.th.SynchronizeStream(s), abi.ErrRTInvalidHandle)
		is(e, "memory belongs to the device", e.attributes(p).Location.Type, abi.MemLocationTypeDevice)
		e.ok(e.th.SetDevice(0))
		e.holds(p, slices.Repeat([]byte{1}, 64)) // and what is queued is dropped

		o, dead := withDead(e)
		is(e, "a dead context", contextOf(e, o), 0)
		e.want(o.CreateStream(new(core.Handle)), abi.ErrRTContextNull)
		e.want(e.th.SetCurrentContext(dead), abi.ErrRTParamInvalid)

		for range 20 { // of several at once, one does it
			c := context(e, e.rt.NewThread(4))
			var ends [3]*core.Error
			var all sync.WaitGroup
			for i := range ends {
				all.Go(func() { ends[i] = e.rt.NewThread(5).DestroyContext(c) })
			}
			all.Wait()
			done := 0
			for _, err := range ends {
				if err == nil {
					done++
				} else {
					e.want(err, abi.ErrRTContextReleaseError)
				}
			}
			is(e, "successes", done, 1)
		}
	})

	prove("aclrtSetCurrentContext", "context-not-live", func(e *env) *core.Error {
		_, dead := withDead(e)
		was := contextOf(e, e.th)
		e.want(e.th.SetCurrentContext(dead), abi.ErrRTParamInvalid)
		e.want(e.th.SetCurrentContext(e.stream()), abi.ErrRTParamInvalid)
		err := e.th.SetCurrentContext(garbage)
		is(e, "current context", contextOf(e, e.th), was)
		return err
	})
	behaves("aclrtSetCurrentContext", func(e *env) {
		primary := contextOf(e, e.th)
		c := context(e, e.stranger())
		o := e.rt.NewThread(4)
		for _, th := range []*core.Thread{e.th, o} { // several threads share one
			for _, want := range []core.Handle{c, primary} {
				e.ok(th.SetCurrentContext(want))
				is(e, "current context", contextOf(e, th), want)
			}
		}
	})

	prove("aclrtGetCurrentContext", "none", func(e *env) *core.Error {
		c := garbage
		err := e.stranger().GetCurrentContext(&c)
		is(e, "untouched output", c, garbage)
		return err
	})
	behaves("aclrtGetCurrentContext", func(e *env) {
		primary := contextOf(e, e.th)
		c := context(e, e.th)
		if primary == 0 || primary == c {
			e.Errorf("primary %#x, explicit %#x", primary, c)
		}
		is(e, "the explicit one", contextOf(e, e.th), c)
		e.ok(e.th.SetDevice(0))
		is(e, "the primary one again", contextOf(e, e.th), primary)
	})

	prove("aclrtCtxGetSysParamOpt", "never-set", func(e *env) *core.Error {
		e.ok(process.SetSysParamOpt(e.th, abi.OptStrongConsistency, 1)) // of the process
		e.ok(e.th.CtxSetSysParamOpt(abi.OptDeterministic, 1))           // another option
		v := int64(7)
		err := e.th.CtxGetSysParamOpt(abi.OptStrongConsistency, &v)
		is(e, "untouched output", v, 7)
		return err
	})
	behaves("aclrtCtxGetSysParamOpt", func(e *env) {
		e.ok(e.th.CtxSetSysParamOpt(abi.OptDeterministic, 3))
		e.ok(process.SetSysParamOpt(e.stranger(), abi.OptDeterministic, 2)) // the process does not change the context
		v := int64(7)
		e.ok(e.th.CtxGetSysParamOpt(abi.OptDeterministic, &v))
		is(e, "value", v, 3)
		context(e, e.th)
		e.want(e.th.CtxGetSysParamOpt(abi.OptDeterministic, &v), abi.ErrRTSysparamoptNotSet)
	})

	prove("aclrtCtxSetSysParamOpt", "value-range", func(e *env) *core.Error {
		for o, most := range []int64{3, 1, 1} {
			e.want(e.stranger().CtxSetSysParamOpt(abi.SysParamOpt(o), -1), abi.ErrRTParamInvalid)
			e.want(e.stranger().CtxSetSysParamOpt(abi.SysParamOpt(o), most+1), abi.ErrRTParamInvalid)
		}
		return e.stranger().CtxSetSysParamOpt(abi.OptDeterministic, 4)
	})
	behaves("aclrtCtxSetSysParamOpt", func(e *env) {
		for o, most := range []int64{3, 1, 1} {
			opt := abi.SysParamOpt(o)
			for _, want := range []int64{0, most} {
				e.ok(e.th.CtxSetSysParamOpt(opt, want))
				v := int64(7)
				e.ok(e.th.CtxGetSysParamOpt(opt, &v))
				is(e, "context value", v, want)
				is(e, "process value", param(e, opt), want)
			}
		}
	})

	behaves("aclrtCtxGetCurrentDefaultStream", func(e *env) {
		var s core.Handle
		e.ok(e.th.CtxGetCurrentDefaultStream(&s))
		release := e.block(0)
		var status abi.StreamStatus
		e.ok(e.th.StreamQuery(s, &status)) // it is what NULL means
		is(e, "status", status, abi.StreamStatusNotReady)
		release()
		e.ok(e.th.SynchronizeStream(s))
	})

	behaves("aclrtGetPrimaryCtxState", func(e *env) {
		state := func(id int32) int32 {
			active := int32(7)
			e.ok(e.stranger().GetPrimaryCtxState(id, nil, &active))
			return active
		}
		is(e, "set", state(0), 1)
		is(e, "not set", state(1), 0)
		is(e, "asking does not set", state(1), 0)
		e.ok(e.th.ResetDevice(0))
		is(e, "reset", state(0), 0)
	})

	behaves("aclrtCtxGetFloatOverflowAddr", func(e *env) {
		var p, again, other core.Addr
		e.ok(e.th.CtxGetFloatOverflowAddr(&p))
		e.holds(p, make([]byte, 64))
		e.ok(e.th.CtxGetFloatOverflowAddr(&again))
		is(e, "the same each time", again, p)
		c := context(e, e.th)
		e.ok(e.th.CtxGetFloatOverflowAddr(&other))
		if other == p {
			e.Error("two contexts share a flag")
		}
		e.ok(e.th.DestroyContext(c))
		e.ok(e.th.SetDevice(0))
		is(e, "it goes with its context", e.attributes(other).Location.Type, abi.MemLocationTypeUnregistered)

		context(e, e.th)
		e.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
		e.want(e.th.CtxGetFloatOverflowAddr(&p), abi.ErrRTMemoryAllocation)
		e.faults.Fail(faulty.Run, 1, driver.ErrLost)
		e.want(e.th.CtxGetFloatOverflowAddr(&p), abi.ErrRTLostHeartbeat)
		e.ok(e.th.CtxGetFloatOverflowAddr(&p))
	})
}
