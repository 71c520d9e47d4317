package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/model"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// streamDefault is ACL_MODEL_STREAM_FLAG_DEFAULT.
const streamDefault = 0x7FFFFFFF

// onto binds a stream of its own to a model.
func onto(e *env, m core.Handle, flag uint32) core.Handle {
	e.Helper()
	s := withFlags(e, abi.StreamPersistent)
	e.ok(model.MdlRIBindStream(e.th, m, s, flag))
	return s
}

// ends marks the end of a model on a stream, and completes it.
func ends(e *env, m, s core.Handle) {
	e.Helper()
	e.ok(model.MdlRIEndTask(e.th, m, s))
	e.ok(model.MdlRIBuildEnd(e.th, m, 0))
}

// whole is a complete model with one value write, and its stream.
func whole(e *env) (m, s core.Handle, p core.Addr) {
	e.Helper()
	m, p = manual(e), e.device(64)
	e.ok(transfer.Memset(e.th, p, 64, 0, 64))
	s = onto(e, m, 0)
	writes(e, s, p, 7)
	ends(e, m, s)
	return m, s, p
}

// waiting is a complete model that waits for a notify, which lets it go.
func waiting(e *env) (m, s, n core.Handle) {
	e.Helper()
	m = manual(e)
	s = onto(e, m, 0)
	e.ok(signal.CreateNotify(e.th, &n, 0))
	e.ok(signal.WaitAndResetNotify(e.th, n, s, 0))
	ends(e, m, s)
	return m, s, n
}

func init() {
	proveBuilding()
	proveBuilt()
	proveLabels()
	proveBoundStreams()
	behaveBuilt()
}

func proveBuilding() {
	prove("aclmdlRIBindStream", "stream-not-persistent", func(e *env) *core.Error {
		return model.MdlRIBindStream(e.th, manual(e), e.stream(), 0)
	})
	prove("aclmdlRIBindStream", "stream-captured", func(e *env) *core.Error {
		s := withFlags(e, abi.StreamPersistent)
		e.ok(model.MdlRICaptureBegin(e.th, s, relaxed))
		return model.MdlRIBindStream(e.th, manual(e), s, 0)
	})
	prove("aclmdlRIBindStream", "stream-stops-on-failure", func(e *env) *core.Error {
		s := withFlags(e, abi.StreamPersistent)
		e.ok(e.th.SetStreamFailureMode(s, 1))
		return model.MdlRIBindStream(e.th, manual(e), s, 0)
	})
	prove("aclmdlRIBindStream", "stream-fast-launch", func(e *env) *core.Error {
		return model.MdlRIBindStream(e.th, manual(e), withFlags(e, abi.StreamPersistent|abi.StreamFastLaunch), 0)
	})
	prove("aclmdlRIBindStream", "model-of-other-context", func(e *env) *core.Error {
		return model.MdlRIBindStream(e.elsewhere(), manual(e), withFlags(e, abi.StreamPersistent), 0)
	})
	prove("aclmdlRIBindStream", "model-complete", func(e *env) *core.Error {
		m, _, _ := whole(e)
		return model.MdlRIBindStream(e.th, m, withFlags(e, abi.StreamPersistent), 0)
	})
	prove("aclmdlRIUnbindStream", "model-of-other-context", func(e *env) *core.Error {
		m, s, _ := whole(e)
		return model.MdlRIUnbindStream(e.elsewhere(), m, s)
	})
	prove("aclmdlRIUnbindStream", "not-bound-to-model", func(e *env) *core.Error {
		m, s, _ := whole(e)
		e.ok(model.MdlRIUnbindStream(e.th, m, s))
		e.want(model.MdlRIUnbindStream(e.th, m, 0), abi.ErrRTStreamModel)
		e.want(model.MdlRIUnbindStream(e.th, manual(e), onto(e, manual(e), 0)), abi.ErrRTStreamModel)
		return model.MdlRIUnbindStream(e.th, m, s)
	})
	prove("aclmdlRIUnbindStream", "still-running", func(e *env) *core.Error {
		m, s, n := waiting(e)
		on := e.stream()
		e.ok(model.MdlRIExecuteAsync(e.th, m, on))
		err := model.MdlRIUnbindStream(e.th, m, s)
		e.ok(signal.RecordNotify(e.th, n, 0))
		e.ok(e.th.SynchronizeStream(on))
		e.ok(model.MdlRIUnbindStream(e.th, m, s))
		return err
	})
	prove("aclmdlRIEndTask", "model-of-other-context", func(e *env) *core.Error {
		th := e.elsewhere()
		var s core.Handle
		e.ok(th.CreateStreamWithConfig(&s, 0, abi.StreamPersistent))
		return model.MdlRIEndTask(th, manual(e), s)
	})
	prove("aclmdlRIEndTask", "marked-before", func(e *env) *core.Error {
		o := e.on(machine{product: "910"})
		m := manual(o)
		s := onto(o, m, 0)
		o.ok(model.MdlRIEndTask(o.th, m, s))
		return model.MdlRIEndTask(o.th, m, s)
	})
	prove("aclmdlRIEndTask", "not-bound-to-model", func(e *env) *core.Error {
		return model.MdlRIEndTask(e.th, manual(e), onto(e, manual(e), 0))
	})
	prove("aclmdlRIBuildEnd", "model-of-other-context", func(e *env) *core.Error {
		return model.MdlRIBuildEnd(e.elsewhere(), manual(e), 0)
	})
	prove("aclmdlRIBuildEnd", "no-stream-bound", func(e *env) *core.Error {
		m := manual(e)
		s := onto(e, m, 0)
		e.ok(model.MdlRIUnbindStream(e.th, m, s))
		return model.MdlRIBuildEnd(e.th, m, 0)
	})
	prove("aclmdlRIBuildEnd", "no-end-task", func(e *env) *core.Error {
		o := e.on(machine{product: "310P"})
		m := manual(o)
		onto(o, m, 0)
		o.ok(model.MdlRIBuildEnd(o.th, m, 0))
		m = manual(e)
		onto(e, m, 0)
		return model.MdlRIBuildEnd(e.th, m, 0)
	})
}

