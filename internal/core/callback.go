package core

import (
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core/callback"
	"ropeway/internal/core/message"
)

// Callbacks of the program, as the header declares them.
type (
	DeviceStateFunc = func(deviceID int32, state abi.DeviceState, args Addr)
	StreamStateFunc = func(stream Handle, state abi.StreamState, args Addr)
	TaskAbortFunc   = func(deviceID int32, stage abi.DeviceTaskAbortStage, timeout uint32, args Addr) int32

	// Func is a C function pointer that the API compares with others.
	Func[F any] = callback.Func[F]

	// ExceptionFunc is called when a task has failed.
	ExceptionFunc = callback.ExceptionFunc
)

// callbackState holds the callbacks of the program and the texts of its errors. While its locks are held nothing is
// called and no other lock is taken.
type callbackState struct {
	patience atomic.Int64 // how long an abort waits for a stream, in nanoseconds; 0: abortPatience

	mu       sync.Mutex
	devices  callback.Registry[DeviceStateFunc] // guarded by mu
	streams  callback.Registry[StreamStateFunc] // guarded by mu
	aborts   callback.Registry[TaskAbortFunc]   // guarded by mu
	aborting map[*Device]chan struct{}          // guarded by mu; device task aborts under way, closed when they end
	texts    message.Texts                      // guarded by mu; errors of the process

	exceptions callback.Exceptions
	reports    callback.Reports // its lock comes after Stream.mu
}

// deviceState calls the callbacks of the program for a device that is being set or reset.
func (rt *Runtime) deviceState(user int32, state abi.DeviceState) {
	var list callback.Registry[DeviceStateFunc]
	Locked(&rt.callbacks.mu, func() { list = rt.callbacks.devices })
	for _, f := range list {
		f.Call(user, state, f.Args)
	}
}

// streamState calls the callbacks of the program for a stream that was created or is about to be destroyed. Default
// streams belong to their contexts and are not reported.
func (rt *Runtime) streamState(s *Stream, state abi.StreamState) {
	var list callback.Registry[StreamStateFunc]
	Locked(&rt.callbacks.mu, func() { list = rt.callbacks.streams })
	for _, f := range list {
		f.Call(s.Handle, state, f.Args)
	}
}

// RegDeviceStateCallback is aclrtRegDeviceStateCallback. A nil callback removes the one of that name.
func (t *Thread) RegDeviceStateCallback(regName *byte, fn DeviceStateFunc, args Addr) *Error {
	const api = "aclrtRegDeviceStateCallback"
	if err := t.checkRegDeviceStateCallback(regName, fn, args); err != nil {
		return err
	}
	s := &t.Runtime.callbacks
	f := callback.Named[DeviceStateFunc]{Name: CString(regName), Call: fn, Args: args}
	return register(s, &s.devices, api, f, fn == nil)
}

// SetDeviceTaskAbortCallback is aclrtSetDeviceTaskAbortCallback. A nil callback removes the one of that name.
func (t *Thread) SetDeviceTaskAbortCallback(regName *byte, fn TaskAbortFunc, args Addr) *Error {
	const api = "aclrtSetDeviceTaskAbortCallback"
	if err := t.checkSetDeviceTaskAbortCallback(regName, fn, args); err != nil {
		return err
	}
	s := &t.Runtime.callbacks
	f := callback.Named[TaskAbortFunc]{Name: CString(regName), Call: fn, Args: args}
	return register(s, &s.aborts, api, f, fn == nil)
}

// register adds f to a list of s or, if remove is set, removes its name; it refuses a name in use.
func register[F any](s *callbackState, list *callback.Registry[F], api string, f callback.Named[F],
	remove bool) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case remove:
		*list = list.Without(f.Name)
	case list.Has(f.Name):
		return Refused(api, "regName", "%q already has a callback; remove it with a NULL callback first", f.Name)
	default:
		*list = list.With(f)
	}
	return nil
}

// RegStreamStateCallback is aclrtRegStreamStateCallback. A nil callback removes the one of that name, any other
// replaces it.
func (t *Thread) RegStreamStateCallback(regName *byte, fn StreamStateFunc, args Addr) *Error {
	if err := t.checkRegStreamStateCallback(regName, fn, args); err != nil {
		return err
	}
	f := callback.Named[StreamStateFunc]{Name: CString(regName), Call: fn, Args: args}
	s := &t.Runtime.callbacks
	s.mu.Lock()
	defer s.mu.Unlock()
	if fn == nil {
		s.streams = s.streams.Without(f.Name)
	} else {
		s.streams = s.streams.With(f)
	}
	return nil
}
