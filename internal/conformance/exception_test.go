package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
	"ropeway/internal/testenv"
)

func init() {
	proveLastError()
	proveExceptionCallbacks()
	proveExceptionInfo()
	proveFaults()
	proveDeviceAbort()
}

func proveLastError() {
	// These two return a code, not an error: what they answer is compared here.
	level := func(function string, ask func(th *core.Thread, level abi.LastErrLevel) abi.Code) proof {
		return func(e *env) *core.Error {
			th := e.stranger()
			th.Done(th.CreateStream(new(core.Handle))) // a last error that must not come out
			for _, level := range []abi.LastErrLevel{1, -1} {
				if got := ask(th, level); got != abi.ErrInvalidParam {
					e.Errorf("level %d: %d", level, got)
				}
			}
			if got := process.PeekAtLastError(th, 0); got != abi.ErrRTContextNull {
				e.Errorf("the last error is %d", got)
			}
			return &core.Error{Code: ask(th, 1), API: function, Text: "level"}
		}
	}
	prove("aclrtPeekAtLastError", "level-unknown", level("aclrtPeekAtLastError", process.PeekAtLastError))
	prove("aclrtGetLastError", "level-unknown", level("aclrtGetLastError", process.GetLastError))
	behaves("aclrtPeekAtLastError", func(e *env) {
		th := e.stranger()
		step := func(err *core.Error, want abi.Code) {
			e.Helper()
			th.Done(err)
			for range 2 {
				if got := process.PeekAtLastError(th, 0); got != want {
					e.Errorf("after %v: %d, want %d", err, got, want)
				}
			}
		}
		step(nil, 0)
		step(th.SynchronizeStream(0), abi.ErrRTContextNull)
		step(nil, abi.ErrRTContextNull)                                     // success does not clear it
		step(th.CreateStream(nil), abi.ErrRTContextNull)                    // nor does an answer of the ACL layer
		step(th.GetDevice(new(int32)), abi.ErrRTContextNull)                // nor one that is not recorded
		step(th.SynchronizeStream(garbage), abi.ErrRTInvalidHandle)         // a newer one replaces it
		if got := process.PeekAtLastError(e.rt.NewThread(3), 0); got != 0 { // each thread has its own
			e.Errorf("another thread has %d", got)
		}
		in := e.rt.ThreadIn(here(e))
		in.Done(in.SynchronizeStream(garbage))
		if got := process.PeekAtLastError(in, 0); got != 0 {
			e.Errorf("a thread that remembers nothing has %d", got)
		}
	})
	behaves("aclrtGetLastError", func(e *env) {
		th := e.stranger()
		th.Done(th.SynchronizeStream(0))
		if a, b, c := process.GetLastError(th, 0), process.GetLastError(th, 0), process.PeekAtLastError(th,
			0); a != abi.ErrRTContextNull || b != 0 || c != 0 {
			e.Errorf("%d, then %d and %d", a, b, c)
		}
	})
}

// noting is an exception callback with a key that notes its arguments.
func noting(key uintptr, tell func(info core.Addr)) core.Func[core.ExceptionFunc] {
	return core.Func[core.ExceptionFunc]{Key: key, Call: tell}
}

// noFunc is a NULL callback.
var noFunc core.Func[core.ExceptionFunc]

