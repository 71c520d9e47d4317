package conformance

import (
	"fmt"
	"slices"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
)

const stop, goOn = abi.StopOnFailure, abi.ContinueOnFailure

func init() {
	proveFailureMode()
	proveOverflow()
	proveAbort()
	proveAttributes()
	proveStateCallbacks()
}

func proveFailureMode() {
	prove("aclrtSetStreamFailureMode", "not-offered", func(e *env) *core.Error {
		return e.on(machine{product: "310"}).stranger().SetStreamFailureMode(0, stop)
	})
	prove("aclrtSetStreamFailureMode", "no-default-stream", func(e *env) *core.Error {
		for _, p := range []string{"310B", "310P", "910"} {
			e.want(e.on(machine{product: p}).th.SetStreamFailureMode(0, goOn), abi.ErrRTParamInvalid)
		}
		return e.stranger().SetStreamFailureMode(0, goOn)
	})
	prove("aclrtSetStreamFailureMode", "stream-device-only", func(e *env) *core.Error {
		return e.stranger().SetStreamFailureMode(flagged(e, abi.StreamDeviceUseOnly), goOn)
	})
	prove("aclrtSetStreamFailureMode", "unchanged", func(e *env) *core.Error {
		s := e.stream()
		e.ok(e.th.SetStreamFailureMode(s, stop))
		e.ok(e.elsewhere().SetStreamFailureMode(s, stop))
		return e.th.SetStreamFailureMode(e.foreign(), 2) // only bit 0 counts
	})
	prove("aclrtSetStreamFailureMode", "stops-already", func(e *env) *core.Error {
		s := e.stream()
		e.ok(e.th.SetStreamFailureMode(s, stop))
		failsOn(e, s, fault)
		e.want(e.th.SynchronizeStream(s), faultCode)
		return e.elsewhere().SetStreamFailureMode(s, goOn)
	})
	prove("aclrtSetStreamFailureMode", "stream-failed", func(e *env) *core.Error {
		s, other := e.stream(), e.stream()
		e.ok(e.th.SetStreamFailureMode(s, stop))
		failsOn(e, s, fault)
		e.want(e.th.SynchronizeStream(s), faultCode)
		return e.elsewhere().SetStreamFailureMode(other, stop)
	})
	behaves("aclrtSetStreamFailureMode", func(e *env) {
		// By default what follows a failure runs.
		s, p := e.stream(), e.device(64)
		e.write(p, make([]byte, 64))
		failsOn(e, s, fault)
		e.ok(transfer.MemsetAsync(e.th, p, 64, 1, 64, s))
		e.want(e.th.SynchronizeStream(s), faultCode)
		if b := e.read(p, 64); b[0] != 1 {
			e.Error("the task behind the failed one did not run")
		}
		// One stream that stops on failure stops the context: what is behind, in other streams, what comes later.
		other := e.stream()
		gate := e.block(other)
		e.ok(e.th.SetStreamFailureMode(s, stop))
		e.ok(e.th.LaunchHostFunc(other, func(core.Addr) { e.Error("a task of another stream ran") }, 0))
		third := e.stream()
		failsOn(e, third, fault)
		e.want(e.th.SynchronizeStream(third), faultCode)
		gate()
		for _, s := range []core.Handle{0, s, third, other} {
			e.want(e.th.SynchronizeStream(s), faultCode)
			e.want(transfer.MemsetAsync(e.th, p, 64, 2, 64, s), faultCode)
		}
		e.want(e.th.SynchronizeDevice(), faultCode)
		// Another context of the device works.
		th := e.elsewhere()
		e.ok(transfer.MemsetAsync(th, p, 64, 3, 64, 0))
		e.ok(th.SynchronizeStream(0))
		if b := e.read(p, 64); b[0] != 3 {
			e.Errorf("the memory holds %d", b[0])
		}
	})
}

