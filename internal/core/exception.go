package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/core/callback"
	"ropeway/internal/driver"
)

// raise queues the failure of a task for the exception callbacks.
func (rt *Runtime) raise(s *Stream, tag driver.Tag, f *failure) {
	k := failedKernel(f.err)
	rt.callbacks.exceptions.Raise(callback.Exception{
		Task: tag.Task, Stream: uint32(s.ID), Thread: tag.Thread, Device: uint32(s.Context.Device.User), Code: f.code,
		Function: uintptr(k.Function), Args: k.Args, Size: k.Size, Callback: k.Callback,
	})
}

// SetExceptionInfoCallback is aclrtSetExceptionInfoCallback: the one function of this call; NULL removes it.
func (t *Thread) SetExceptionInfoCallback(f Func[ExceptionFunc]) *Error {
	t.Runtime.callbacks.exceptions.Set(f)
	return nil
}

// ExceptionInfoCallbackRegister is aclrtExceptionInfoCallbackRegister. Functions are called in the order they were
// registered in; the same one counts once.
func (t *Thread) ExceptionInfoCallbackRegister(callback Func[ExceptionFunc]) *Error {
	if err := t.checkExceptionInfoCallbackRegister(callback); err != nil {
		return err
	}
	t.Runtime.callbacks.exceptions.Add(callback)
	return nil
}

// ExceptionInfoCallbackUnregister is aclrtExceptionInfoCallbackUnregister. A running call continues.
func (t *Thread) ExceptionInfoCallbackUnregister(callback Func[ExceptionFunc]) *Error {
	if err := t.checkExceptionInfoCallbackUnregister(callback); err != nil {
		return err
	}
	t.Runtime.callbacks.exceptions.Remove(callback.Key)
	return nil
}

// exception is a failed task.
type exception = callback.Exception

// noInfo is the result of the functions for an exception that is NULL or over.
const noInfo = 0xFFFFFFFF

// ask returns a field of the exception that info names.
func (t *Thread) ask(info Addr, field func(*exception) uint32) uint32 {
	if e := t.Runtime.callbacks.exceptions.Find(info); e != nil {
		return field(e)
	}
	return noInfo
}

// GetTaskIdFromExceptionInfo is aclrtGetTaskIdFromExceptionInfo.
func (t *Thread) GetTaskIdFromExceptionInfo(info Addr) uint32 {
	return t.ask(info, func(e *exception) uint32 { return e.Task })
}

// GetStreamIdFromExceptionInfo is aclrtGetStreamIdFromExceptionInfo: what aclrtStreamGetId says of the stream.
func (t *Thread) GetStreamIdFromExceptionInfo(info Addr) uint32 {
	return t.ask(info, func(e *exception) uint32 { return e.Stream })
}

// GetThreadIdFromExceptionInfo is aclrtGetThreadIdFromExceptionInfo: the operating system's number of the thread that
// submitted the task.
func (t *Thread) GetThreadIdFromExceptionInfo(info Addr) uint32 {
	return t.ask(info, func(e *exception) uint32 { return e.Thread })
}

// GetDeviceIdFromExceptionInfo is aclrtGetDeviceIdFromExceptionInfo: the device as the program counts.
func (t *Thread) GetDeviceIdFromExceptionInfo(info Addr) uint32 {
	return t.ask(info, func(e *exception) uint32 { return e.Device })
}

// GetErrorCodeFromExceptionInfo is aclrtGetErrorCodeFromExceptionInfo: the code the synchronisation will return.
func (t *Thread) GetErrorCodeFromExceptionInfo(info Addr) uint32 {
	return t.ask(info, func(e *exception) uint32 { return uint32(e.Code) })
}

// raised finds the exception that info names.
func (t *Thread) raised(api string, info Addr) (*exception, *Error) {
	if e := t.Runtime.callbacks.exceptions.Find(info); e != nil {
		return e, nil
	}
	return nil, Fail(api, notAnACLCode, "info", "%#x is no exception, or one whose callback has returned", info)
}

// GetArgsFromExceptionInfo is aclrtGetArgsFromExceptionInfo. Only kernels have arguments.
func (t *Thread) GetArgsFromExceptionInfo(info Addr, devArgsPtr *Addr, devArgsLen *uint32) *Error {
	const api = "aclrtGetArgsFromExceptionInfo"
	e, err := t.checkGetArgsFromExceptionInfo(info, devArgsPtr, devArgsLen)
	switch {
	case err != nil:
		return err
	case devArgsPtr == nil:
		return IsNull(api, "devArgsPtr")
	case devArgsLen == nil:
		return IsNull(api, "devArgsLen")
	}
	if e.Function == 0 {
		return Fail(api, notAnACLCode, "info", "task %d is no kernel and has no arguments", e.Task)
	}
	*devArgsPtr, *devArgsLen = e.Args, e.Size
	return nil
}

// notAnACLCode is (aclError)0xFFFFFFFF.
const notAnACLCode abi.Code = -1

// GetFuncHandleFromExceptionInfo is aclrtGetFuncHandleFromExceptionInfo.
func (t *Thread) GetFuncHandleFromExceptionInfo(info Addr, function *Handle) *Error {
	const api = "aclrtGetFuncHandleFromExceptionInfo"
	e, err := t.checkGetFuncHandleFromExceptionInfo(info, function)
	switch {
	case err != nil:
		return err
	case function == nil:
		return IsNull(api, "func")
	}
	if e.Function == 0 {
		return Refused(api, "info", "task %d is no kernel", e.Task)
	}
	*function = Handle(e.Function)
	return nil
}