func proveExceptionCallbacks() {
	behaves("aclrtSetExceptionInfoCallback", func(e *env) {
		s := e.stream()
		var calls []string
		note := func(name string) func(core.Addr) { return func(core.Addr) { calls = append(calls, name) } }
		fails := func(want ...string) {
			e.Helper()
			calls = nil
			failsOn(e, s, fault)
			e.want(e.th.SynchronizeStream(s), faultCode)
			if !slices.Equal(calls, want) { // the callbacks have been called before the failure is returned
				e.Errorf("got %v, want %v", calls, want)
			}
		}
		fails()
		e.ok(e.stranger().SetExceptionInfoCallback(noting(1, note("a"))))
		fails("a")
		e.ok(e.th.SetExceptionInfoCallback(noting(2, note("b")))) // the last call wins
		fails("b")
		e.ok(e.th.ExceptionInfoCallbackRegister(noting(3, note("c")))) // both kinds may coexist
		fails("c", "b")
		e.ok(e.th.ExceptionInfoCallbackRegister(noting(2, note("b")))) // the same pointer counts once
		fails("c", "b")
		e.ok(e.th.SetExceptionInfoCallback(noFunc))
		fails("c", "b")
		e.ok(e.th.ExceptionInfoCallbackUnregister(noting(2, nil)))
		e.ok(e.th.ExceptionInfoCallbackUnregister(noting(3, nil)))
		fails()
	})

	behaves("aclrtExceptionInfoCallbackRegister", func(e *env) {
		countsOnHaste(e)
		// Failures are reported one after another, in their order, of all streams; each function once.
		var calls []string
		for i := range uintptr(2) {
			f := noting(1+i, func(info core.Addr) {
				calls = append(calls, fmt.Sprint(i, " ", e.stranger().GetTaskIdFromExceptionInfo(info)))
			})
			e.ok(e.stranger().ExceptionInfoCallbackRegister(f))
			e.ok(e.stranger().ExceptionInfoCallbackRegister(f))
		}
		s := e.stream()
		release := e.block(s) // task 1
		for range 3 {
			failsOn(e, s, fault)
		}
		release()
		e.want(e.th.SynchronizeStream(s), faultCode)
		if want := []string{"0 2", "1 2", "0 3", "1 3", "0 4", "1 4"}; !slices.Equal(calls, want) {
			e.Errorf("got %q", calls)
		}
		// The promise holds for every way to learn of the failure, in STOP mode, and for slow functions.
		done := false
		e.ok(e.th.ExceptionInfoCallbackRegister(noting(9,
			func(core.Addr) { testenv.AwaitParked(e, 1, "core.(*Thread).SynchronizeStream("); done = true })))
		other := e.stream()
		e.ok(e.th.SetStreamFailureMode(s, abi.StopOnFailure))
		failsOn(e, s, fault)
		e.want(e.th.SynchronizeStream(other), faultCode)
		if !done {
			e.Error("the failure was returned before the callback had run")
		}
	})
	behaves("aclrtExceptionInfoCallbackUnregister", func(e *env) {
		e.ok(e.stranger().ExceptionInfoCallbackUnregister(noting(1, nil))) // unknown pointers are fine
		f := noting(1, func(core.Addr) { e.Error("called") })
		e.ok(e.th.ExceptionInfoCallbackRegister(f))
		e.ok(e.th.ExceptionInfoCallbackUnregister(f))
		failsOn(e, 0, fault)
		e.want(e.th.SynchronizeStream(0), faultCode)
	})
}

// reported runs f inside an exception callback for a failure of task 2 of the stream, submitted by thread 1.
func reported(e *env, s core.Handle, f func(th *core.Thread, info core.Addr)) {
	e.Helper()
	called := 0
	e.ok(e.th.SetExceptionInfoCallback(noting(1, func(info core.Addr) { called++; f(e.stranger(), info) })))
	e.ok(transfer.MemsetAsync(e.th, e.device(64), 64, 0, 64, s))
	failsOn(e, s, fault)
	e.want(e.th.SynchronizeStream(s), faultCode)
	if called != 1 {
		e.Errorf("the callback was called %d times", called)
	}
}

