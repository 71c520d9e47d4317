package core

import (
	"errors"
	"time"
)

// SharedEvent is the part of an event of ACL_EVENT_IPC that other processes may have, too. Package signal implements
// it.
type SharedEvent interface {
	// Last returns the latest record of the event, of whatever process.
	Last(e *Event) EventRecord
	// Record puts a record on a stream, and Wait a wait for r. The caller holds the event, which the task keeps.
	Record(api string, t *Thread, e *Event, s *Stream) *Error
	Wait(api string, t *Thread, e *Event, s *Stream, r EventRecord, timeout time.Duration)
	// Withdraw ends exports and imports of an event whose handle is gone. Release is called when its last task is
	// over, too.
	Withdraw(e *Event)
	Release()
}

// EventSharer is the part of a runtime that makes shared events.
type EventSharer interface {
	NewSharedEvent() (SharedEvent, error)
}

// newSharedEvent makes what an event shares with other processes.
func (rt *Runtime) newSharedEvent() (shared SharedEvent, err error) {
	err = errors.ErrUnsupported // without package signal
	eachPart(rt, func(p EventSharer) { shared, err = p.NewSharedEvent() })
	return shared, err
}
