package core

import (
	"runtime"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// ExceptionFunc is a function that is called when a task has failed. info is good for the Get…FromExceptionInfo
// functions until it returns.
type ExceptionFunc = func(info Addr)

// exceptionState calls functions of the program for failed tasks. They run one after another, in the order of the
// failures, on a goroutine that runs only while there are failures to report. Streams go on meanwhile, but a
// synchronisation that returns a failure does so after the functions have been called for it.
type exceptionState struct {
	caller atomic.Int64 // thread that runs the functions at the moment; 0 when none does

	mu     sync.Mutex
	single Func[ExceptionFunc]   // guarded by mu; aclrtSetExceptionInfoCallback
	list   []Func[ExceptionFunc] // guarded by mu; aclrtExceptionInfoCallbackRegister; replaced, never changed
	queue  []*exception          // guarded by mu; to be reported
	newest *exception            // guarded by mu; the last that was put there
	alive  bool                  // guarded by mu; the goroutine runs
	tokens uintptr               // guarded by mu; tokens given out
	known  map[Addr]*exception   // guarded by mu; what tokens name, during the calls
}

// exception is how one task failed. It never changes.
type exception struct {
	task, stream, thread, device uint32
	code                         abi.Code
	kernel                       FailedKernel  // if it is one
	called                       chan struct{} // closed when the functions have been called
}

// tokenBase keeps tokens apart from handles and addresses.
const tokenBase = 0xE << 56

// raise queues a failure for the functions of the program. It does not wait; a synchronisation that returns the failure
// does (settle).
func (rt *Runtime) raise(s *Stream, tag driver.Tag, f *failure) {
	x := &rt.callbacks.exceptions
	k := failedKernel(f.err)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.single.Key == 0 && len(x.list) == 0 && k.Callback == nil {
		return
	}
	x.newest = &exception{
		task: tag.Task, stream: uint32(s.ID), thread: tag.Thread, device: uint32(s.Context.Device.User),
		code: f.code, kernel: k, called: make(chan struct{}),
	}
	x.queue = append(x.queue, x.newest)
	if !x.alive {
		x.alive = true
		go x.call()
	}
}

// call calls the functions for what is queued. It keeps its thread, so that a function that synchronises the failed
// stream is recognised and does not wait for itself.
func (x *exceptionState) call() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	x.caller.Store(threadNumber())
	for x.callOne() {
	}
}

// callOne calls the functions for the oldest failure; false if there is none. A function that ends its goroutine ends
// this one, and another goes on.
func (x *exceptionState) callOne() bool {
	e, token, calls := x.next()
	if e == nil {
		return false
	}
	returned := false
	defer func() {
		Locked(&x.mu, func() { delete(x.known, token) })
		close(e.called)
		if !returned {
			go x.call()
		}
	}()
	for _, f := range calls {
		f.Call(token)
	}
	if e.kernel.Callback != nil {
		e.kernel.Callback(token)
	}
	returned = true
	return true
}

// next takes the oldest failure that has not been reported, its token and the functions to call; nil if there is none,
// and then the goroutine is over.
func (x *exceptionState) next() (*exception, Addr, []Func[ExceptionFunc]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.queue) == 0 {
		x.queue, x.alive = nil, false
		x.caller.Store(0)
		return nil, 0, nil
	}
	e := x.queue[0]
	x.queue = x.queue[1:]
	x.tokens++
	token := Addr(tokenBase + x.tokens)
	if x.known == nil {
		x.known = map[Addr]*exception{}
	}
	x.known[token] = e
	calls := x.list
	if x.single.Key != 0 {
		calls = add(without(calls, x.single.Key), x.single) // the same pointer counts once
	}
	return e, token, calls
}

// settle returns when the functions have been called for all failures so far. Inside such a function it returns at
// once.
func (x *exceptionState) settle() {
	x.mu.Lock()
	e := x.newest
	x.mu.Unlock()
	if e == nil {
		return
	}
	select {
	case <-e.called:
	default:
		if n := threadNumber(); n == 0 || n != x.caller.Load() {
			<-e.called
		}
	}
}

// find is what a token names, or nil.
func (x *exceptionState) find(token Addr) *exception {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.known[token]
}