func proveExceptionInfo() {
	const none = uint32(0xFFFFFFFF)
	// Each getter answers inside the callback, and with none for NULL, for garbage and afterwards.
	answers := func(get func(*core.Thread, core.Addr) uint32, want func(e *env, s core.Handle) uint32) func(e *env) {
		return func(e *env) {
			e.ok(e.th.SetDevice(2))
			s := e.stream()
			var kept core.Addr
			reported(e, s, func(th *core.Thread, info core.Addr) {
				if got := get(th, info); got != want(e, s) {
					e.Errorf("%d, want %d", got, want(e, s))
				}
				kept = info
			})
			for _, info := range []core.Addr{0, 1, kept, kept + 1, core.Addr(s)} {
				if got := get(e.th, info); got != none {
					e.Errorf("info %#x: %d", info, got)
				}
			}
		}
	}
	is := func(n uint32) func(*env, core.Handle) uint32 { return func(*env, core.Handle) uint32 { return n } }
	behaves("aclrtGetTaskIdFromExceptionInfo", func(e *env) {
		countsOnHaste(e)
		answers((*core.Thread).GetTaskIdFromExceptionInfo, is(2))(e)
	})
	behaves("aclrtGetStreamIdFromExceptionInfo", answers((*core.Thread).GetStreamIdFromExceptionInfo,
		func(e *env, s core.Handle) uint32 {
			var id int32
			e.ok(e.stranger().StreamGetId(s, &id))
			return uint32(id)
		}))
	behaves("aclrtGetThreadIdFromExceptionInfo", answers((*core.Thread).GetThreadIdFromExceptionInfo, is(1)))
	behaves("aclrtGetDeviceIdFromExceptionInfo", answers((*core.Thread).GetDeviceIdFromExceptionInfo, is(2)))
	behaves("aclrtGetErrorCodeFromExceptionInfo", answers((*core.Thread).GetErrorCodeFromExceptionInfo,
		is(uint32(faultCode))))

	during := func(call func(th *core.Thread, info core.Addr) *core.Error) proof {
		return func(e *env) (err *core.Error) {
			reported(e, e.stream(), func(th *core.Thread, info core.Addr) { err = call(th, info) })
			return err
		}
	}
	prove("aclrtGetArgsFromExceptionInfo", "devArgsPtr-null", during(func(th *core.Thread, info core.Addr) *core.Error {
		return th.GetArgsFromExceptionInfo(info, nil, nil)
	}))
	prove("aclrtGetArgsFromExceptionInfo", "devArgsLen-null", during(func(th *core.Thread, info core.Addr) *core.Error {
		return th.GetArgsFromExceptionInfo(info, new(core.Addr), nil)
	}))
	prove("aclrtGetArgsFromExceptionInfo", "other-tasks", during(func(th *core.Thread, info core.Addr) *core.Error {
		return th.GetArgsFromExceptionInfo(info, new(core.Addr), new(uint32))
	}))
	prove("aclrtGetFuncHandleFromExceptionInfo", "func-null", during(func(th *core.Thread, info core.Addr) *core.Error {
		return th.GetFuncHandleFromExceptionInfo(info, nil)
	}))
	prove("aclrtGetFuncHandleFromExceptionInfo", "not-a-kernel",
		during(func(th *core.Thread, info core.Addr) *core.Error {
			return th.GetFuncHandleFromExceptionInfo(info, new(core.Handle))
		}))
}

