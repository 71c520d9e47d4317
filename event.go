package ropeway

import (
	"context"
	"encoding/hex"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/signal"
)

// Event marks a point in a stream: other streams and the host can wait for it, and [Elapsed] measures the time between
// two.
type Event struct {
	d *Device
	h core.Handle
}

// NewEvent returns a new event. A wait refers to the latest record before it, and does not block if there is none.
func (d *Device) NewEvent() (*Event, error) {
	e := &Event{d: d}
	err := d.t.CreateEventExWithFlag(&e.h, abi.EventSync|abi.EventCaptureStreamProgress|abi.EventTimeLine)
	if err != nil {
		return nil, d.result(err)
	}
	return e, nil
}

// NewStateEvent returns a new event that is a state: a record sets it, [Stream.Reset] clears it, and a wait queued
// before any record blocks its stream until one has run.
func (d *Device) NewStateEvent() (*Event, error) {
	e := &Event{d: d}
	err := d.t.CreateEventWithFlag(&e.h, abi.EventSync|abi.EventCaptureStreamProgress|abi.EventTimeLine)
	if err != nil {
		return nil, d.result(err)
	}
	return e, nil
}

// NewSharedEvent returns a new event that other processes can open, by [Event.Share]. A wait refers to the latest
// record before it, of any process. [Elapsed] refuses it. Only some products have it (A2, A3, 950).
func (d *Device) NewSharedEvent() (*Event, error) {
	e := &Event{d: d}
	if err := d.t.CreateEventExWithFlag(&e.h, abi.EventIpc); err != nil {
		return nil, d.result(err)
	}
	return e, nil
}

// Share returns the key by which all processes of the same user can open an event of [Device.NewSharedEvent], with
// [Device.ImportEvent]. Further calls return the same key. It is valid until the event is closed. The key is the
// handle of C and Python, in hexadecimal.
func (e *Event) Share() (Key, error) {
	var handle abi.IpcEventHandle
	if err := signal.IpcGetEventHandle(e.d.t, e.h, &handle); err != nil {
		return "", e.d.result(err)
	}
	return Key(hex.EncodeToString(handle.Reserved[:])), nil
}

// ImportEvent opens the event that the key names, usually of another process. Both may record it and wait for it, and
// it stays valid when the other process closes its own. If a process ends between a record and its run, waits for
// that record end soon, and [Event.Wait] returns an error.
func (d *Device) ImportEvent(ctx context.Context, k Key) (*Event, error) {
	const api = "aclrtIpcOpenEventHandle"
	var handle abi.IpcEventHandle
	bytes, err := hex.DecodeString(string(k))
	if err != nil || len(bytes) != len(handle.Reserved) {
		return nil, misuse(api, "handle", "is no key of an event")
	}
	copy(handle.Reserved[:], bytes)
	return importing(ctx, func() (*Event, error) {
		e := &Event{d: d}
		if err := signal.IpcOpenEventHandle(d.t, handle, &e.h); err != nil {
			return nil, d.result(err)
		}
		return e, nil
	})
}

// Close closes the event. Work queued with it is not affected.
func (e *Event) Close() error { return e.d.result(e.d.t.DestroyEvent(e.h)) }

// Done reports, without waiting, whether the latest record has run.
func (e *Event) Done() (bool, error) {
	var st abi.EventRecordedStatus
	err := e.d.t.QueryEventStatus(e.h, &st)
	return st == abi.EventRecordedStatusComplete, e.d.result(err)
}

// Wait waits until the latest record has run. If ctx ends first, its error is returned.
func (e *Event) Wait(ctx context.Context) error {
	return e.d.waited(ctx, e.d.t.SynchronizeEventWithin(e.h, core.WaitLimit{Cancel: ctx.Done()}))
}

// Elapsed returns the time from start's latest record to end's; both must have run.
func Elapsed(start, end *Event) (time.Duration, error) {
	if start.d.r != end.d.r {
		return 0, misuse("aclrtEventElapsedTime", "startEvent", otherRuntime)
	}
	var ms float32
	if err := end.d.t.EventElapsedTime(&ms, start.h, end.h); err != nil {
		return 0, end.d.result(err)
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}