func proveBuilt() {
	unended := func(e *env) (m core.Handle) {
		m = manual(e)
		onto(e, m, 0)
		return m
	}
	prove("aclmdlRIExecute", "model-of-other-context", func(e *env) *core.Error {
		m, _, _ := whole(e)
		return model.MdlRIExecute(e.elsewhere(), m, -1)
	})
	prove("aclmdlRIExecute", "no-end-task", func(e *env) *core.Error {
		m := manual(e)
		e.ok(model.MdlRIEndTask(e.th, m, onto(e, m, 0)))
		e.want(model.MdlRIExecute(e.th, m, -1), abi.ErrRTModelExecute) // aclmdlRIBuildEnd is missing
		return model.MdlRIExecute(e.th, unended(e), -1)
	})
	prove("aclmdlRIExecute", "time-up", func(e *env) *core.Error {
		m, _, n := waiting(e)
		err := model.MdlRIExecute(e.th, m, 1)
		e.ok(signal.RecordNotify(e.th, n, e.stream())) // it has gone on running
		e.ok(e.th.SynchronizeStream(0))
		return err
	})
	prove("aclmdlRIExecute", "task-fails", func(e *env) *core.Error {
		m, p := manual(e), e.device(64)
		s := onto(e, m, 0)
		var l, list core.Handle
		e.ok(model.CreateLabel(e.th, &l))
		e.ok(model.CreateLabelList(e.th, &l, 1, &list))
		e.ok(transfer.Memset(e.th, p, 64, 0, 64))
		e.ok(model.SwitchLabelByIndex(e.th, p, 0, list, s)) // to a label that is not set
		ends(e, m, s)
		e.want(model.MdlRIExecute(e.th, m, -1), abi.ErrRTModelExecute)
		return model.MdlRIExecute(e.th, m, -1)
	})
	prove("aclmdlRIExecuteAsync", "no-end-task", func(e *env) *core.Error {
		return model.MdlRIExecuteAsync(e.th, unended(e), e.stream())
	})
	prove("aclmdlRIExecuteAsync", "no-build-end", func(e *env) *core.Error {
		m := manual(e)
		e.ok(model.MdlRIEndTask(e.th, m, onto(e, m, 0)))
		return model.MdlRIExecuteAsync(e.th, m, 0)
	})
	task := func(e *env) core.Handle {
		_, s, _ := whole(e)
		var n uint32 = 4
		var list [4]core.Handle
		e.ok(model.MdlRIGetTasksByStream(e.th, s, &list[0], &n))
		is(e, "tasks", n, 2) // the write and the end
		return list[0]
	}
	prove("aclmdlRITaskGetSeqId", "model-built", func(e *env) *core.Error {
		var id uint32
		return model.MdlRITaskGetSeqId(e.th, task(e), &id)
	})
	prove("aclmdlRITaskSetParams", "model-built", func(e *env) *core.Error {
		return model.MdlRITaskSetParams(e.th, task(e), &abi.MdlRITaskParams{Type: abi.ModelRiTaskValueWrite})
	})
	prove("aclmdlRITaskDisable", "model-built", func(e *env) *core.Error {
		return model.MdlRITaskDisable(e.th, task(e))
	})
}