func proveFaults() {
	uce := make([]abi.MemUceInfo, 21)
	var n uint64
	behaves("aclrtGetMemUceInfo", func(e *env) {
		n = 99
		e.ok(process.GetMemUceInfo(e.stranger(), 0, &uce[0], 1, &n))
		e.ok(process.GetMemUceInfo(e.stranger(), 1, &uce[0], 0, &n)) // which is not set
		if n != 0 {
			e.Errorf("%d memory errors", n)
		}
		e.faults.Lose(0)
		e.want(process.GetMemUceInfo(e.th, 0, &uce[0], 1, &n), abi.ErrRTLostHeartbeat)
		// A thread without a context takes that of a configured default device, and asks about that one only.
		e = bare(e)
		file := filepath.Join(e.TempDir(), "acl.json")
		testenv.OK(e, os.WriteFile(file, []byte(`{"defaultDevice": {"default_device": "1"}}`), 0o600))
		e.ok(process.Init(e.th, cstr(file)))
		for range 2 {
			e.want(process.GetMemUceInfo(e.th, 0, &uce[0], 1, &n), abi.ErrRTContextNull)
			e.want(process.MemUceRepair(e.th, 0, &uce[0], 1), abi.ErrRTContextNull)
		}
		e.ok(process.GetMemUceInfo(e.th, 1, &uce[0], 1, &n))
		e.ok(process.MemUceRepair(e.stranger(), 1, &uce[0], 1))
	})

	prove("aclrtMemUceRepair", "reserved-not-0", func(e *env) *core.Error {
		var err *core.Error
		for _, where := range []struct{ word, bit int }{{0, 0}, {0, 63}, {1, 0}, {1, 47}} {
			bad := make([]abi.MemUceInfo, 20)
			bad[19].Reserved[where.word] = 1 << where.bit
			err = process.MemUceRepair(e.on(machine{product: "310P"}).th, -1, &bad[0], 20)
			e.want(err, abi.ErrInvalidParam)
			if err.Index != 19 {
				e.Errorf("entry %d is blamed, not 19", err.Index)
			}
		}
		return err
	})
	behaves("aclrtMemUceRepair", func(e *env) {
		e.ok(process.MemUceRepair(e.stranger(), 0, &uce[0], 20))
		late := make([]abi.MemUceInfo, 1) // of the 112 reserved bytes only the first 14 are compared
		late[0].Reserved[1], late[0].Reserved[13] = 1<<48, 1
		e.ok(process.MemUceRepair(e.stranger(), 0, &late[0], 1))
		e.faults.Lose(0)
		e.want(process.MemUceRepair(e.th, 0, &uce[0], 1), abi.ErrRTLostHeartbeat)
	})

	var info abi.ErrorInfo
	behaves("aclrtGetErrorVerbose", func(e *env) {
		for _, id := range []int32{0, 3} { // device 3 is not set
			info = abi.ErrorInfo{TryRepair: 1, HasDetail: 1, ErrorType: 9}
			e.ok(process.GetErrorVerbose(e.stranger(), id, &info))
			if info != (abi.ErrorInfo{}) {
				e.Errorf("device %d: type %v, repair %d, detail %d", id, info.ErrorType, info.TryRepair, info.HasDetail)
			}
		}
		e.faults.Lose(0)
		e.ok(process.GetErrorVerbose(e.th, 0, &info))
		if info.ErrorType != abi.ErrorTypeErrorOthers || info.TryRepair != 0 {
			e.Errorf("a lost device: type %v, repair %d", info.ErrorType, info.TryRepair)
		}
	})

	l2 := abi.ErrorInfo{TryRepair: 1, ErrorType: abi.ErrorTypeErrorL2}
	prove("aclrtRepairError", "not-repairable", func(e *env) *core.Error {
		e.want(process.RepairError(e.on(machine{product: "950"}).th, 0, &abi.ErrorInfo{TryRepair: 1}),
			abi.ErrRTParamInvalid)
		return process.RepairError(e.th, 0, &l2)
	})
	behaves("aclrtRepairError", func(e *env) {
		for product, kinds := range map[string][]abi.ErrorType{"A2": {0, 1}, "A3": {0, 1}, "950": {1, 2, 3, 4, 5}} {
			e := e.on(machine{product: product})
			for kind := abi.ErrorType(-1); kind < 7; kind++ {
				want := abi.ErrRTParamInvalid
				if slices.Contains(kinds, kind) {
					want = abi.Success
				}
				e.want(process.RepairError(e.stranger(), 0, &abi.ErrorInfo{TryRepair: 1, ErrorType: kind}), want)
			}
		}
	})
}

