package core

import "ropeway/internal/driver"

// ModelHooks is what [CheckHooks] has about captures and models. A model is named by its id. Methods may be called with
// a lock of the model held; they do not wait.
type ModelHooks interface {
	// Capturing reports that a stream takes part in the capture of a model from now on: the first that does is the one
	// where t began the capture, another one joins it. own is the hidden stream that has its tasks. parent is the model
	// whose condition task it belongs to, 0 if there is none. bound is whether t bound the stream to a model that is
	// built by hand, which is no capture.
	Capturing(t *Thread, model, parent uint32, stream, own int32, bound bool)

	// Captured reports that t submitted a task that became one of the model, by its number there, and number of the
	// hidden stream own. op is what it does, or nil if it touches no memory. Each segment of a batch becomes a task:
	// they are numbered from task and number on.
	Captured(t *Thread, model uint32, task int, own int32, number uint32, op *driver.Op)

	// CaptureEnded reports that the capture is over.
	CaptureEnded(model uint32)

	// ModelChanged reports that a task does op from now on, or, if that is nil, nothing that touches memory. Updated
	// reports that stream by has replaced the kernel of a task, number of own; if by is hidden, as byTask of its model.
	ModelChanged(t *Thread, model uint32, task int, op *driver.Op)
	Updated(model uint32, task int, own int32, number uint32, by int32, byTask int)

	// Executing reports that t executes the model as a task of a stream, before the first operation of the task reaches
	// the queue. ExecutionBegins reports that the hidden streams of a model carry that task out from now on.
	Executing(t *Thread, model uint32, stream int32, task uint32)
	ExecutionBegins(model uint32, stream int32, task uint32)

	// ModelGone reports that the model was destroyed.
	ModelGone(model uint32)
}

// InCapture marks e as one about a model, or the capture of one.
func (e *Error) InCapture(model uint32) *Error {
	e.Model = model
	return e
}
