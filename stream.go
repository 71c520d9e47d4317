package ropeway

import (
	"context"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Stream is an ordered queue of work on one device. Work of different streams is unordered, unless events order it.
type Stream struct {
	d *Device
	h core.Handle // 0: the default stream
}

// NewStream makes a stream of the default priority.
func (d *Device) NewStream() (*Stream, error) { return d.NewPriorityStream(0) }

// NewPriorityStream makes a stream with a priority from 0, most urgent, to 7.
func (d *Device) NewPriorityStream(priority int) (*Stream, error) {
	s := &Stream{d: d}
	if err := d.t.CreateStreamWithConfig(&s.h, uint32(min(max(priority, 0), 7)), 0); err != nil {
		return nil, err
	}
	return s, nil
}

// DefaultStream is the stream that every device has. It cannot be closed.
func (d *Device) DefaultStream() *Stream { return &Stream{d: d} }

// Close waits for the stream's work and ends it. Afterwards every method fails.
func (s *Stream) Close() error { return s.d.answer(s.d.t.DestroyStream(s.h)) }

// Synchronize waits until everything queued so far is done and returns the first failure since the last time. When ctx
// ends first, its error is returned and the work goes on.
func (s *Stream) Synchronize(ctx context.Context) error {
	return s.d.wait(ctx, s.d.t.SynchronizeStreamCancel(s.h, ctx.Done()))
}

// Idle tells, without waiting, whether everything queued is done.
func (s *Stream) Idle() (bool, error) {
	var st abi.StreamStatus
	err := s.d.t.StreamQuery(s.h, &st)
	return st == abi.StreamStatusComplete, s.d.answer(err)
}

// Abort drops what has not run yet. Whoever waits for the stream gets an error; the stream can be used again.
func (s *Stream) Abort() error { return s.d.answer(s.d.t.StreamAbort(s.h)) }

// StopOnFailure makes the first failure stop all streams made on this Device instead of only being reported. It cannot be
// undone.
func (s *Stream) StopOnFailure() error {
	return s.d.answer(s.d.t.SetStreamFailureMode(s.h, 1))
}

// Copy queues a copy of src to the beginning of dst. The direction is found from the memory; between ordinary or pinned
// host memory there is no asynchronous copy ([Device.Copy] has it). With ordinary memory the call waits for the stream and
// the copy is over when it returns.
func (s *Stream) Copy(dst, src Span) error {
	if err := usable(s.d.r, "aclrtMemcpyAsync", dst, src); err != nil {
		return err
	}
	err := s.d.t.MemcpyAsync(dst.addr, uint64(dst.n), src.addr, uint64(src.n), abi.MemcpyDefault, s.h)
	runtime.KeepAlive(src.keep)
	runtime.KeepAlive(dst.keep)
	return s.d.answer(err)
}

// Copy2D queues a copy of height rows of width bytes; rows are dpitch and spitch bytes apart.
func (s *Stream) Copy2D(dst Span, dpitch int, src Span, spitch, width, height int) error {
	const api = "aclrtMemcpy2dAsync"
	if err := usable(s.d.r, api, dst, src); err != nil {
		return err
	}
	if !dst.holds(dpitch, width, height) {
		return s.d.r.refuse(api, "dst", "the rows go past the end of the span", core.OutOfBounds, 0)
	}
	if !src.holds(spitch, width, height) {
		return s.d.r.refuse(api, "src", "the rows go past the end of the span", core.OutOfBounds, 0)
	}
	err := s.d.t.Memcpy2dAsync(dst.addr, size(dpitch), src.addr, size(spitch), size(width), size(height), abi.MemcpyDefault, s.h)
	runtime.KeepAlive(src.keep)
	runtime.KeepAlive(dst.keep)
	return s.d.answer(err)
}

// holds tells whether height rows of width bytes, pitch bytes apart, lie in the span. Shapes that are none are left to the
// core to refuse.
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
	err := s.d.t.MemsetAsync(dst.addr, uint64(dst.n), int32(value), uint64(dst.n), s.h)
	runtime.KeepAlive(dst.keep)
	return s.d.answer(err)
}

// Fill32 queues setting every 32-bit word of dst, whose length and address are multiples of 4. Pinned memory is set at once.
func (s *Stream) Fill32(dst Span, value uint32) error {
	const api = "aclrtMemsetD32Async"
	if err := filled(s.d.r, api, "ptr", dst); err != nil {
		return err
	}
	if dst.n%4 != 0 {
		return misuse(api, "memSize", "the span's length is not a multiple of 4")
	}
	return s.d.answer(s.d.t.MemsetD32Async(dst.addr, uint64(dst.n), value, uint64(dst.n/4), s.h))
}

// Call queues a function. It runs on a goroutine of its own; the stream waits until it returns. It must not wait for the
// stream.
func (s *Stream) Call(f func()) error {
	const api = "aclrtLaunchHostFunc"
	if f == nil {
		return misuse(api, "fn", "is nil")
	}
	return s.d.answer(s.d.t.LaunchHostFunc(s.h, func(core.Addr) { f() }, 0))
}

// Reset queues a reset of an event of [Device.NewStateEvent].
func (s *Stream) Reset(e *Event) error {
	if e.d.r != s.d.r {
		return misuse("aclrtResetEvent", "event", otherRuntime)
	}
	return s.d.answer(s.d.t.ResetEvent(e.h, s.h))
}
