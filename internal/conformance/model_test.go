package conformance

import (
	"encoding/binary"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/model"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

// Proofs of captures and of what is done with models. The rules that are expressions prove themselves.

const (
	global      = abi.ModelRiCaptureModeGlobal
	threadLocal = abi.ModelRiCaptureModeThreadLocal
	relaxed     = abi.ModelRiCaptureModeRelaxed
)

// begin captures a stream of its own.
func begin(e *env, mode abi.MdlRICaptureMode) core.Handle {
	e.Helper()
	s := e.stream()
	e.ok(model.MdlRICaptureBegin(e.th, s, mode))
	return s
}

// endsIn ends a capture and returns the model.
func endsIn(e *env, s core.Handle) (m core.Handle) {
	e.Helper()
	e.ok(model.MdlRICaptureEnd(e.th, s, &m))
	return m
}

// capturing captures what f submits.
func capturing(e *env, f func(s core.Handle)) core.Handle {
	e.Helper()
	s := begin(e, relaxed)
	f(s)
	return endsIn(e, s)
}

// joined is a capture with a second stream that has joined it.
func joined(e *env) (first, second, ev core.Handle) {
	e.Helper()
	first, second, ev = begin(e, relaxed), e.stream(), exWith(e, abi.EventSync)
	e.ok(e.th.RecordEvent(ev, first))
	e.ok(e.th.StreamWaitEvent(second, ev))
	return first, second, ev
}

// broken is an invalid capture: another one was brought together with it.
func broken(e *env) core.Handle {
	e.Helper()
	one, other, ev := begin(e, relaxed), begin(e, relaxed), exWith(e, abi.EventSync)
	e.ok(e.th.RecordEvent(ev, one))
	e.want(e.th.StreamWaitEvent(other, ev), abi.ErrStreamCaptureConflict)
	var m core.Handle
	e.want(model.MdlRICaptureEnd(e.th, other, &m), abi.ErrRTStreamCaptureInvalidated)
	return one
}

// withFlags is a stream of a kind.
func withFlags(e *env, flags uint32) (s core.Handle) {
	e.Helper()
	e.ok(e.th.CreateStreamWithConfig(&s, 0, flags))
	return s
}

// defaultStream is the default stream by its own handle.
func defaultStream(e *env) (s core.Handle) {
	e.Helper()
	e.ok(e.th.CtxGetCurrentDefaultStream(&s))
	return s
}

// queuedModel is a model with an execution that does not begin until release is called.
func queuedModel(e *env) (m core.Handle, release func()) {
	e.Helper()
	m = capturing(e, func(s core.Handle) { e.ok(signal.ValueWrite(e.th, e.device(64), 1, 0, s)) })
	s, free := e.busy()
	e.ok(model.MdlRIExecuteAsync(e.th, m, s))
	return m, func() { free(); e.ok(e.th.SynchronizeStream(s)) }
}

// valueTask is a model with one value write, and its task.
func valueTask(e *env) (m, task core.Handle) {
	e.Helper()
	m = capturing(e, func(s core.Handle) { e.ok(signal.ValueWrite(e.th, e.device(64), 1, 0, s)) })
	return m, tasksOf(e, m)[0]
}

// kernelTask is a model with one kernel, and that task.
func kernelTask(e *env) (m, task core.Handle) {
	e.Helper()
	f, p := e.kernel("times"), e.words(1, 1)
	m = capturing(e, func(s core.Handle) { launchTimes(e, f, p, s) })
	return m, tasksOf(e, m)[0]
}

// launchTimes launches a kernel that multiplies one word by 3.
func launchTimes(e *env, f core.Handle, p core.Addr, s core.Handle) {
	e.Helper()
	args := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(p)), 1)
	e.ok(launch.LaunchKernelWithHostArgs(e.th, f, 1, s, nil, core.AddrOf(args), uint64(len(args)), nil, 0))
}

// copyTask is a model with one copy, and its task.
func copyTask(e *env) (m, task core.Handle) {
	e.Helper()
	dst, src := e.device(64), e.pinned(64)
	m = capturing(e, func(s core.Handle) { e.ok(transfer.MemcpyAsync(e.th, dst, 64, src, 64, h2d, s)) })
	return m, tasksOf(e, m)[0]
}

