package conformance

import (
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// visible is a machine with ASCEND_RT_VISIBLE_DEVICES set to list.
func visible(list string) machine { return machine{visible: &list} }

// hidden is a machine whose ASCEND_RT_VISIBLE_DEVICES leaves no device.
func hidden() machine {
	m := visible("")
	m.bare = true
	return m
}

// lastOf makes a call for each of ids, all of which end with the same code, and returns how the last one ended.
func lastOf[T any](e *env, code abi.Code, ids []T, call func(id T) *core.Error) (err *core.Error) {
	e.Helper()
	for _, id := range ids {
		err = call(id)
		e.want(err, code)
	}
	return err
}

// blamed checks which argument an error names: the code alone does not tell NULL checks apart.
func blamed(e *env, arg string, err *core.Error) *core.Error {
	e.Helper()
	if err == nil {
		e.Fatalf("it was accepted; %s is wrong", arg)
	}
	is(e, "argument blamed", err.Arg, arg)
	return err
}

// current is the device th works on, -1 without a context.
func current(e *env, th *core.Thread) int32 {
	id := int32(-1)
	if err := th.GetDevice(&id); err != nil {
		e.want(err, abi.ErrRTContextNull)
	}
	return id
}

// is fails the test unless got is want.
func is[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func init() {
	prove("aclrtSetDevice", "device-fails", func(e *env) *core.Error {
		e.faults.FailAll(faulty.Open, driver.ErrLost)
		err := e.th.SetDevice(1)
		is(e, "current device afterwards", current(e, e.th), 0)
		return err
	})
	behaves("aclrtSetDevice", func(e *env) {
		var c core.Handle
		e.ok(e.th.CreateContext(&c, 1))
		is(e, "after CreateContext", current(e, e.th), 1)
		e.ok(e.th.SetDevice(2)) // drops the explicit context
		is(e, "after SetDevice", current(e, e.th), 2)
		var now, again core.Handle
		e.ok(e.th.GetCurrentContext(&now))
		o := e.stranger()
		is(e, "a new thread has", current(e, o), -1)
		e.ok(o.SetDevice(2))
		e.ok(o.GetCurrentContext(&again))
		is(e, "primary context in another thread", again, now)
		e.ok(e.th.ResetDevice(2)) // the other thread's call still counts
		is(e, "after one reset of two", current(e, o), 2)

		v := e.on(visible("1,3"))
		e.ok(v.th.SetDevice(1))
		var phys int32
		e.ok(process.GetPhyDevIdByUserDevId(v.th, 1, &phys))
		is(e, "physical number of user id 1", phys, 3)
		v.want(v.th.SetDevice(2), abi.ErrRTInvalidDeviceid)
	})

	prove("aclrtResetDevice", "count-0", func(e *env) *core.Error {
		e.ok(e.th.SetDevice(0))
		e.ok(e.th.ResetDevice(0))
		e.ok(e.th.ResetDevice(0))
		e.want(e.th.ResetDevice(1), abi.ErrRTContextReleaseError)
		return e.th.ResetDevice(0)
	})
	behaves("aclrtResetDevice", func(e *env) {
		s, p := e.stream(), e.device(64)
		e.ok(e.th.SetDevice(0))
		e.ok(e.th.ResetDevice(0))
		e.ok(e.th.SynchronizeStream(s))
		e.ok(e.th.ResetDevice(0))
		e.want(e.th.SynchronizeStream(s), abi.ErrRTInvalidHandle)
		is(e, "current device", current(e, e.th), -1)
		e.ok(e.th.SetDevice(0))
		is(e, "memory of the device", e.attributes(p).Location.Type, abi.MemLocationTypeUnregistered)

		var c core.Handle // an explicit context keeps the memory
		e.ok(e.th.CreateContext(&c, 0))
		p = e.device(64)
		e.ok(e.th.ResetDevice(0))
		is(e, "memory while a context is left", e.attributes(p).Location.Type, abi.MemLocationTypeDevice)
		e.ok(e.th.DestroyContext(c))
	})

	prove("aclrtResetDeviceForce", "count-0", func(e *env) *core.Error {
		e.ok(e.th.ResetDeviceForce(0))
		e.want(e.th.ResetDeviceForce(1), abi.ErrRTContextReleaseError)
		return e.th.ResetDeviceForce(0)
	})
	behaves("aclrtResetDeviceForce", func(e *env) {
		s := e.stream()
		o := e.stranger()
		e.ok(o.SetDevice(0))
		e.ok(e.th.SetDevice(0))
		e.ok(e.th.ResetDeviceForce(0))
		e.want(e.th.SynchronizeStream(s), abi.ErrRTInvalidHandle)
		is(e, "current device of another thread", current(e, o), -1)
		e.want(e.th.ResetDevice(0), abi.ErrRTContextReleaseError)
	})

	behaves("aclrtGetDevice", func(e *env) {
		is(e, "after SetDevice", current(e, e.th), 0)
		e.ok(process.Init(e.th, configFile(e, `{"defaultDevice": {"default_device": "3"}}`)))
		o := e.stranger()
		is(e, "configured default", current(e, o), 3)
		e.ok(o.SetDevice(1))
		is(e, "a device of its own", current(e, o), 1)
		is(e, "a thread that has set one", current(e, e.th), 0)
		e.ok(o.ResetDevice(1))
		is(e, "the default steps in again", current(e, o), 3)
	})

	behaves("aclrtGetRunMode", func(e *env) {
		for m, want := range map[machine]abi.RunMode{
			{product: "A2"}: abi.RunModeHost, {product: "950"}: abi.RunModeHost, {product: "310B"}: abi.RunModeHost,
			{product: "310B", form: "RC"}: abi.RunModeDevice, {product: "310P", form: "RC"}: abi.RunModeDevice,
		} {
			mode := abi.RunMode(9)
			e.ok(process.GetRunMode(e.on(m).stranger(), &mode))
			is(e, m.product+m.form, mode, want)
		}
	})

	prove("aclrtSynchronizeDevice", "task-failed", func(e *env) *core.Error {
		return failsOnce(e, (*core.Thread).SynchronizeDevice)
	})
	behaves("aclrtSynchronizeDevice", func(e *env) {
		_, release := e.blocked()
		e.ok(e.waits(release, e.th.SynchronizeDevice))
		e.ok(e.waits(e.block(0), e.th.SynchronizeDevice)) // the default stream is one of them

		var s core.Handle // streams made for the device only are left out
		e.ok(e.th.CreateStreamWithConfig(&s, 0, abi.StreamDeviceUseOnly))
		release = e.block(s)
		e.ok(e.th.SynchronizeDevice())
		release()

		o := e.rt.NewThread(3) // and so are those of other contexts
		var c core.Handle
		e.ok(o.CreateContext(&c, 0))
		e.ok(o.CreateStream(&s))
		gate := make(chan struct{})
		e.ok(o.LaunchHostFunc(s, func(core.Addr) { <-gate }, 0))
		e.ok(e.th.SynchronizeDevice())
		close(gate)

		e.failing() // after a failure the rest is waited for
		_, release = e.blocked()
		e.want(e.waits(release, e.th.SynchronizeDevice), abi.ErrRTSysDma)
	})

	prove("aclrtSynchronizeDeviceWithTimeout", "task-failed", func(e *env) *core.Error {
		return failsOnce(e, func(th *core.Thread) *core.Error { return th.SynchronizeDeviceWithTimeout(60_000) })
	})
	prove("aclrtSynchronizeDeviceWithTimeout", "time-up", func(e *env) *core.Error {
		_, release := e.blocked()
		begin := time.Now()
		err := e.th.SynchronizeDeviceWithTimeout(30)
		if took := time.Since(begin); took < 30*time.Millisecond {
			e.Errorf("gave up after %v", took)
		}
		// the work is still there
		e.ok(e.waits(release, func() *core.Error { return e.th.SynchronizeDeviceWithTimeout(60_000) }))
		return err
	})
	behaves("aclrtSynchronizeDeviceWithTimeout", func(e *env) {
		e.ok(e.th.SynchronizeDeviceWithTimeout(1)) // nothing to wait for
		_, release := e.blocked()
		e.ok(e.waits(release, func() *core.Error { return e.th.SynchronizeDeviceWithTimeout(-1) }))
	})

	behaves("aclrtSetTsDevice", func(e *env) {
		e.ok(process.SetTsDevice(e.stranger(), abi.TsIdAicore))
		e.ok(process.SetTsDevice(e.stranger(), abi.TsIdAivector))
	})

	prove("aclrtGetDeviceCount", "no-device", func(e *env) *core.Error {
		n := uint32(7)
		m := visible("x,0") // reading stops at the first that is no number
		m.bare = true
		e.want(process.GetDeviceCount(e.on(m).th, &n), abi.ErrRTNoDevice)
		err := process.GetDeviceCount(e.on(hidden()).th, &n)
		is(e, "untouched output", n, 7)
		return err
	})
	behaves("aclrtGetDeviceCount", func(e *env) {
		for m, want := range map[string]uint32{"0,1,2,3": 4, "1": 1, "0,2,1": 2, "3,4": 1} {
			var n uint32
			e.ok(process.GetDeviceCount(e.on(visible(m)).stranger(), &n))
			is(e, m, n, want)
		}
		var n uint32
		e.ok(process.GetDeviceCount(e.on(machine{devices: 70}).th, &n))
		is(e, "most devices", n, 64)
	})

	behaves("aclrtQueryDeviceStatus", func(e *env) {
		s := abi.DeviceStatusEnd
		e.ok(process.QueryDeviceStatus(e.stranger(), 0, &s))
		is(e, "set", s, abi.DeviceStatusNormal)
		e.ok(process.QueryDeviceStatus(e.th, 1, &s))
		is(e, "not set", s, abi.DeviceStatusNormal)
		e.faults.Lose(0)
		e.ok(process.QueryDeviceStatus(e.th, 0, &s))
		is(e, "lost", s, abi.DeviceStatusAbnormal)
	})
}

// failsOnce checks that sync reports a failed task, once, and that it reports an abort that is under way.
func failsOnce(e *env, sync func(th *core.Thread) *core.Error) *core.Error {
	e.Helper()
	e.failing()
	err := sync(e.th)
	e.want(err, abi.ErrRTSysDma)
	e.ok(sync(e.th))
	o := e.stranger() // in a context of its own, which has nothing to wait for
	var c core.Handle
	e.ok(o.CreateContext(&c, 0))
	e.want(e.whileAborting(func() *core.Error { return sync(o) }), abi.ErrRTDeviceTaskAbort)
	return err
}