func proveBoundStreams() {
	prove("aclrtRecordEvent", "event-on-model", func(e *env) *core.Error {
		var timed core.Handle
		e.ok(e.th.CreateEvent(&timed))
		e.want(e.th.RecordEvent(timed, boundStream(e, e.th)), abi.ErrRTFeatureNotSupport)
		return e.th.RecordEvent(exWith(e, abi.EventSync), boundStream(e, e.th))
	})
	prove("aclrtStreamWaitEvent", "event-on-model", func(e *env) *core.Error {
		return e.th.StreamWaitEvent(boundStream(e, e.th), exWith(e, abi.EventSync))
	})
	prove("aclrtResetEvent", "event-on-model", func(e *env) *core.Error {
		var timed core.Handle
		e.ok(e.th.CreateEvent(&timed))
		return e.th.ResetEvent(timed, boundStream(e, e.th))
	})
	recorded := func(e *env, wait func(ev core.Handle) *core.Error) *core.Error {
		ev := eventWith(e, abi.EventSync)
		e.ok(e.th.RecordEvent(ev, boundStream(e, e.th)))
		err := wait(ev)
		e.ok(e.th.RecordEvent(ev, 0)) // the latest record counts
		e.ok(wait(ev))
		return err
	}
	prove("aclrtSynchronizeEvent", "recorded-on-model", func(e *env) *core.Error {
		return recorded(e, e.th.SynchronizeEvent)
	})
	prove("aclrtSynchronizeEventWithTimeout", "recorded-on-model", func(e *env) *core.Error {
		return recorded(e, func(ev core.Handle) *core.Error { return e.th.SynchronizeEventWithTimeout(ev, 1000) })
	})
	prove("aclrtCmoWaitBarrier", "barrier-unknown", func(e *env) *core.Error {
		o := e.on(machine{product: "310B"})
		info := &abi.BarrierTaskInfo{BarrierNum: 1}
		info.CmoInfo[0] = abi.BarrierCmoInfo{CmoType: abi.CmoTypeInvalid, BarrierID: 3}
		s := boundStream(o, o.th)
		o.ok(transfer.CmoAsyncWithBarrier(o.th, o.device(64), 64, abi.CmoTypeInvalid, 4, s))
		return transfer.CmoWaitBarrier(o.th, info, s, 0)
	})
	prove("aclrtCmoAsyncWithDesc", "write-fails", func(e *env) *core.Error {
		return transfer.CmoAsyncWithDesc(e.th, 4096, abi.CmoTypePrefetch, boundStream(e, e.th), 0)
	})
	behaves("aclrtPersistentTaskClean", func(e *env) {
		m, s, p := whole(e)
		e.ok(e.th.PersistentTaskClean(s))
		e.want(model.MdlRIExecute(e.th, m, -1), abi.ErrRTModelExecute) // its end has gone
		writes(e, s, p, 9)
		ends(e, m, s)
		e.ok(model.MdlRIExecute(e.th, m, -1))
		is(e, "what ran", long(e, p), 9)
	})
}