// tasksOf are the tasks of the first stream of a model.
func tasksOf(e *env, m core.Handle) []core.Handle {
	e.Helper()
	var n uint32
	e.ok(model.MdlRIGetStreams(e.th, m, nil, &n))
	streams := make([]core.Handle, n)
	e.ok(model.MdlRIGetStreams(e.th, m, &streams[0], &n))
	e.ok(model.MdlRIGetTasksByStream(e.th, streams[n-1], nil, &n))
	tasks := make([]core.Handle, n)
	e.ok(model.MdlRIGetTasksByStream(e.th, streams[len(streams)-1], first0(tasks), &n))
	return tasks
}

// copies are the synchronous copies and fills that a capture may refuse.
func copies(e *env, th *core.Thread) map[string]func() *core.Error {
	dev, host := e.device(4096), e.pinned(4096)
	return map[string]func() *core.Error{
		"aclrtMemcpy":     func() *core.Error { return transfer.Memcpy(th, dev, 64, host, 64, h2d) },
		"aclrtMemset":     func() *core.Error { return transfer.Memset(th, dev, 64, 1, 64) },
		"aclrtMemcpy2d":   func() *core.Error { return transfer.Memcpy2d(th, dev, 64, host, 64, 8, 8, h2d) },
		"aclrtCmoSetDesc": func() *core.Error { return transfer.CmoSetDesc(th, dev, dev, 64) },
	}
}

// refusedBy proves the table of modes: which thread is refused while which capture is open.
func refusedBy(name string) func(e *env) *core.Error {
	return func(e *env) *core.Error {
		exchange := func(th *core.Thread, mode abi.MdlRICaptureMode) { e.ok(th.MdlRICaptureThreadExchangeMode(&mode)) }
		own, other := copies(e, e.th)[name], e.sibling()
		others := copies(e, other)[name]
		e.ok(own())
		for _, tt := range []struct {
			mode                  abi.MdlRICaptureMode
			own, others           bool // refused, where nothing was exchanged
			ownLocal, othersLocal bool // and with THREAD_LOCAL
		}{
			{global, true, true, true, false},
			{threadLocal, true, false, true, false},
			{relaxed, false, false, false, false},
		} {
			s := begin(e, tt.mode)
			for _, as := range []struct {
				exchanged   abi.MdlRICaptureMode
				own, others bool
			}{{global, tt.own, tt.others}, {threadLocal, tt.ownLocal, tt.othersLocal}, {relaxed, false, false}} {
				exchange(e.th, as.exchanged)
				exchange(other, as.exchanged)
				is(e, "refused in the thread that captures", codeOf(own()) == abi.ErrRTCaptureModeNotSupport, as.own)
				is(e, "refused in another thread", codeOf(others()) == abi.ErrRTCaptureModeNotSupport, as.others)
			}
			exchange(e.th, global)
			exchange(other, global)
			e.ok(model.MdlRIDestroy(e.th, endsIn(e, s))) // it was not broken
		}
		e.ok(own())
		e.ok(others())
		s := begin(e, global)
		err := own()
		e.ok(model.MdlRIDestroy(e.th, endsIn(e, s)))
		return err
	}
}

// onlyCaptured proves that a stream which is captured refuses to copy 64 bytes of pageable memory, while one that is
// bound to a model copies them at once, and the model does not.
func onlyCaptured(upload func(e *env, dst, src core.Addr, s core.Handle) *core.Error) func(e *env) *core.Error {
	return func(e *env) *core.Error {
		dst, src, m := e.device(64), e.pageable(64), manual(e)
		e.write(src, noise(64, 1))
		s := onto(e, m, 0)
		e.ok(upload(e, dst, src, s))
		e.holds(dst, noise(64, 1))
		ends(e, m, s)
		e.write(src, noise(64, 2))
		e.ok(model.MdlRIExecute(e.th, m, -1))
		e.holds(dst, noise(64, 1))
		return upload(e, e.device(64), src, begin(e, relaxed))
	}
}

