package ropeway

import (
	"context"
	"fmt"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
)

// Stream is an ordered queue of work on one device. Work of different streams is unordered, unless events order it.
type Stream struct {
	d *Device
	h core.Handle // 0: the default stream
}

// NewStream returns a new stream of the default priority.
func (d *Device) NewStream() (*Stream, error) { return d.NewPriorityStream(0) }

// NewPriorityStream returns a new stream with a priority from 0, most urgent, to 7.
func (d *Device) NewPriorityStream(priority int) (*Stream, error) {
	if priority < 0 || priority > 7 {
		return nil, misuse("aclrtCreateStreamWithConfig", "priority", fmt.Sprintf("%d is not from 0 to 7", priority))
	}
	s := &Stream{d: d}
	if err := d.t.CreateStreamWithConfig(&s.h, uint32(priority), 0); err != nil {
		return nil, d.result(err)
	}
	return s, nil
}

// DefaultStream returns the stream that every device has. It cannot be closed.
func (d *Device) DefaultStream() *Stream { return &Stream{d: d} }

// Close closes the stream. If it drops work that has not run, it returns [ErrRTStreamAbort]; call
// [Stream.Synchronize] before. It waits for a running function of [Stream.Call]. Afterwards every method fails.
func (s *Stream) Close() error {
	const api = "aclrtDestroyStreamForce"
	// A checker reports dropped work itself, and must not see a query here, which would order work that the program
	// did not order.
	dropped := false
	if s.h != 0 && !s.d.r.rt.Checked() {
		idle, err := s.Idle()
		dropped = err == nil && !idle
	}
	if err := s.d.t.DestroyStreamForce(s.h); err != nil {
		return s.d.result(err)
	}
	if dropped {
		const text = "work was queued that had not run; it is dropped"
		return &Error{Code: ErrRTStreamAbort, API: api, Arg: "stream", Index: -1, Text: text}
	}
	return nil
}

// Synchronize waits until everything queued so far is done and returns the first failure since the last time. If ctx
// ends first, its error is returned and the work continues.
func (s *Stream) Synchronize(ctx context.Context) error {
	return s.d.waited(ctx, s.d.t.SynchronizeStreamWithin(s.h, core.WaitLimit{Cancel: ctx.Done()}))
}

// Idle reports, without waiting, whether everything queued is done.
func (s *Stream) Idle() (bool, error) {
	var st abi.StreamStatus
	err := s.d.t.StreamQuery(s.h, &st)
	return st == abi.StreamStatusComplete, s.d.result(err)
}

// Abort drops work that has not run. Waits for the stream return an error; the stream can be used again.
func (s *Stream) Abort() error { return s.d.result(s.d.t.StreamAbort(s.h)) }

// StopOnFailure makes the first failure stop all streams made on this Device instead of only being reported. It
// cannot be undone.
func (s *Stream) StopOnFailure() error {
	return s.d.result(s.d.t.SetStreamFailureMode(s.h, 1))
}

// Copy queues a copy of src to the beginning of dst. The memory determines the direction. At least one span must be
// device memory, and none pageable: copies within host memory are not asynchronous, and with pageable memory the call
// would have to wait for the stream. [Device.Copy] allows both.
func (s *Stream) Copy(dst, src Span) error {
	if err := s.queueable("aclrtMemcpyAsync", &dst, &src); err != nil {
		return err
	}
	return s.d.result(transfer.MemcpyAsync(s.d.t, dst.addr, uint64(dst.n), src.addr, uint64(src.n), abi.MemcpyDefault,
		s.h))
}

// queueable returns an error for spans that cannot be used, and for pageable memory, with which a copy would wait for
// the stream.
func (s *Stream) queueable(api string, dst, src *Span) error {
	switch {
	case dst.pageable():
		return misuse(api, "dst", waits)
	case src.pageable():
		return misuse(api, "src", waits)
	case dst.problem(s.d.r) == "" && src.problem(s.d.r) == "":
		return nil
	}
	return usable(s.d.r, api, *dst, *src)
}

