package core

// A runtime has parts: the state of the packages below this one (launch, memory, model, process, signal,
// transfer). Each declares its part in a variable,
//
//	var part = core.NewPart(func(rt *core.Runtime) *state { ... })
//
// and finds it in a runtime with part.Of(rt). A part that implements an interface of this file is called at that event
// of the runtime.
type Part[T any] struct{ index int }

// partMakers create the parts of a runtime. They are only written during the initialisation of packages.
var partMakers []func(*Runtime) any

// NewPart declares a part. It must be called during the initialisation of a package.
func NewPart[T any](makePart func(*Runtime) *T) Part[T] {
	partMakers = append(partMakers, func(rt *Runtime) any { return makePart(rt) })
	return Part[T]{len(partMakers) - 1}
}

// Of returns the part of a runtime.
func (p Part[T]) Of(rt *Runtime) *T { return rt.parts[p.index].(*T) }

// DeviceEnder is a part that is called before a device is closed. Device.mu is held.
type DeviceEnder interface{ DeviceClosing(d *Device) }

// DeviceCloser is a part that is called after a device was closed; was is the closed instance. Device.mu is held.
type DeviceCloser interface {
	DeviceClosed(d *Device, was *OpenDevice)
}

// ContextCloser is a part that is called after a context was destroyed. No lock is held.
type ContextCloser interface{ ContextDestroyed() }

// Finalizer is a part that is called at aclFinalize, and when the runtime is closed. No lock is held.
type Finalizer interface{ Finalize() }

// ThreadCloser is a part that is called when a thread ends. No lock is held.
type ThreadCloser interface{ ThreadClosed(t *Thread) }

// makeParts creates the parts of the runtime.
func (rt *Runtime) makeParts() {
	for _, makePart := range partMakers {
		rt.parts = append(rt.parts, makePart(rt))
	}
}

// eachPart calls f with the parts of a runtime that implement T.
func eachPart[T any](rt *Runtime, f func(T)) {
	for _, p := range rt.parts {
		if p, ok := p.(T); ok {
			f(p)
		}
	}
}

// Finalize ends the sharing of the parts with other processes.
func (rt *Runtime) Finalize() { eachPart(rt, Finalizer.Finalize) }

// OnSynchronized makes f be called after each successful synchronisation of a stream.
func (rt *Runtime) OnSynchronized(f func()) { rt.onSynchronized.Store(&f) }