// outside is a call of another thread in another context.
func outside(call func(th *core.Thread, m core.Handle) *core.Error) func(e *env) *core.Error {
	return func(e *env) *core.Error {
		m := emptyModel(e)
		err := call(e.elsewhere(), m)
		e.ok(call(e.th, m))
		return err
	}
}

func init() {
	prove("aclrtMemcpy", "capture-forbids", refusedBy("aclrtMemcpy"))
	prove("aclrtMemcpy2d", "capture-forbids", refusedBy("aclrtMemcpy2d"))
	prove("aclrtMemset", "capture-forbids", refusedBy("aclrtMemset"))
	prove("aclrtCmoSetDesc", "capture-forbids", refusedBy("aclrtCmoSetDesc"))
	prove("aclrtMemcpyAsync", "pageable-captured",
		onlyCaptured(func(e *env, dst, src core.Addr, s core.Handle) *core.Error {
			return transfer.MemcpyAsync(e.th, dst, 64, src, 64, h2d, s)
		}))
	prove("aclrtMemcpyAsync", "pageable-capture-forbids", func(e *env) *core.Error {
		begin(e, global)
		dst, src := e.device(64), e.pageable(64)
		e.ok(
			transfer.MemcpyAsync(e.th, dst, 64, e.pinned(64), 64, h2d, e.stream()),
		) // pinned memory is nobody's business
		return transfer.MemcpyAsync(e.th, dst, 64, src, 64, h2d, e.stream())
	})
	prove("aclrtMemcpy2dAsync", "pageable-captured",
		onlyCaptured(func(e *env, dst, src core.Addr, s core.Handle) *core.Error {
			return transfer.Memcpy2dAsync(e.th, dst, 8, src, 8, 8, 8, h2d, s)
		}))
	prove("aclrtMemcpy2dAsync", "pageable-capture-forbids", func(e *env) *core.Error {
		begin(e, global)
		return transfer.Memcpy2dAsync(e.th, e.device(64), 8, e.pageable(64), 8, 8, 8, h2d, e.stream())
	})
	prove("aclrtMemcpyBatchAsync", "pageable-capture-forbids", func(e *env) *core.Error {
		a := newBatch(e, unreg, dev, 64)
		a.stream = begin(e, global)
		return batchAsync(e, a)
	})
	prove("aclrtSynchronizeDevice", "stream-captured", func(e *env) *core.Error {
		begin(e, relaxed)
		return e.th.SynchronizeDevice()
	})
	prove(
		"aclrtSynchronizeDeviceWithTimeout",
		"stream-captured",
		func(e *env) *core.Error { begin(e, relaxed); return e.th.SynchronizeDeviceWithTimeout(10) },
	)

	prove("aclrtStreamWaitEvent", "flags-forbid-capture", func(e *env) *core.Error {
		ev := exWith(e, abi.EventSync)
		e.ok(e.th.RecordEvent(ev, begin(e, relaxed)))
		return e.th.StreamWaitEvent(withFlags(e, abi.StreamCpuSchedule), ev)
	})
	prove("aclrtStreamWaitEvent", "pulls-default-stream", func(e *env) *core.Error {
		ev := exWith(e, abi.EventSync)
		e.ok(e.th.RecordEvent(ev, begin(e, relaxed)))
		return e.th.StreamWaitEvent(0, ev)
	})
	prove("aclrtStreamWaitEvent", "pulls-other-capture", func(e *env) *core.Error {
		one, other, ev := begin(e, relaxed), begin(e, relaxed), exWith(e, abi.EventSync)
		e.ok(e.th.RecordEvent(ev, one))
		err := e.th.StreamWaitEvent(other, ev)
		var m core.Handle
		e.want(model.MdlRICaptureEnd(e.th, one, &m), abi.ErrRTStreamCaptureInvalidated)
		e.want(model.MdlRICaptureEnd(e.th, other, &m), abi.ErrRTStreamCaptureInvalidated)
		return err
	})
	prove("aclrtStreamWaitEvent", "pulls-into-invalidated", func(e *env) *core.Error {
		one, ev := broken(e), exWith(e, abi.EventSync)
		e.ok(e.th.RecordEvent(ev, one))
		return e.th.StreamWaitEvent(e.stream(), ev)
	})
	prove("aclrtStreamWaitEvent", "pulls-stream", func(e *env) *core.Error {
		first, second, ev := joined(e)
		var status abi.MdlRICaptureStatus
		var one, other core.Handle
		e.ok(model.MdlRICaptureGetInfo(e.th, second, &status, &other))
		e.ok(model.MdlRICaptureGetInfo(e.th, first, nil, &one))
		is(e, "status of a stream that joined", status, abi.ModelRiCaptureStatusActive)
		is(e, "its model", other, one)
		e.ok(e.th.RecordEvent(ev, second))
		return e.th.StreamWaitEvent(first, ev)
	})
	prove("aclrtStreamWaitEvent", "event-not-ex", func(e *env) *core.Error {
		return e.th.StreamWaitEvent(begin(e, relaxed), e.stateEvent(evSync))
	})
	prove("aclrtStreamWaitEvent", "recorded-outside", func(e *env) *core.Error {
		s, ev := begin(e, relaxed), exWith(e, abi.EventSync)
		e.ok(e.th.StreamWaitEvent(s, ev)) // never recorded: nothing is captured
		out := e.stream()
		e.ok(e.th.RecordEvent(ev, out))
		err := e.th.StreamWaitEvent(s, ev)
		is(e, "tasks", len(tasksOf(e, endsIn(e, s))), 0)
		return err
	})

	captureProofs()
	groupProofs()
	runProofs()
	changeProofs()
}

