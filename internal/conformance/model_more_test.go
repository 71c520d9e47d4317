package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/model"
)

// proveExternal: an event that took part in a model with the EXTERNAL flag is not for plain calls of that direction.
func proveExternal() {
	used := func(e *env) (ev core.Handle) {
		e.ok(e.th.CreateEventExWithFlag(&ev, abi.EventSync))
		return ev
	}
	prove("aclrtRecordEvent", "recorded-external", func(e *env) *core.Error {
		ev := used(e)
		e.ok(e.th.RecordEventWithFlag(ev, begin(e, relaxed), 1))
		e.want(e.th.RecordEventWithFlag(ev, e.stream(), 0), abi.ErrRTParamInvalid)
		return e.th.RecordEvent(ev, e.stream())
	})
	prove("aclrtStreamWaitEvent", "waited-external", func(e *env) *core.Error {
		ev := used(e)
		e.ok(e.th.StreamWaitEventWithFlag(begin(e, relaxed), ev, 0, 1))
		e.want(e.th.StreamWaitEventWithFlag(e.stream(), ev, 0, 0), abi.ErrRTParamInvalid)
		return e.th.StreamWaitEvent(e.stream(), ev)
	})
}

// proveGroupOfKernels: a task group whose kernels are replaced.
func proveGroupOfKernels() {
	filled := func(e *env, f core.Handle, p core.Addr) (m, g core.Handle) {
		return capturing(e, func(s core.Handle) {
			e.ok(model.MdlRICaptureTaskGrpBegin(e.th, s))
			launchTimes(e, f, p, s)
			e.ok(model.MdlRICaptureTaskGrpEnd(e.th, s, &g))
		}), g
	}
	prove("aclmdlRICaptureTaskUpdateEnd", "too-few-kernels", func(e *env) *core.Error {
		f, p := e.kernel("times"), e.words(1, 1)
		_, g := filled(e, f, p)
		s := e.stream()
		e.ok(model.MdlRICaptureTaskUpdateBegin(e.th, s, g))
		err := model.MdlRICaptureTaskUpdateEnd(e.th, s)
		e.ok(model.MdlRICaptureTaskUpdateBegin(e.th, s, g)) // the update mode has ended
		launchTimes(e, f, p, s)
		e.ok(model.MdlRICaptureTaskUpdateEnd(e.th, s))
		return err
	})
	behaves("aclmdlRICaptureTaskUpdateBegin", func(e *env) {
		f, p, q := e.kernel("times"), e.words(1, 1), e.words(1, 1)
		m, g := filled(e, f, p)
		s := e.stream()
		e.ok(model.MdlRIExecuteAsync(e.th, m, s))
		e.ok(model.MdlRICaptureTaskUpdateBegin(e.th, s, g))
		launchTimes(e, f, q, s)
		e.ok(model.MdlRICaptureTaskUpdateEnd(e.th, s))
		for range 2 {
			e.ok(model.MdlRIExecuteAsync(e.th, m, s))
		}
		is(e, "the word of the first kernel", e.number(p), 3)
		is(e, "the word of the second kernel", e.number(q), 9)
	})
}