func proveOverflow() {
	behaves("aclrtSetStreamOverflowSwitch", func(e *env) {
		a, b := e.stream(), e.stream()
		e.ok(e.th.SetStreamOverflowSwitch(a, 1))
		if got := []uint32{overflow(e, a), overflow(e, b), overflow(e, 0)}; !slices.Equal(got, []uint32{1, 0, 0}) {
			e.Errorf("switches %v", got)
		}
		e.ok(e.th.SetStreamOverflowSwitch(a, 0))
		e.ok(e.th.SetStreamOverflowSwitch(0, 1))
		if got := []uint32{overflow(e, a), overflow(e, 0)}; !slices.Equal(got, []uint32{0, 1}) {
			e.Errorf("switches %v", got)
		}
	})

	behaves("aclrtGetStreamOverflowSwitch", func(e *env) {
		s := e.stream()
		if overflow(e, s) != 0 {
			e.Error("it starts switched on")
		}
		e.ok(e.th.SetStreamOverflowSwitch(s, 1))
		if overflow(e, s) != 1 {
			e.Error("it was not switched on")
		}
	})
}

// overflow is the overflow switch of a stream.
func overflow(e *env, s core.Handle) uint32 {
	e.Helper()
	v := uint32(9)
	e.ok(e.th.GetStreamOverflowSwitch(s, &v))
	return v
}

func proveAbort() {
	small := machine{product: "310P"}
	prove("aclrtStreamAbort", "not-offered", func(e *env) *core.Error {
		for _, p := range []string{"310B", "910"} {
			e := e.on(machine{product: p})
			e.want(e.th.StreamAbort(e.stream()), abi.ErrRTFeatureNotSupport)
		}
		e = e.on(small)
		return e.th.StreamAbort(e.stream())
	})
	prove("aclrtStreamAbort", "aborting", func(e *env) *core.Error {
		e.rt.SetAbortPatience(time.Millisecond)
		var err *core.Error
		abortingDevice0(e, func(busy core.Handle) { err = e.th.StreamAbort(busy) }) // 107019 if it did look
		return err
	})
	prove("aclrtStreamAbort", "time-up", func(e *env) *core.Error {
		e.rt.SetAbortPatience(5 * time.Millisecond)
		s, _ := e.busy()
		return e.th.StreamAbort(s)
	})
	behaves("aclrtStreamAbort", func(e *env) {
		for _, s := range []core.Handle{e.stream(), 0} {
			p := e.device(64)
			e.write(p, make([]byte, 64))
			failsOn(e, s, fault)
			stick(e, s)
			e.ok(transfer.MemsetAsync(e.th, p, 64, 1, 64, s))
			e.want(e.waits(func() { e.ok(e.sibling().StreamAbort(s)) },
				func() *core.Error { return e.th.SynchronizeStream(s) }), abi.ErrRTStreamAbort)
			// What was queued is gone, earlier failures with it, and the stream works.
			e.ok(e.th.SynchronizeStream(s))
			if b := e.read(p, 64); b[0] != 0 {
				e.Error("a task that was dropped ran")
			}
			e.ok(transfer.MemsetAsync(e.th, p, 64, 2, 64, s))
			e.ok(e.th.SynchronizeStream(s))
			if b := e.read(p, 64); b[0] != 2 {
				e.Error("the stream does not work afterwards")
			}
			e.ok(e.th.UnSubscribeReport(nobody, s))
		}
		// Other streams are left alone.
		a, release := e.busy()
		ran := false
		e.ok(e.th.LaunchHostFunc(a, func(core.Addr) { ran = true }, 0))
		e.ok(e.th.StreamAbort(e.stream()))
		release()
		e.ok(e.th.SynchronizeStream(a))
		if !ran {
			e.Error("a task of another stream was dropped")
		}
	})

	behaves("aclrtStreamStop", func(e *env) {
		s, release := e.busy()
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { e.Error("a task behind the running one ran") }, 0))
		e.ok(e.within(func() *core.Error { return e.stranger().StreamStop(s) })) // it does not wait
		release()
		e.ok(e.th.SynchronizeStream(s))
		ran := false
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { ran = true }, 0))
		e.ok(e.th.SynchronizeStream(s))
		if !ran {
			e.Error("the stream does not work afterwards")
		}
		s = stuck(e)
		e.want(e.waits(func() { e.ok(e.stranger().StreamStop(s)) },
			func() *core.Error { return e.th.SynchronizeStream(s) }), abi.ErrRTStreamAbort)
	})

	prove("aclrtPersistentTaskClean", "not-persistent", func(e *env) *core.Error {
		for _, s := range []core.Handle{e.stream(), flagged(e, abi.StreamCpuSchedule),
			flagged(e, abi.StreamCpuSchedule|abi.StreamPersistent)} {
			e.want(e.th.PersistentTaskClean(s), abi.ErrRTInternalError)
		}
		return e.th.PersistentTaskClean(flagged(e, abi.StreamPersistent)) // bound to no model
	})
}