func captureProofs() {
	prove("aclmdlRICaptureBegin", "flags-forbid-capture", func(e *env) *core.Error {
		e.ok(model.MdlRICaptureBegin(e.th, withFlags(e, abi.StreamPersistent), relaxed))
		o := e.on(machine{product: "950"})
		o.want(model.MdlRICaptureBegin(o.th, withFlags(o, abi.StreamPersistent), relaxed), abi.ErrRTInternalError)
		return model.MdlRICaptureBegin(e.th, withFlags(e, abi.StreamCpuSchedule), relaxed)
	})
	prove("aclmdlRICaptureBegin", "no-stream-left", func(e *env) *core.Error {
		e = e.on(machine{product: "310P"})
		s := e.stream()
		capture := func() (m core.Handle) {
			e.ok(model.MdlRICaptureBegin(e.th, s, relaxed))
			return endsIn(e, s)
		}
		var m core.Handle
		var left uint32
		for range 1023 {
			m = capture()
		}
		e.ok(e.th.GetStreamAvailableNum(&left))
		if left != 0 {
			e.Fatalf("%d streams are left", left)
		}
		err := model.MdlRICaptureBegin(e.th, s, relaxed)
		e.ok(model.MdlRIDestroy(e.th, m)) // which has its stream no longer
		capture()
		return err
	})
	prove(
		"aclmdlRICaptureBegin",
		"default-stream",
		func(e *env) *core.Error { return model.MdlRICaptureBegin(e.th, defaultStream(e), relaxed) },
	)
	behaves("aclmdlRICaptureBegin", func(e *env) {
		dst, src := e.device(64), e.pinned(64)
		bytes(src, 64)[0] = 7
		m := capturing(e, func(s core.Handle) { e.ok(transfer.MemcpyAsync(e.th, dst, 64, src, 64, h2d, s)) })
		back := e.pinned(64)
		e.ok(transfer.Memcpy(e.th, back, 64, dst, 64, abi.MemcpyDeviceToHost))
		is(e, "before it is executed", bytes(back, 64)[0], byte(0))
		for i := range byte(3) { // the bytes are read at each execution
			bytes(src, 64)[0] = i
			s := e.stream()
			e.ok(model.MdlRIExecuteAsync(e.th, m, s))
			e.ok(e.th.SynchronizeStream(s))
			e.ok(transfer.Memcpy(e.th, back, 64, dst, 64, abi.MemcpyDeviceToHost))
			is(e, "after it was executed", bytes(back, 64)[0], i)
		}
	})
	prove("aclmdlRICaptureEnd", "flags-forbid-capture", func(e *env) *core.Error {
		var m core.Handle
		return model.MdlRICaptureEnd(e.th, withFlags(e, abi.StreamCpuSchedule), &m)
	})
	prove("aclmdlRICaptureEnd", "modelRI-null", func(e *env) *core.Error {
		s := begin(e, relaxed)
		err := model.MdlRICaptureEnd(e.th, s, nil)
		endsIn(e, s) // it went on
		return err
	})
	prove("aclmdlRICaptureEnd", "default-stream", func(e *env) *core.Error {
		var m core.Handle
		return model.MdlRICaptureEnd(e.th, defaultStream(e), &m)
	})
	prove("aclmdlRICaptureEnd", "not-the-origin", func(e *env) *core.Error {
		first, second, ev := joined(e)
		m := garbage
		err := model.MdlRICaptureEnd(e.th, second, &m)
		is(e, "model", m, core.Handle(0))
		e.ok(e.th.RecordEvent(ev, second))
		e.ok(e.th.StreamWaitEvent(first, ev))
		endsIn(e, first)
		return err
	})
	prove("aclmdlRICaptureEnd", "other-thread", func(e *env) *core.Error {
		s := begin(e, relaxed)
		var m core.Handle
		e.ok(model.MdlRICaptureEnd(e.sibling(), s, &m)) // a relaxed one may be
		s = begin(e, global)
		e.ok(model.MdlRICaptureGetInfo(e.th, s, nil, &m))
		kept := m
		err := model.MdlRICaptureEnd(e.sibling(), s, &m)
		e.want(model.MdlRIExecuteAsync(e.th, kept, 0), abi.ErrRTModelCaptured)
		e.ok(model.MdlRIDestroy(e.th, kept)) // all that one can do with it
		e.ok(e.th.DestroyStream(s))          // the capture is over
		e.ok(copies(e, e.th)["aclrtMemcpy"]())
		return err
	})
	prove("aclmdlRICaptureEnd", "invalidated", func(e *env) *core.Error {
		s := broken(e)
		var status abi.MdlRICaptureStatus
		e.ok(model.MdlRICaptureGetInfo(e.th, s, &status, nil))
		is(e, "status of a stream whose capture is invalid", status, abi.ModelRiCaptureStatusActive)
		var m core.Handle
		err := model.MdlRICaptureEnd(e.th, s, &m)
		if !strings.Contains(err.Text, "aclrtStreamWaitEvent in thread") {
			e.Errorf("%v does not say who broke it", err)
		}
		e.ok(e.th.DestroyStream(s))
		return err
	})
	prove("aclmdlRICaptureEnd", "group-open", func(e *env) *core.Error {
		s := begin(e, relaxed)
		e.ok(model.MdlRICaptureTaskGrpBegin(e.th, s))
		var m core.Handle
		err := model.MdlRICaptureEnd(e.th, s, &m)
		e.ok(model.MdlRICaptureBegin(e.th, s, relaxed)) // the group went with the capture
		e.want(model.MdlRICaptureTaskGrpEnd(e.th, s, &m), abi.ErrStreamTaskGroupStatus)
		endsIn(e, s)
		return err
	})
	prove("aclmdlRICaptureEnd", "last-not-record", func(e *env) *core.Error {
		first, second, ev := joined(e)
		e.ok(e.th.RecordEvent(ev, second))
		e.ok(e.th.StreamWaitEvent(first, ev))
		e.ok(transfer.MemsetAsync(e.th, e.device(64), 64, 1, 64, second)) // after the last record
		var m core.Handle
		err := model.MdlRICaptureEnd(e.th, first, &m)
		only, _, _ := joined(e) // a stream that only waited
		e.want(model.MdlRICaptureEnd(e.th, only, &m), abi.ErrRTStreamUnjoined)
		return err
	})
	prove("aclmdlRICaptureEnd", "last-not-awaited", func(e *env) *core.Error {
		first, second, ev := joined(e)
		e.ok(e.th.RecordEvent(ev, second))
		var m core.Handle
		return model.MdlRICaptureEnd(e.th, first, &m)
	})
	behaves("aclmdlRICaptureEnd", func(e *env) {
		s := begin(e, relaxed)
		m := endsIn(e, s) // nothing was captured, which is fine
		e.ok(e.th.DestroyStream(s))
		e.ok(model.MdlRIExecuteAsync(e.th, m, 0))
		e.ok(e.th.SynchronizeStream(0))
	})
}

