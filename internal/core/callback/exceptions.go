package callback

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
)

// ExceptionFunc is called when a task has failed. info is valid for the Get…FromExceptionInfo functions until it
// returns.
type ExceptionFunc = func(info uintptr)

// Exceptions calls functions of the program for failed tasks. They run one after another, in the order of the failures,
// on a goroutine that runs only while there are failures to report. Streams do not wait for them, but a synchronisation
// returns a failure only after the functions have been called for it.
type Exceptions struct {
	caller atomic.Int64 // thread that is running the functions; 0 if none is

	mu     sync.Mutex
	single Func[ExceptionFunc]    // guarded by mu; aclrtSetExceptionInfoCallback
	list   []Func[ExceptionFunc]  // guarded by mu; aclrtExceptionInfoCallbackRegister; replaced, never changed
	queue  []*Exception           // guarded by mu; failures to report
	newest *Exception             // guarded by mu; the last one added to queue
	alive  bool                   // guarded by mu; the goroutine runs
	tokens uintptr                // guarded by mu; number of tokens issued
	known  map[uintptr]*Exception // guarded by mu; failures by token, during the calls
}

// Exception describes a failed task. It is immutable.
type Exception struct {
	Task, Stream, Thread, Device uint32
	Code                         abi.Code

	Function uintptr       // of a kernel; 0 for other tasks
	Args     uintptr       // its arguments
	Size     uint32        // bytes of them
	Callback ExceptionFunc // of its binary; may be nil

	called chan struct{} // closed when the functions have been called
}

// tokenBase keeps tokens apart from handles and addresses.
const tokenBase = 0xE << 56

// Raise queues a failure for the functions of the program. It does not wait; a synchronisation that returns the
// failure does (Settle).
func (x *Exceptions) Raise(e Exception) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.single.Key == 0 && len(x.list) == 0 && e.Callback == nil {
		return
	}
	e.called = make(chan struct{})
	x.newest = &e
	x.queue = append(x.queue, x.newest)
	if !x.alive {
		x.alive = true
		go x.call()
	}
}

// call calls the functions for the queued failures. It stays on its thread, so that a function that synchronises the
// failed stream is recognised and does not wait for itself.
func (x *Exceptions) call() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	x.caller.Store(threadNumber())
	for x.callOne() {
	}
}

// callOne calls the functions for the oldest failure; false if there is none. A function that ends its goroutine ends
// this one, and a new one continues.
func (x *Exceptions) callOne() bool {
	e, token, calls := x.next()
	if e == nil {
		return false
	}
	returned := false
	defer func() {
		x.forget(token)
		close(e.called)
		if !returned {
			go x.call()
		}
	}()
	for _, f := range calls {
		f.Call(token)
	}
	if e.Callback != nil {
		e.Callback(token)
	}
	returned = true
	return true
}

func (x *Exceptions) forget(token uintptr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.known, token)
}

// next returns the oldest unreported failure, its token and the functions to call; nil if there is none, and then the
// goroutine ends.
func (x *Exceptions) next() (*Exception, uintptr, []Func[ExceptionFunc]) {
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
	token := tokenBase + x.tokens
	if x.known == nil {
		x.known = map[uintptr]*Exception{}
	}
	x.known[token] = e
	calls := x.list
	if x.single.Key != 0 {
		calls = append(without(calls, x.single.Key), x.single) // the same pointer counts once
	}
	return e, token, calls
}

// Settle waits until the functions have been called for all failures so far. Inside such a function it returns at once.
func (x *Exceptions) Settle() {
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

// Find returns the failure of a token, nil if its functions have returned.
func (x *Exceptions) Find(token uintptr) *Exception {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.known[token]
}

// Set sets the one function of aclrtSetExceptionInfoCallback; NULL removes it.
func (x *Exceptions) Set(f Func[ExceptionFunc]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.single = f
}

// Add adds a function to the list, unless it is in the list.
func (x *Exceptions) Add(f Func[ExceptionFunc]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.ContainsFunc(x.list, func(o Func[ExceptionFunc]) bool { return o.Key == f.Key }) {
		x.list = append(without(x.list, 0), f)
	}
}

// Remove removes a function from the list. A running call is not affected.
func (x *Exceptions) Remove(key uintptr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = without(x.list, key)
}

// without returns a copy of list without the function with the key.
func without(list []Func[ExceptionFunc], key uintptr) []Func[ExceptionFunc] {
	return slices.DeleteFunc(slices.Clone(list), func(f Func[ExceptionFunc]) bool { return f.Key == key })
}