func proveAttributes() {
	small := machine{product: "310P"}
	const unknown, tag, cache, priority = abi.StreamAttr(6), abi.StreamAttrUserCustomTag, abi.StreamAttrCacheOpInfo,
		abi.StreamAttrPriority
	prove("aclrtSetStreamAttribute", "as-single-call", func(e *env) *core.Error {
		var v abi.StreamAttrValue
		// Failure mode, in the order of aclrtSetStreamFailureMode.
		const mode, overflow = abi.StreamAttrFailureMode, abi.StreamAttrFloatOverflowCheck
		e.want(e.on(small).th.SetStreamAttribute(0, mode, &v), abi.ErrRTParamInvalid)
		e.want(e.stranger().SetStreamAttribute(flagged(e, abi.StreamDeviceUseOnly), mode, &v),
			abi.ErrRTFeatureNotSupport)
		e.want(e.stranger().SetStreamAttribute(e.stream(), mode, &v), abi.ErrRTContextNull)
		e.ok(e.th.SetStreamAttribute(e.foreign(), mode, &v))
		*v.FailureMode() = stop
		e.want(e.th.SetStreamAttribute(e.foreign(), mode, &v), abi.ErrRTStreamContext)
		// Overflow switch, in the order of aclrtSetStreamOverflowSwitch.
		v = abi.StreamAttrValue{}
		*v.OverflowSwitch() = 2
		e.want(e.stranger().SetStreamAttribute(0, overflow, &v), abi.ErrInvalidParam)
		*v.OverflowSwitch() = 1
		e.want(e.stranger().SetStreamAttribute(0, overflow, &v), abi.ErrRTContextNull)
		e.want(e.th.SetStreamAttribute(e.foreign(), overflow, &v), abi.ErrRTStreamContext)
		return e.on(small).th.SetStreamAttribute(0, overflow, &v)
	})
	behaves("aclrtSetStreamAttribute", func(e *env) {
		countsOnHaste(e)
		s := e.stream()
		for _, a := range []struct {
			attr      abi.StreamAttr
			set, want uint32
		}{{tag, 1234, 1234}, {cache, 1, 1}, {priority, 3, 3}, {priority, 99, 7}, {abi.StreamAttrFloatOverflowCheck, 1,
			1}, {abi.StreamAttrFailureMode, stop, stop}} {
			var v, got abi.StreamAttrValue
			v.Reserve()[0] = a.set
			e.ok(e.th.SetStreamAttribute(s, a.attr, &v))
			e.ok(e.th.GetStreamAttribute(s, a.attr, &got))
			if got.Reserve()[0] != a.want {
				e.Errorf("%v set to %d is %d", a.attr, a.set, got.Reserve()[0])
			}
		}
		var p uint32
		e.ok(e.th.StreamGetPriority(s, &p))
		if p != 7 || overflow(e, s) != 1 {
			e.Errorf("priority %d, overflow switch %d", p, overflow(e, s))
		}
		// The mode is the real one.
		failsOn(e, e.stream(), faulty.Code(abi.ErrRTTaskTimeout))
		e.want(e.th.SynchronizeStream(s), abi.ErrRTTaskTimeout)
		var v abi.StreamAttrValue
		e.want(e.stranger().SetStreamAttribute(0, tag, &v), abi.ErrRTContextNull)
	})

	behaves("aclrtGetStreamAttribute", func(e *env) {
		for attr := abi.StreamAttrFailureMode; attr < priority; attr++ {
			v := abi.StreamAttrValue{Raw: [16]byte{9, 9, 9, 9}}
			e.ok(e.th.GetStreamAttribute(0, attr, &v))
			if v.Reserve()[0] != 0 {
				e.Errorf("%v of the default stream starts as %d", attr, v.Reserve()[0])
			}
		}
		var v abi.StreamAttrValue
		e.want(e.stranger().GetStreamAttribute(0, tag, &v), abi.ErrRTContextNull)
	})
}