func proveLabels() {
	prove("aclrtCreateLabel", "no-label-left", func(e *env) *core.Error {
		var l core.Handle
		for range 65535 {
			e.ok(model.CreateLabel(e.th, &l))
		}
		var more core.Handle
		err := model.CreateLabel(e.th, &more)
		e.ok(model.DestroyLabel(e.th, l))
		e.ok(model.CreateLabel(e.th, &more))
		return err
	})
	listed := func(e *env) (l core.Handle) {
		var list core.Handle
		e.ok(model.CreateLabel(e.th, &l))
		e.ok(model.CreateLabelList(e.th, &l, 1, &list))
		return l
	}
	prove("aclrtSetLabel", "label-of-other-context", func(e *env) *core.Error {
		return model.SetLabel(e.elsewhere(), listed(e), boundStream(e, e.th))
	})
	prove("aclrtSetLabel", "stream-of-sub-model", func(e *env) *core.Error {
		s := e.stream()
		e.ok(model.MdlRICaptureToModelRIBegin(e.th, s, sub(e), relaxed))
		return model.SetLabel(e.th, listed(e), s)
	})
	prove("aclrtSetLabel", "label-tied", func(e *env) *core.Error {
		l := listed(e)
		e.ok(model.SetLabel(e.th, l, boundStream(e, e.th)))
		return model.SetLabel(e.th, l, boundStream(e, e.th))
	})
	prove("aclrtSetLabel", "label-set", func(e *env) *core.Error {
		l, s := listed(e), boundStream(e, e.th)
		e.ok(model.SetLabel(e.th, l, s))
		return model.SetLabel(e.th, l, s)
	})
	prove("aclrtSetLabel", "label-in-no-list", func(e *env) *core.Error {
		var l core.Handle
		e.ok(model.CreateLabel(e.th, &l))
		return model.SetLabel(e.th, l, boundStream(e, e.th))
	})
	prove("aclrtDestroyLabel", "label-of-other-context", func(e *env) *core.Error {
		l := listed(e)
		err := model.DestroyLabel(e.elsewhere(), l)
		e.ok(model.DestroyLabel(e.th, l))
		return err
	})
	prove("aclrtCreateLabelList", "entry-not-live", func(e *env) *core.Error {
		var list core.Handle
		labels := []core.Handle{0, 0}
		e.ok(model.CreateLabel(e.th, &labels[0]))
		e.want(model.CreateLabelList(e.th, &labels[0], 2, &list), abi.ErrRTInvalidHandle)
		labels[1] = garbage
		return model.CreateLabelList(e.th, &labels[0], 2, &list)
	})
	prove("aclrtCreateLabelList", "out-of-memory", func(e *env) *core.Error {
		var l, list core.Handle
		e.ok(model.CreateLabel(e.th, &l))
		e.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
		err := model.CreateLabelList(e.th, &l, 1, &list)
		e.ok(model.CreateLabelList(e.th, &l, 1, &list))
		return err
	})
	prove("aclrtCreateLabelList", "entry-listed", func(e *env) *core.Error {
		var list core.Handle
		labels := []core.Handle{0, 0}
		e.ok(model.CreateLabel(e.th, &labels[0]))
		labels[1] = labels[0]
		e.want(model.CreateLabelList(e.th, &labels[0], 2, &list), abi.ErrRTInternalError)
		e.ok(model.CreateLabelList(e.th, &labels[0], 1, &list))
		return model.CreateLabelList(e.th, &labels[0], 1, &list)
	})
	prove("aclrtDestroyLabelList", "as-aclrtFree", func(e *env) *core.Error {
		var l, list core.Handle
		e.ok(model.CreateLabel(e.th, &l))
		e.ok(model.CreateLabelList(e.th, &l, 1, &list))
		e.ok(model.DestroyLabelList(e.th, list))
		return model.DestroyLabelList(e.th, list)
	})
	prove("aclrtSwitchLabelByIndex", "no-label-list", func(e *env) *core.Error {
		return model.SwitchLabelByIndex(e.th, e.device(64), 0, garbage, boundStream(e, e.th))
	})
	prove("aclrtSwitchStream", "stream-of-other-context-950", func(e *env) *core.Error {
		o := e.on(machine{product: "950"})
		p := o.device(64)
		return model.SwitchStream(o.th, p, 0, p, 0, o.stream(), 0, o.foreign())
	})
}

