package core

import "ropeway/internal/driver"

// ModelHooks is the part of [CheckHooks] for captures and models, which are given by the id of the model. Methods may
// be called with a lock of the model held; they do not wait.
type ModelHooks interface {
	// Capturing reports that a stream is now in the capture of a model: the first stream is the one where t began the
	// capture, later ones join it. own is the hidden stream with its tasks. parent is the model with the condition
	// task, 0 if there is none. bound means that t has bound the stream to a model that is built by hand, which is not
	// a capture.
	Capturing(t *Thread, model, parent uint32, stream, own int32, bound bool)

	// Captured reports that t submitted a task of the model, with its index there and its number on the hidden stream
	// own. op is nil if it touches no memory. Each segment of a batch becomes a task; the first has task and number.
	Captured(t *Thread, model uint32, task int, own int32, number uint32, op *driver.Op)

	// CaptureEnded reports that the capture is over.
	CaptureEnded(model uint32)

	// ModelChanged reports that op is the new operation of a task; nil if it touches no memory. Updated reports that
	// stream by has replaced the kernel of a task with that number on own; if by is hidden, with task byTask of its
	// model.
	ModelChanged(t *Thread, model uint32, task int, op *driver.Op)
	Updated(model uint32, task int, own int32, number uint32, by int32, byTask int)

	// Executing reports that t executes the model as a task of a stream, before the first operation of the task reaches
	// the queue. ExecutionBegins reports that the hidden streams of a model begin to carry out that task.
	Executing(t *Thread, model uint32, stream int32, task uint32)
	ExecutionBegins(model uint32, stream int32, task uint32)

	// ModelGone reports that the model was destroyed.
	ModelGone(model uint32)
}

// InCapture sets the model, or its capture, that e is about.
func (e *Error) InCapture(model uint32) *Error {
	e.Model = model
	return e
}