func proveStateCallbacks() {
	behaves("aclrtRegStreamStateCallback", func(e *env) {
		var calls []string
		note := func(name string) core.StreamStateFunc {
			return func(s core.Handle, st abi.StreamState, args core.Addr) {
				var id int32
				e.ok(e.th.StreamGetId(s, &id)) // it is alive both times
				calls = append(calls, fmt.Sprintf("%s %v %d", name, st, args))
			}
		}
		e.ok(e.th.RegStreamStateCallback(cstr("a"), note("a"), 1))
		e.ok(e.th.RegStreamStateCallback(cstr("b"), note("b"), 2))
		e.ok(e.th.DestroyStream(e.stream()))
		e.ok(e.th.RegStreamStateCallback(cstr("a"), note("c"), 3)) // replaces it
		e.ok(e.th.RegStreamStateCallback(cstr("b"), nil, 0))
		e.ok(e.th.RegStreamStateCallback(cstr("unknown"), nil, 0))
		e.ok(e.th.DestroyStreamForce(flagged(e, 0)))
		e.ok(e.th.RegStreamStateCallback(cstr("a"), nil, 0))
		e.stream()
		const made, gone = "ACL_RT_STREAM_STATE_CREATE_POST", "ACL_RT_STREAM_STATE_DESTROY_PRE"
		want := []string{"a " + made + " 1", "b " + made + " 2", "a " + gone + " 1", "b " + gone + " 2",
			"c " + made + " 3", "c " + gone + " 3"}
		if !slices.Equal(calls, want) {
			e.Errorf("got %q", calls)
		}
	})

	state := func(int32, abi.DeviceState, core.Addr) {}
	prove("aclrtRegDeviceStateCallback", "registered", func(e *env) *core.Error {
		e.ok(e.th.RegDeviceStateCallback(cstr("a"), state, 0))
		return e.stranger().RegDeviceStateCallback(cstr("a"), state, 0)
	})
	behaves("aclrtRegDeviceStateCallback", func(e *env) {
		var calls []string
		note := func(d int32, st abi.DeviceState, args core.Addr) {
			calls = append(calls, fmt.Sprint(d, " ", st, " ", args))
		}
		e.ok(e.th.RegDeviceStateCallback(cstr("a"), note, 5))
		e.ok(e.th.SetDevice(2))
		e.ok(e.th.ResetDevice(2))
		e.ok(e.th.SetDevice(1))
		e.ok(e.th.ResetDeviceForce(1))
		e.ok(e.th.RegDeviceStateCallback(cstr("a"), nil, 0))
		e.ok(e.th.RegDeviceStateCallback(cstr("a"), nil, 0)) // unknown by now
		e.ok(e.th.SetDevice(3))
		var want []string
		for _, d := range []string{"2", "1"} {
			for _, st := range []string{"SET_PRE", "SET_POST", "RESET_PRE", "RESET_POST"} {
				want = append(want, d+" ACL_RT_DEVICE_STATE_"+st+" 5")
			}
		}
		if !slices.Equal(calls, want) {
			e.Errorf("got %q", calls)
		}
		e.ok(e.th.RegDeviceStateCallback(cstr("a"), note, 5)) // the name is free again
	})
}