// add is a copy of list with f at its end.
func add(list []Func[ExceptionFunc], f Func[ExceptionFunc]) []Func[ExceptionFunc] {
	return append(append(make([]Func[ExceptionFunc], 0, len(list)+1), list...), f)
}

// without is a copy of list without the function that has the key.
func without(list []Func[ExceptionFunc], key uintptr) []Func[ExceptionFunc] {
	var kept []Func[ExceptionFunc]
	for _, f := range list {
		if f.Key != key {
			kept = append(kept, f)
		}
	}
	return kept
}

// SetExceptionInfoCallback is aclrtSetExceptionInfoCallback: the one function of this call; NULL removes it.
func (t *Thread) SetExceptionInfoCallback(callback Func[ExceptionFunc]) *Error {
	x := &t.Runtime.callbacks.exceptions
	Locked(&x.mu, func() { x.single = callback })
	return nil
}

// ExceptionInfoCallbackRegister is aclrtExceptionInfoCallbackRegister. Functions are called in the order they were
// registered in; the same one counts once.
func (t *Thread) ExceptionInfoCallbackRegister(callback Func[ExceptionFunc]) *Error {
	if err := t.checkExceptionInfoCallbackRegister(callback); err != nil {
		return err
	}
	x := &t.Runtime.callbacks.exceptions
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.list {
		if f.Key == callback.Key {
			return nil
		}
	}
	x.list = add(x.list, callback)
	return nil
}

// ExceptionInfoCallbackUnregister is aclrtExceptionInfoCallbackUnregister. A call that is under way goes on.
func (t *Thread) ExceptionInfoCallbackUnregister(callback Func[ExceptionFunc]) *Error {
	if err := t.checkExceptionInfoCallbackUnregister(callback); err != nil {
		return err
	}
	x := &t.Runtime.callbacks.exceptions
	Locked(&x.mu, func() { x.list = without(x.list, callback.Key) })
	return nil
}

// noInfo is what the functions return for an exception that is NULL or over.
const noInfo = 0xFFFFFFFF

// ask returns a field of the exception that info names.
func (t *Thread) ask(info Addr, field func(*exception) uint32) uint32 {
	if e := t.Runtime.callbacks.exceptions.find(info); e != nil {
		return field(e)
	}
	return noInfo
}

// GetTaskIdFromExceptionInfo is aclrtGetTaskIdFromExceptionInfo.
func (t *Thread) GetTaskIdFromExceptionInfo(info Addr) uint32 {
	return t.ask(info, func(e *exception) uint32 { return e.task })
}

// GetStreamIdFromExceptionInfo is aclrtGetStreamIdFromExceptionInfo: what aclrtStreamGetId says of the stream.
func (t *Thread) GetStreamIdFromExceptionInfo(info Addr) uint32 {
	return t.ask(info, func(e *exception) uint32 { return e.stream })
}

// GetThreadIdFromExceptionInfo is aclrtGetThreadIdFromExceptionInfo: the operating system's number of the thread that
// submitted the task.
func (t *Thread) GetThreadIdFromExceptionInfo(info Addr) uint32 {
	return t.ask(info, func(e *exception) uint32 { return e.thread })
}

// GetDeviceIdFromExceptionInfo is aclrtGetDeviceIdFromExceptionInfo: the device as the program counts.
func (t *Thread) GetDeviceIdFromExceptionInfo(info Addr) uint32 {
	return t.ask(info, func(e *exception) uint32 { return e.device })
}

// GetErrorCodeFromExceptionInfo is aclrtGetErrorCodeFromExceptionInfo: the code the synchronisation will return.
func (t *Thread) GetErrorCodeFromExceptionInfo(info Addr) uint32 {
	return t.ask(info, func(e *exception) uint32 { return uint32(e.code) })
}

// raised finds the exception that info names.
func (t *Thread) raised(api string, info Addr) (*exception, *Error) {
	if e := t.Runtime.callbacks.exceptions.find(info); e != nil {
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
	if e.kernel.Function == 0 {
		return Fail(api, notAnACLCode, "info", "task %d is no kernel and has no arguments", e.task)
	}
	*devArgsPtr, *devArgsLen = e.kernel.Args, e.kernel.Size
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
	if e.kernel.Function == 0 {
		return Refused(api, "info", "task %d is no kernel", e.task)
	}
	*function = e.kernel.Function
	return nil
}
