// Package ascend has the features of only some Ascend products: reductions and random numbers on the device, counters
// that streams wait for, advice for managed memory. A product that lacks a feature refuses it with
// [ropeway.ErrRTFeatureNotSupport].
//
// Functions that queue work take the stream first, return at once, and fail as methods of [ropeway.Stream] do.
package ascend

import (
	"math"
	"time"

	"ropeway"
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/goapi"
)

// queue is a stream to queue work on.
type queue struct {
	t   *core.Thread
	h   core.Handle
	api string
}

func on(s *ropeway.Stream, api string) queue {
	t, h := goapi.Stream(s)
	return queue{t, h, api}
}

// addr returns the address of a span.
func (q queue) addr(arg string, s ropeway.Span) (core.Addr, error) { return addr(q.t, q.api, arg, s) }

func addr(t *core.Thread, api, arg string, s ropeway.Span) (core.Addr, error) {
	b, off := s.Buffer()
	return goapi.Addr(t, api, arg, b, off, s.Len())
}

// result converts the error of a core call.
func (q queue) result(err *core.Error) error { return goapi.Result(q.t, err) }

// misuse refuses an argument.
func (q queue) misuse(arg, text string) error { return misuse(q.api, arg, text) }

func misuse(api, arg, text string) error {
	return &ropeway.Error{Code: ropeway.ErrRTParamInvalid, API: api, Arg: arg, Index: -1, Text: text}
}

// outOfBounds refuses an access past the end of a span, which a checker reports as such.
func (q queue) outOfBounds(arg, text string) error {
	e := &core.Error{Code: abi.ErrRTParamInvalid, API: q.api, Arg: arg, Index: -1, Text: text,
		Cause: core.OutOfBounds}
	return q.result(e)
}

// otherRuntime is the text of the error for objects of another runtime.
const otherRuntime = "belongs to another runtime"

// seconds converts a timeout to C's seconds.
func (q queue) seconds(timeout time.Duration) (uint32, error) {
	if timeout < 0 {
		return 0, q.misuse("timeout", "is negative")
	}
	return uint32(min(uint64((timeout+time.Second-1)/time.Second), math.MaxUint32-1)), nil
}
