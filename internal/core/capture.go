package core

import "ropeway/internal/abi"

// Capturing streams into models is not built. What a program may ask outside a capture has an answer all the same.

// MdlRICaptureGetInfo is aclmdlRICaptureGetInfo: no stream is being captured, so the status is none and there is no
// model.
func (t *Thread) MdlRICaptureGetInfo(stream Handle, status *abi.MdlRICaptureStatus, modelRI *Handle) *Error {
	const api = "aclmdlRICaptureGetInfo"
	if err := t.checkMdlRICaptureGetInfo(stream, status, modelRI); err != nil {
		return err
	}
	if status == nil && modelRI == nil {
		return Invalid(api, "status", "is NULL, and so is modelRI: there is nothing to find out")
	}
	if err := t.Lacks(api); err != nil {
		return err
	}
	if _, err := t.Stream(api, "stream", stream); err != nil {
		return err
	}
	if status != nil {
		*status = abi.ModelRiCaptureStatusNone
	}
	if modelRI != nil {
		*modelRI = 0
	}
	return nil
}

// MdlRICaptureThreadExchangeMode is aclmdlRICaptureThreadExchangeMode.
func (t *Thread) MdlRICaptureThreadExchangeMode(mode *abi.MdlRICaptureMode) *Error {
	const api = "aclmdlRICaptureThreadExchangeMode"
	if err := t.checkMdlRICaptureThreadExchangeMode(mode); err != nil {
		return err
	}
	if err := t.Lacks(api); err != nil {
		return err
	}
	wanted := *mode
	if wanted < abi.ModelRiCaptureModeGlobal || wanted > abi.ModelRiCaptureModeRelaxed {
		return Refused(api, "mode", "%d is not 0 to 2", int32(wanted))
	}
	if t.Current() == nil {
		return NoCurrentContext(api)
	}
	*mode = t.captureMode
	if !t.Shared {
		t.captureMode = wanted
	}
	return nil
}
