package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/model"
)

const (
	captureGlobal  = abi.ModelRiCaptureModeGlobal
	captureRelaxed = abi.ModelRiCaptureModeRelaxed
)

// exchange is aclmdlRICaptureThreadExchangeMode, and the mode that it left.
func exchange(th *core.Thread, mode abi.MdlRICaptureMode) (abi.MdlRICaptureMode, *core.Error) {
	err := th.MdlRICaptureThreadExchangeMode(&mode)
	return mode, err
}

func init() {
	proveCaptureInfo()
	proveCaptureMode()
}

func proveCaptureInfo() {
	prove("aclmdlRICaptureGetInfo", "nothing-asked", func(e *env) *core.Error {
		return model.MdlRICaptureGetInfo(e.on(machine{product: "910"}).stranger(), garbage, nil, nil)
	})
	prove("aclmdlRICaptureGetInfo", "on-310B-910", func(e *env) *core.Error {
		var s abi.MdlRICaptureStatus
		e.want(
			model.MdlRICaptureGetInfo(e.on(machine{product: "310B"}).th, garbage, &s, nil),
			abi.ErrRTFeatureNotSupport,
		)
		return model.MdlRICaptureGetInfo(e.on(machine{product: "910"}).th, garbage, &s, nil)
	})
	behaves("aclmdlRICaptureGetInfo", func(e *env) {
		for _, p := range []string{"A2", "A3", "950", "310P"} {
			o := e.on(machine{product: p})
			s := o.stream()
			status, made := abi.ModelRiCaptureStatusActive, core.Handle(garbage)
			o.ok(model.MdlRICaptureGetInfo(o.th, s, &status, &made))
			is(o, "status", status, abi.ModelRiCaptureStatusNone)
			is(o, "model", made, core.Handle(0))
			status, made = abi.ModelRiCaptureStatusActive, garbage
			o.ok(
				model.MdlRICaptureGetInfo(o.stranger(), s, &status, nil),
			) // either may be NULL, and no context is needed
			o.ok(model.MdlRICaptureGetInfo(o.stranger(), s, nil, &made))
			is(o, "status", status, abi.ModelRiCaptureStatusNone)
			is(o, "model", made, core.Handle(0))
		}
	})
}

func proveCaptureMode() {
	prove("aclmdlRICaptureThreadExchangeMode", "on-310B-910", func(e *env) *core.Error {
		for _, p := range []string{"310B", "910"} {
			_, err := exchange(e.on(machine{product: p, bare: true}).th, 3)
			e.want(err, abi.ErrRTFeatureNotSupport)
		}
		_, err := exchange(e.on(machine{product: "910"}).th, captureRelaxed)
		return err
	})
	prove("aclmdlRICaptureThreadExchangeMode", "mode-outside-0-to-2", func(e *env) *core.Error {
		return lastOf(e, abi.ErrRTParamInvalid, []int32{-1, 3}, func(m int32) *core.Error {
			mode, err := exchange(e.stranger(), abi.MdlRICaptureMode(m))
			is(e, "mode", mode, abi.MdlRICaptureMode(m))
			return err
		})
	})
	behaves("aclmdlRICaptureThreadExchangeMode", func(e *env) {
		other := e.stranger()
		e.ok(other.SetDevice(1))
		step := func(th *core.Thread, mode, want abi.MdlRICaptureMode) {
			e.Helper()
			was, err := exchange(th, mode)
			e.ok(err)
			is(e, "earlier mode", was, want)
		}
		step(e.th, captureRelaxed, captureGlobal)
		step(other, abi.ModelRiCaptureModeThreadLocal, captureGlobal) // each thread has its own
		step(e.th, captureGlobal, captureRelaxed)
		step(other, captureGlobal, abi.ModelRiCaptureModeThreadLocal)
		_, err := exchange(e.th, 3)
		e.want(err, abi.ErrRTParamInvalid)
		step(e.th, captureRelaxed, captureGlobal) // a refused call changed nothing
		e.ok(e.th.SetDevice(1))
		step(e.th, captureGlobal, captureRelaxed) // it is the thread's, whatever the context
	})
}
