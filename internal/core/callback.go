package core

import (
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
)

// Functions of the program that it wants to be called, as the header declares them.
type (
	DeviceStateFunc = func(deviceID int32, state abi.DeviceState, args Addr)
	StreamStateFunc = func(stream Handle, state abi.StreamState, args Addr)
	TaskAbortFunc   = func(deviceID int32, stage abi.DeviceTaskAbortStage, timeout uint32, args Addr) int32
)

// callbackState has the callbacks of the program, and the texts of its errors. Nothing is called and no other lock is
// taken while its locks are held.
type callbackState struct {
	patience atomic.Int64 // how long an abort waits for a stream, in nanoseconds; 0: abortPatience

	mu       sync.Mutex
	devices  registry[DeviceStateFunc] // guarded by mu
	streams  registry[StreamStateFunc] // guarded by mu
	aborts   registry[TaskAbortFunc]   // guarded by mu
	aborting map[*Device]chan struct{} // guarded by mu; device task aborts under way, closed when they end
	texts    []text                    // guarded by mu; errors of the process

	exceptions exceptionState
}

// settle returns when the exception callbacks for the failures so far have run.
func (s *callbackState) settle() { s.exceptions.settle() }

// deviceState calls the callbacks of the program for a device that is being set or reset.
func (rt *Runtime) deviceState(user int32, state abi.DeviceState) {
	var list registry[DeviceStateFunc]
	Locked(&rt.callbacks.mu, func() { list = rt.callbacks.devices })
	for _, f := range list {
		f.call(user, state, f.args)
	}
}

// streamState calls the callbacks of the program for a stream that was made or is about to be destroyed. Default
// streams come and go with their contexts and are not reported.
func (rt *Runtime) streamState(s *Stream, state abi.StreamState) {
	var list registry[StreamStateFunc]
	Locked(&rt.callbacks.mu, func() { list = rt.callbacks.streams })
	for _, f := range list {
		f.call(s.Handle, state, f.args)
	}
}

// RegDeviceStateCallback is aclrtRegDeviceStateCallback. A nil callback removes the one that has the name.
func (t *Thread) RegDeviceStateCallback(regName *byte, callback DeviceStateFunc, args Addr) *Error {
	const api = "aclrtRegDeviceStateCallback"
	if err := t.checkRegDeviceStateCallback(regName, callback, args); err != nil {
		return err
	}
	s := &t.Runtime.callbacks
	return register(s, &s.devices, api, named[DeviceStateFunc]{goString(regName), callback, args}, callback == nil)
}

// SetDeviceTaskAbortCallback is aclrtSetDeviceTaskAbortCallback. A nil callback removes the one that has the name.
func (t *Thread) SetDeviceTaskAbortCallback(regName *byte, callback TaskAbortFunc, args Addr) *Error {
	const api = "aclrtSetDeviceTaskAbortCallback"
	if err := t.checkSetDeviceTaskAbortCallback(regName, callback, args); err != nil {
		return err
	}
	s := &t.Runtime.callbacks
	return register(s, &s.aborts, api, named[TaskAbortFunc]{goString(regName), callback, args}, callback == nil)
}

// register adds f to a list of s or, on remove, takes its name out; a name in use is refused.
func register[F any](s *callbackState, list *registry[F], api string, f named[F], remove bool) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case remove:
		*list = list.without(f.name)
	case list.find(f.name) >= 0:
		return Refused(api, "regName", "%q already has a callback; remove it with a NULL callback first", f.name)
	default:
		*list = list.with(f)
	}
	return nil
}

// RegStreamStateCallback is aclrtRegStreamStateCallback. A nil callback removes the one that has the name, another
// one replaces it.
func (t *Thread) RegStreamStateCallback(regName *byte, callback StreamStateFunc, args Addr) *Error {
	if err := t.checkRegStreamStateCallback(regName, callback, args); err != nil {
		return err
	}
	f := named[StreamStateFunc]{goString(regName), callback, args}
	s := &t.Runtime.callbacks
	s.mu.Lock()
	defer s.mu.Unlock()
	if callback == nil {
		s.streams = s.streams.without(f.name)
	} else {
		s.streams = s.streams.with(f)
	}
	return nil
}
