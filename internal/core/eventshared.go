package core

import (
	"errors"
	"time"
)

// SharedEvent is the shared part of an event of ACL_EVENT_IPC. Package signal implements it.
type SharedEvent interface {
	// Last returns the latest record of the event, of any process.
	Last(e *Event) EventRecord
	// Record queues a record on a stream, and Wait a wait for r. The caller holds the event, and the task takes over
	// the hold.
	Record(api string, t *Thread, e *Event, s *Stream) *Error
	Wait(api string, t *Thread, e *Event, s *Stream, r EventRecord, timeout time.Duration)
	// Withdraw ends exports and imports of an event whose handle was destroyed. Release is called when its last task is
	// over as well.
	Withdraw(e *Event)
	Release()
}

// EventSharer is the part of a runtime that creates shared events.
type EventSharer interface {
	NewSharedEvent() (SharedEvent, error)
}

// newSharedEvent returns the shared part of a new event.
func (rt *Runtime) newSharedEvent() (shared SharedEvent, err error) {
	err = errors.ErrUnsupported // without package signal
	eachPart(rt, func(p EventSharer) { shared, err = p.NewSharedEvent() })
	return shared, err
}
