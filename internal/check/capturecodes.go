package check

import "ropeway/internal/abi"

// codeOfCapture reports whether a code says that a capture does not allow a call, or is invalid. named: the error names
// a model.
func codeOfCapture(code abi.Code, named bool) bool {
	switch code {
	case abi.ErrRTCaptureDependency, abi.ErrRTStreamUnjoined, abi.ErrRTStreamCaptured, abi.ErrRTEventCaptured,
		abi.ErrRTCaptureModeNotSupport, abi.ErrRTStreamCaptureImplicit, abi.ErrStreamCaptureConflict,
		abi.ErrStreamTaskGroupIntr, abi.ErrRTStreamCaptureUnmatched, abi.ErrRTStreamCaptureWrongThread,
		abi.ErrRTCaptureModeBlockAsync, abi.ErrRTStreamCaptureInvalidated:
		return true
	}
	return named && losesCapture(code)
}

// losesCapture reports whether an error with this code that names a model says why its capture is invalid or has ended
// without a model.
func losesCapture(code abi.Code) bool {
	switch code {
	case abi.ErrStreamCaptureConflict, abi.ErrStreamTaskGroupIntr, abi.ErrRTTaskTypeNotSupport,
		abi.ErrStreamTaskGroupStatus, abi.ErrRTSubAclgraphIsCapturing:
		return true
	}
	return false
}

// captureAdvice has the advice on calls that a capture does not allow, if it differs from the rule's.
var captureAdvice = map[abi.Code]string{
	abi.ErrRTCaptureModeNotSupport: "Copy before the capture or after its end; or begin it with " +
		"ACL_MODEL_RI_CAPTURE_MODE_RELAXED; or call aclmdlRICaptureThreadExchangeMode around the copy.",
	abi.ErrRTCaptureModeBlockAsync: "Copy pinned memory, which does not make the copy a synchronous one; or begin " +
		"the capture with ACL_MODEL_RI_CAPTURE_MODE_RELAXED.",
	abi.ErrRTCaptureDependency: "Record the event in the capture, or let the host wait for it before the capture " +
		"begins.",
	abi.ErrRTStreamUnjoined: "Record an event on the stream that joined, after its last task, and let the stream " +
		"where the capture began wait for it.",
	abi.ErrStreamTaskGroupIntr: "End the task group (aclmdlRICaptureTaskGrpEnd) before the capture is given " +
		"anything else.",
	abi.ErrRTTaskTypeNotSupport: "Make the call before aclmdlRICaptureTaskGrpBegin, or after " +
		"aclmdlRICaptureTaskGrpEnd.",
	abi.ErrStreamTaskGroupStatus: "End the task group (aclmdlRICaptureTaskGrpEnd) before the capture, and capture " +
		"again: this capture is over.",
	abi.ErrRTSubAclgraphIsCapturing: "End the captures into the sub-models before that of the model, and capture " +
		"again: this capture is over.",
	abi.ErrStreamCaptureConflict: "Give each capture events of its own.",
	abi.ErrRTStreamCaptureWrongThread: "End the capture in the thread that began it, or begin it with " +
		"ACL_MODEL_RI_CAPTURE_MODE_RELAXED. This capture is over, and its model stays until it is destroyed.",
	abi.ErrRTStreamCaptureUnmatched: "End the capture on the stream where it began.",
}
