//go:build linux

package ipctest

import (
	"encoding/hex"
	"errors"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/signal"
)

// TestKilledNotReaped proves that a waiter for an event goes on when the process that recorded it was killed, also
// while that one's parent has not asked for its end.
func TestKilledNotReaped(t *testing.T) {
	a, b := start(t), start(t)
	event := strings.Split(a.Does("offer"), ",")[3]
	b.Does("record %s", event)
	if err := b.Cmd.Process.Signal(syscall.SIGKILL); err != nil { // end asks for it
		t.Fatal(err)
	}
	a.fails(107023, []string{"its process has ended"}, "await")
	a.Does("settle")
}

// openEvent opens an event of another process.
func (s *state) openEvent(name string) (e core.Handle, err error) {
	var h abi.IpcEventHandle
	if n, err := hex.Decode(h.Reserved[:], []byte(name)); n != len(h.Reserved) || err != nil {
		return 0, lost(errors.New("no event handle"))
	}
	err = ended(signal.IpcOpenEventHandle(s.th, h, &e))
	return e, err
}

// record queues a record of another process's event after a notify that is never recorded.
func (s *state) record(name string) error {
	e, err := s.openEvent(name)
	if err != nil {
		return err
	}
	var stream, never core.Handle
	return errors.Join(ended(s.th.CreateStream(&stream)), ended(signal.CreateNotify(s.th, &never, 0)),
		ended(signal.WaitAndResetNotify(s.th, never, stream, 0)), ended(s.th.RecordEvent(e, stream)))
}

// await waits on a stream, and then on the host, for the latest record of the event that is offered.
func (s *state) await() error {
	var stream core.Handle
	if err := s.th.CreateStream(&stream); err != nil {
		return err
	}
	defer s.th.DestroyStream(stream)
	if err := s.th.StreamWaitEvent(stream, s.offered.event); err != nil {
		return err
	}
	if err := s.th.SynchronizeStream(stream); err != nil {
		return err
	}
	return ended(s.th.SynchronizeEvent(s.offered.event))
}
