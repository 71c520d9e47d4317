package ropeway

import (
	"math"
	"time"

	"ropeway/internal/core"
	"ropeway/internal/core/signal"
)

// Notify is one bit that streams set and wait for: of one device, of several, or, by [Notify.Share], of several
// processes. A record sets it; a wait blocks its stream until it is set, and clears it. Setting it twice before a
// wait counts once. Unlike an [Event], a wait may be queued before the record it waits for.
type Notify struct {
	d *Device
	h core.Handle
}

// NewNotify returns a new notify that is not set. Streams of this device may wait for it, streams of all devices may
// record it.
func (d *Device) NewNotify() (*Notify, error) {
	n := &Notify{d: d}
	if err := signal.CreateNotify(d.t, &n.h, 0); err != nil {
		return nil, d.result(err)
	}
	return n, nil
}

// Close closes the notify. Work queued with it still runs, and other processes that have it keep it.
func (n *Notify) Close() error { return n.d.result(signal.DestroyNotify(n.d.t, n.h)) }

// RecordNotify queues setting the notify, which is set when all earlier work on the stream is done.
func (s *Stream) RecordNotify(n *Notify) error {
	if n.d.r != s.d.r {
		return misuse("aclrtRecordNotify", "notify", otherRuntime)
	}
	return s.d.result(signal.RecordNotify(s.d.t, n.h, s.h))
}

// WaitNotify makes later work of the stream wait until the notify is set, and clears it. The caller does not wait.
// After the timeout the stream fails; it is in whole seconds, rounded up, and 0 means no timeout.
func (s *Stream) WaitNotify(n *Notify, timeout time.Duration) error {
	const api = "aclrtWaitAndResetNotify"
	if n.d.r != s.d.r {
		return misuse(api, "notify", otherRuntime)
	}
	limit, err := seconds(api, timeout)
	if err != nil {
		return err
	}
	return s.d.result(signal.WaitAndResetNotify(s.d.t, n.h, s.h, limit))
}

// seconds converts a timeout to C's seconds.
func seconds(api string, timeout time.Duration) (uint32, error) {
	if timeout < 0 {
		return 0, misuse(api, "timeout", "is negative")
	}
	return uint32(min(uint64((timeout+time.Second-1)/time.Second), math.MaxUint32-1)), nil
}

// Condition is the condition of [Stream.WaitValue].
type Condition uint32

// Conditions; v is the value of the call.
const (
	AtLeast Condition = iota // the word is v or later, modulo 2^64: int64(word-v) >= 0
	Equal                    // the word is v
	AnySet                   // a bit of v is set in the word
	AnyOff                   // a bit is set neither in v nor in the word
)

// WriteValue queues writing a word of 64 bits into device memory, the first 8 bytes of dst, whose address is a
// multiple of 8. Streams that wait for it notice it at once.
func (s *Stream) WriteValue(dst Span, v uint64) error {
	const api = "aclrtValueWrite"
	if err := s.word(api, dst); err != nil {
		return err
	}
	return s.d.result(signal.ValueWrite(s.d.t, dst.addr, v, 0, s.h))
}

// WaitValue makes later work of the stream wait until the word in the first 8 bytes of src satisfies a condition. The
// caller does not wait. A [Stream.WriteValue] of any stream is noticed at once, other writes of the word soon.
func (s *Stream) WaitValue(src Span, is Condition, v uint64) error {
	const api = "aclrtValueWait"
	if err := s.word(api, src); err != nil {
		return err
	}
	return s.d.result(signal.ValueWait(s.d.t, src.addr, v, uint32(is), s.h))
}

// word returns an error if a span is too short for a word.
func (s *Stream) word(api string, at Span) error {
	if err := filled(s.d.r, api, "devAddr", at); err != nil {
		return err
	}
	if at.n < 8 {
		return s.d.r.refuse(api, "devAddr", "the span is shorter than 8 bytes", core.OutOfBounds, 0)
	}
	return nil
}