// waits is the text of the error for pageable memory.
const waits = "is pageable memory, for which the call would wait for the stream; " +
	"use AllocPinned or Register, or Synchronize and Device.Copy"

// Copy2D queues a copy of height rows of width bytes; rows are dpitch and spitch bytes apart.
func (s *Stream) Copy2D(dst Span, dpitch int, src Span, spitch, width, height int) error {
	const api = "aclrtMemcpy2dAsync"
	if err := s.queueable(api, &dst, &src); err != nil {
		return err
	}
	if !dst.holds(dpitch, width, height) {
		return s.d.r.refuse(api, "dst", "the rows go past the end of the span", core.OutOfBounds, 0)
	}
	if !src.holds(spitch, width, height) {
		return s.d.r.refuse(api, "src", "the rows go past the end of the span", core.OutOfBounds, 0)
	}
	return s.d.result(transfer.Memcpy2dAsync(s.d.t, dst.addr, size(dpitch), src.addr, size(spitch),
		size(width), size(height), abi.MemcpyDefault, s.h))
}

// holds reports whether height rows of width bytes, pitch bytes apart, fit in the span. It returns true for invalid
// shapes, which the core refuses.
func (s *Span) holds(pitch, width, height int) bool {
	switch {
	case width <= 0 || height <= 0 || pitch < width:
		return true
	case width > s.n:
		return false
	}
	return height-1 <= (s.n-width)/pitch
}

// Fill queues setting every byte of dst. Host memory is set at once.
func (s *Stream) Fill(dst Span, value byte) error {
	if err := filled(s.d.r, "aclrtMemsetAsync", "devPtr", dst); err != nil {
		return err
	}
	err := transfer.MemsetAsync(s.d.t, dst.addr, uint64(dst.n), int32(value), uint64(dst.n), s.h)
	runtime.KeepAlive(dst.keep)
	return s.d.result(err)
}

// Fill32 queues setting every 32-bit word of dst, whose length and address are multiples of 4. Pinned memory is set
// at once.
func (s *Stream) Fill32(dst Span, value uint32) error {
	const api = "aclrtMemsetD32Async"
	if err := filled(s.d.r, api, "ptr", dst); err != nil {
		return err
	}
	if dst.n%4 != 0 {
		return misuse(api, "memSize", "the span's length is not a multiple of 4")
	}
	return s.d.result(transfer.MemsetD32Async(s.d.t, dst.addr, uint64(dst.n), value, uint64(dst.n/4), s.h))
}

// Call queues a function. It runs on a goroutine of its own; the stream waits until it returns. It must not wait for
// the stream.
func (s *Stream) Call(f func()) error {
	const api = "aclrtLaunchHostFunc"
	if f == nil {
		return misuse(api, "fn", "is nil")
	}
	return s.d.result(s.d.t.LaunchHostFunc(s.h, func(core.Addr) { f() }, 0))
}

// Record queues a mark: the event is done when everything queued before it is.
func (s *Stream) Record(e *Event) error {
	if e.d.r != s.d.r {
		return misuse("aclrtRecordEvent", "event", otherRuntime)
	}
	return s.d.result(s.d.t.RecordEvent(e.h, s.h))
}

// Wait makes later work of the stream wait for the event's latest record. The caller does not wait.
func (s *Stream) Wait(e *Event) error {
	if e.d.r != s.d.r {
		return misuse("aclrtStreamWaitEvent", "event", otherRuntime)
	}
	return s.d.result(s.d.t.StreamWaitEvent(s.h, e.h))
}

// Reset queues a reset of an event of [Device.NewStateEvent].
func (s *Stream) Reset(e *Event) error {
	if e.d.r != s.d.r {
		return misuse("aclrtResetEvent", "event", otherRuntime)
	}
	return s.d.result(s.d.t.ResetEvent(e.h, s.h))
}