func behaveBuilt() {
	behaves("aclmdlRIExecute", func(e *env) {
		m, s, p := whole(e)
		is(e, "before it runs", long(e, p), 0)
		e.ok(model.MdlRIExecute(e.th, m, -1))
		is(e, "what ran", long(e, p), 7)
		e.want(transfer.MemsetAsync(e.th, p, 64, 1, 64, s), abi.ErrRTParamInvalid) // it is complete
		var n uint32 = 1
		var list core.Handle
		e.ok(model.MdlRIGetStreams(e.th, m, &list, &n))
		is(e, "stream", list, s)
		e.ok(model.MdlRIDestroy(e.th, m))
		e.ok(e.th.DestroyStream(s))
	})
	behaves("aclrtActiveStream", func(e *env) {
		m, p := manual(e), e.device(64)
		e.ok(transfer.Memset(e.th, p, 64, 0, 64))
		head, other, never := onto(e, m, 0), onto(e, m, streamDefault), onto(e, m, streamDefault)
		writes(e, never, p+16, 1)
		writes(e, head, p, 1)
		e.ok(model.ActiveStream(e.th, other, head))
		e.ok(transfer.MemcpyAsync(e.th, p+8, 8, p, 8, abi.MemcpyDeviceToDevice, other))
		ends(e, m, head)
		e.ok(model.MdlRIExecute(e.th, m, -1))
		is(e, "activated after what came before", long(e, p+8), 1)
		is(e, "what nothing activates", long(e, p+16), 0)
	})
	behaves("aclrtSwitchStream", func(e *env) {
		for cond, want := range map[abi.Condition][3]bool{ // less, equal, greater
			abi.ConditionEqual: {false, true, false}, abi.ConditionNotEqual: {true, false, true},
			abi.ConditionGreater: {false, false, true}, abi.ConditionGreaterOrEqual: {false, true, true},
			abi.ConditionLess: {true, false, false}, abi.ConditionLessOrEqual: {true, true, false},
		} {
			for i, left := range []uint64{^uint64(0), 0, 1} { // -1, 0, 1
				for _, typ := range []abi.CompareDataType{abi.SwitchInt32, abi.SwitchInt64} {
					m, p := manual(e), e.device(64)
					e.ok(transfer.Memset(e.th, p, 64, 0, 64))
					head, other := onto(e, m, 0), onto(e, m, streamDefault)
					writes(e, head, p, left)
					e.ok(model.SwitchStream(e.th, p, cond, p+8, typ, other, 0, head))
					writes(e, head, p+16, 1)
					e.ok(model.MdlRIEndTask(e.th, m, head))
					writes(e, other, p+24, 1)
					ends(e, m, other)
					e.ok(model.MdlRIExecute(e.th, m, -1))
					is(e, "the stream went on", long(e, p+16) == 1, !want[i])
					is(e, "the other one started", long(e, p+24) == 1, want[i])
					e.ok(model.MdlRIDestroy(e.th, m))
				}
			}
		}
	})
	behaves("aclrtSwitchLabelByIndex", func(e *env) {
		for index, want := range []uint64{10, 20, 20} { // more than the largest counts as the largest
			m, p := manual(e), e.device(64)
			e.ok(transfer.Memset(e.th, p, 64, 0, 64))
			var labels [2]core.Handle
			var list core.Handle
			for i := range labels {
				e.ok(model.CreateLabel(e.th, &labels[i]))
			}
			e.ok(model.CreateLabelList(e.th, &labels[0], 2, &list))
			s, other := onto(e, m, 0), onto(e, m, streamDefault)
			writes(e, s, p, uint64(index))
			e.ok(model.SwitchLabelByIndex(e.th, p, 1, list, s))
			writes(e, s, p+8, 99) // passed over
			e.ok(model.SetLabel(e.th, labels[0], s))
			writes(e, s, p+16, 10)
			e.ok(model.MdlRIEndTask(e.th, m, s))
			writes(e, other, p+8, 98)
			e.ok(model.SetLabel(e.th, labels[1], other))
			writes(e, other, p+16, 20)
			ends(e, m, other)
			e.ok(model.MdlRIExecute(e.th, m, -1))
			is(e, "where it went on", long(e, p+16), want)
			is(e, "what was passed over", long(e, p+8), 0)
			e.ok(model.MdlRIDestroy(e.th, m))
			e.ok(model.DestroyLabelList(e.th, list))
		}
	})
	behaves("aclmdlRIEndTask", func(e *env) {
		m, p := manual(e), e.device(64)
		head, other := onto(e, m, 0), onto(e, m, streamDefault)
		writes(e, head, p, 1)
		ends(e, m, other)
		e.want(model.MdlRIExecute(e.th, m, -1), abi.ErrRTModelExecute) // nothing starts the stream that has the end
	})
	behaves("aclrtCmoWaitBarrier", func(e *env) {
		o := e.on(machine{product: "310B"})
		m, p := manual(o), o.device(64)
		one, other := onto(o, m, 0), onto(o, m, 0)
		info := &abi.BarrierTaskInfo{BarrierNum: 1}
		info.CmoInfo[0] = abi.BarrierCmoInfo{CmoType: abi.CmoTypeInvalid, BarrierID: 3}
		ran := 0
		o.ok(o.th.LaunchHostFunc(one, func(core.Addr) { ran = 1 }, 0))
		o.ok(transfer.CmoAsyncWithBarrier(o.th, p, 64, abi.CmoTypeInvalid, 3, one))
		o.ok(transfer.CmoWaitBarrier(o.th, info, other, 0))
		seen := 0
		o.ok(o.th.LaunchHostFunc(other, func(core.Addr) { seen += ran; ran = 0 }, 0))
		ends(o, m, other)
		for range 3 {
			o.ok(model.MdlRIExecute(o.th, m, -1))
		}
		is(e, "waits that saw what came before the operation", seen, 3)
	})
}