func groupProofs() {
	prove("aclmdlRICaptureTaskGrpBegin", "group-open", func(e *env) *core.Error {
		s := begin(e, relaxed)
		e.ok(model.MdlRICaptureTaskGrpBegin(e.th, s))
		return model.MdlRICaptureTaskGrpBegin(e.th, s)
	})
	prove("aclmdlRICaptureTaskGrpBegin", "group-open-elsewhere", func(e *env) *core.Error {
		first, second, _ := joined(e)
		e.ok(model.MdlRICaptureTaskGrpBegin(e.th, first))
		err := model.MdlRICaptureTaskGrpBegin(e.th, second)
		var m core.Handle
		e.want(model.MdlRICaptureEnd(e.th, first, &m), abi.ErrRTStreamCaptureInvalidated)
		return err
	})
	prove("aclmdlRICaptureTaskGrpEnd", "no-group", func(e *env) *core.Error {
		var g core.Handle
		return model.MdlRICaptureTaskGrpEnd(e.th, begin(e, relaxed), &g)
	})
	prove("aclmdlRICaptureTaskGrpEnd", "task-not-offered", func(e *env) *core.Error {
		s := begin(e, relaxed)
		e.ok(model.MdlRICaptureTaskGrpBegin(e.th, s))
		e.want(transfer.MemsetAsync(e.th, e.device(64), 64, 1, 64, s), abi.ErrRTTaskTypeNotSupport)
		var g core.Handle
		return model.MdlRICaptureTaskGrpEnd(e.th, s, &g)
	})
	prove("aclmdlRICaptureTaskGrpEnd", "group-broken", func(e *env) *core.Error {
		first, second, _ := joined(e)
		e.ok(model.MdlRICaptureTaskGrpBegin(e.th, first))
		e.want(transfer.MemsetAsync(e.th, e.device(64), 64, 1, 64, second), abi.ErrStreamTaskGroupIntr)
		var g core.Handle
		return model.MdlRICaptureTaskGrpEnd(e.th, first, &g)
	})
	prove("aclmdlRICaptureTaskGrpEnd", "invalidated", func(e *env) *core.Error {
		s := broken(e)
		e.ok(model.MdlRICaptureTaskGrpBegin(e.th, s))
		var g core.Handle
		return model.MdlRICaptureTaskGrpEnd(e.th, s, &g)
	})
	group := func(e *env) (g core.Handle) {
		capturing(e, func(s core.Handle) {
			e.ok(model.MdlRICaptureTaskGrpBegin(e.th, s))
			e.ok(model.MdlRICaptureTaskGrpEnd(e.th, s, &g))
		})
		return g
	}
	prove("aclmdlRICaptureTaskUpdateBegin", "updating", func(e *env) *core.Error {
		g, s := group(e), e.stream()
		e.ok(model.MdlRICaptureTaskUpdateBegin(e.th, s, g))
		return model.MdlRICaptureTaskUpdateBegin(e.th, s, group(e))
	})
	prove("aclmdlRICaptureTaskUpdateBegin", "updated-elsewhere", func(e *env) *core.Error {
		g := group(e)
		e.ok(model.MdlRICaptureTaskUpdateBegin(e.th, e.stream(), g))
		return model.MdlRICaptureTaskUpdateBegin(e.th, e.stream(), g)
	})
	prove("aclmdlRICaptureTaskUpdateEnd", "not-updating", func(e *env) *core.Error {
		g, s := group(e), e.stream()
		e.ok(model.MdlRICaptureTaskUpdateBegin(e.th, s, g))
		e.ok(model.MdlRICaptureTaskUpdateEnd(e.th, s))
		return model.MdlRICaptureTaskUpdateEnd(e.th, s)
	})
	proveGroupOfKernels()
	proveExternal()
}
