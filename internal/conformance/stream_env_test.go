package conformance

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/testenv"
)

// cstr is a C string.
func cstr(s string) *byte { return &append([]byte(s), 0)[0] }

// flagged makes a stream with flags.
func flagged(e *env, flags uint32) core.Handle {
	e.Helper()
	var s core.Handle
	e.ok(e.th.CreateStreamWithConfig(&s, 0, flags))
	return s
}

// nobody is the pthread id of a thread that never calls aclrtProcessReport.
const nobody = 0xDEAD

// stuck makes a stream that waits for a thread that never comes. Only dropping its work helps.
func stuck(e *env) core.Handle {
	e.Helper()
	s := e.stream()
	stick(e, s)
	return s
}

// stick makes what follows on s wait for a thread that never comes.
func stick(e *env, s core.Handle) {
	e.Helper()
	e.ok(e.th.SubscribeReport(nobody, s))
	e.ok(e.th.LaunchCallback(func(core.Addr) { e.Error("nobody ran it") }, 0, abi.CallbackBlock, s))
}

// busy makes a stream on which a host function is running at this moment, until the function returned is called. A
// context runs one host function at a time.
func (e *env) busy() (core.Handle, func()) {
	e.Helper()
	s := e.stream()
	running, gate := make(chan struct{}), make(chan struct{})
	e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { close(running); <-gate }, 0))
	<-running
	open := false
	release := func() {
		if !open {
			open = true
			close(gate)
		}
	}
	e.Cleanup(release)
	return s, release
}

// failsOn queues a task on s that fails with err when it runs.
func failsOn(e *env, s core.Handle, err error) {
	e.Helper()
	p := e.device(64)
	e.faults.Fail(faulty.Task, 1, err)
	e.ok(transfer.MemsetAsync(e.th, p, 64, 0, 64, s))
}

// fault is what such tasks fail with, and faultCode what a synchronisation makes of it.
var fault = driver.ErrFault

const faultCode = abi.ErrRTSysDma

// within fails the test if f takes long.
func (e *env) within(f func() *core.Error) *core.Error {
	e.Helper()
	done := make(chan *core.Error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		e.Fatal("it hangs")
		return nil
	}
}

// here is e.th's current context.
func here(e *env) core.Handle {
	e.Helper()
	var c core.Handle
	e.ok(e.th.GetCurrentContext(&c))
	return c
}

// sibling is another thread in e.th's context.
func (e *env) sibling() *core.Thread {
	e.Helper()
	th := e.rt.NewThread(6)
	e.ok(th.SetCurrentContext(here(e)))
	return th
}

// elsewhere is a thread whose current context is another one than e.th's, on the same device.
func (e *env) elsewhere() *core.Thread {
	e.Helper()
	th := e.rt.NewThread(4)
	var c core.Handle
	e.ok(th.CreateContext(&c, 0))
	return th
}

// abortingDevice0 runs f while device 0 aborts its tasks. On the stream f gets a host function is running.
func abortingDevice0(e *env, f func(core.Handle)) {
	e.Helper()
	s, release := e.busy() // the abort lasts until it is released
	probe := e.stream()
	done := make(chan *core.Error, 1)
	go func() { done <- e.rt.NewThread(8).DeviceTaskAbort(0, 0) }()
	testenv.Eventually(e, "submissions are refused", func() bool {
		return e.th.LaunchHostFunc(probe, func(core.Addr) {}, 0) != nil
	})
	f(s)
	release()
	e.ok(<-done)
}