func proveDeviceAbort() {
	abort := func(int32, abi.DeviceTaskAbortStage, uint32, core.Addr) int32 { return 0 }
	prove("aclrtSetDeviceTaskAbortCallback", "registered", func(e *env) *core.Error {
		e.ok(e.th.SetDeviceTaskAbortCallback(cstr("a"), abort, 0))
		return e.stranger().SetDeviceTaskAbortCallback(cstr("a"), abort, 0)
	})
	behaves("aclrtSetDeviceTaskAbortCallback", func(e *env) {
		var calls []string
		note := func(name string) core.TaskAbortFunc {
			return func(d int32, stage abi.DeviceTaskAbortStage, timeout uint32, args core.Addr) int32 {
				calls = append(calls, fmt.Sprint(name, d, int(stage), timeout, args))
				return 0
			}
		}
		e.ok(e.th.SetDeviceTaskAbortCallback(cstr("a"), note("a"), 5))
		e.ok(e.th.SetDeviceTaskAbortCallback(cstr("b"), note("b"), 6))
		e.ok(e.th.DeviceTaskAbort(2, 1000))
		e.ok(e.th.SetDeviceTaskAbortCallback(cstr("a"), nil, 0))
		e.ok(e.th.SetDeviceTaskAbortCallback(cstr("unknown"), nil, 0))
		e.ok(e.th.DeviceTaskAbort(0, 0))
		want := []string{"a2 0 1000 5", "b2 0 1000 6", "a2 1 1000 5", "b2 1 1000 6", "b0 0 0 6", "b0 1 0 6"}
		if !slices.Equal(calls, want) {
			e.Errorf("got %q", calls)
		}
		small := e.on(machine{product: "310P"}) // no product check
		small.ok(small.th.SetDeviceTaskAbortCallback(cstr("a"), abort, 0))
	})

	prove("aclrtDeviceTaskAbort", "callback-fails", func(e *env) *core.Error {
		var calls []abi.DeviceTaskAbortStage
		answer := [2]int32{77, 0}
		e.ok(e.th.SetDeviceTaskAbortCallback(cstr("a"), func(_ int32, stage abi.DeviceTaskAbortStage, _ uint32,
			_ core.Addr) int32 {
			calls = append(calls, stage)
			return answer[stage]
		}, 0))
		s, release := e.busy()
		ran := false
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { ran = true }, 0))
		err := e.th.DeviceTaskAbort(0, 1) // 107019 if it did begin
		e.want(err, 77)
		release()
		e.ok(e.th.SynchronizeStream(s))
		if !ran || !slices.Equal(calls, []abi.DeviceTaskAbortStage{0}) {
			e.Errorf("the abort did not end there: ran %v, reported %v", ran, calls)
		}
		answer = [2]int32{0, 78}
		e.want(e.th.DeviceTaskAbort(0, 1), 78)
		return err
	})
	prove("aclrtDeviceTaskAbort", "time-up", func(e *env) *core.Error {
		e.busy()
		err := e.th.DeviceTaskAbort(0, 5)
		// A second abort waits for the first no longer than its limit.
		o := e.on(machine{})
		abortingDevice0(o, func(core.Handle) { o.want(o.th.DeviceTaskAbort(0, 5), abi.ErrRTWaitTimeout) })
		return err
	})
	behaves("aclrtDeviceTaskAbort", func(e *env) {
		countsOnHaste(e)
		// It drops the work of all contexts and streams of the device, and of no other device.
		p := e.device(64)
		e.write(p, make([]byte, 64))
		s, other := stuck(e), e.elsewhere()
		e.ok(transfer.MemsetAsync(e.th, p, 64, 1, 64, s))
		var o core.Handle
		e.ok(other.CreateStream(&o))
		e.ok(other.SubscribeReport(nobody, o))
		e.ok(other.LaunchCallback(nothing, 0, abi.CallbackBlock, o))
		e.ok(transfer.MemsetAsync(other, p, 64, 2, 64, o))
		far := e.rt.NewThread(9)
		e.ok(far.SetDevice(1))
		gate, ran := make(chan struct{}), false
		e.ok(far.LaunchHostFunc(0, func(core.Addr) { <-gate; ran = true }, 0))
		// A waiting thread learns of it, however late it looks.
		waits := make(chan *core.Error, 3)
		in := e.rt.ThreadIn(here(e))
		go func() { waits <- in.SynchronizeStream(s) }()
		go func() { waits <- in.SynchronizeDevice() }()
		go func() { waits <- other.SynchronizeStream(o) }()
		testenv.AwaitParked(e, 3, "core.(*Thread).Synchronize")
		e.ok(e.within(func() *core.Error { return e.th.DeviceTaskAbort(0, 0) }))
		for range 3 {
			e.want(<-waits, abi.ErrRTDeviceTaskAbort)
		}
		if b := e.read(p, 64); b[0] != 0 {
			e.Errorf("task %d ran", b[0])
		}
		close(gate)
		e.ok(far.SynchronizeStream(0))
		if !ran {
			e.Error("a task of another device was dropped")
		}
		// Afterwards everything works, and earlier failures are forgotten.
		failsOn(e, s, fault)
		e.ok(e.th.DeviceTaskAbort(0, 0))
		e.ok(transfer.MemsetAsync(e.th, p, 64, 3, 64, s))
		e.ok(e.th.SynchronizeStream(s))
		if b := e.read(p, 64); b[0] != 3 {
			e.Error("the stream does not work afterwards")
		}
		// During the abort nothing is taken and nothing waited for.
		e.ok(e.th.UnSubscribeReport(nobody, s))
		abortingDevice0(e, func(core.Handle) {
			e.want(transfer.MemsetAsync(e.th, p, 64, 1, 64, s), abi.ErrRTDeviceTaskAbort)
			e.want(e.within(func() *core.Error { return in.SynchronizeStream(s) }), abi.ErrRTDeviceTaskAbort)
		})
		// Aborts of one device come one after another.
		done := make(chan *core.Error, 4)
		for range 4 {
			go func() { done <- e.stranger().DeviceTaskAbort(0, 0) }()
		}
		for range 4 {
			e.ok(<-done)
		}
		e.ok(e.th.DeviceTaskAbort(3, 0)) // which is not set
	})
}
