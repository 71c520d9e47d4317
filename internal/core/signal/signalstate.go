// Package signal implements what streams and processes can wait for, except events of one process: notifies, count
// notifies, words of device memory, and shared events.
package signal

import (
	"sync/atomic"

	"ropeway/internal/core"
	"ropeway/internal/core/handles"
)

// signalState is a runtime's state of notifies and of words that streams wait for.
type signalState struct {
	rt          *core.Runtime // immutable
	notifies    core.Table[Notify]
	cntNotifies core.Table[cntNotify]
	notifyIDs   atomic.Uint32 // number of ids given to notifies and count notifies
	values      values
}

var signalPart = core.NewPart(func(rt *core.Runtime) *signalState {
	s := &signalState{rt: rt}
	s.notifies.Kind, s.cntNotifies.Kind = handles.Notify, handles.CntNotify
	return s
})

func signalsOf(rt *core.Runtime) *signalState { return signalPart.Of(rt) }

// Finalize implements core.Finalizer: it ends the exports of all notifies and events. Processes that have imported them
// keep them.
func (s *signalState) Finalize() {
	s.notifies.Each((*Notify).unshare)
	s.rt.Events.Each(func(e *core.Event) {
		if x, ok := e.Shared.(*ipcEvent); ok {
			x.unshare(e)
		}
	})
}

// NewSharedEvent implements core.EventSharer.
func (s *signalState) NewSharedEvent() (core.SharedEvent, error) {
	x, err := newIPCEvent()
	if err != nil {
		return nil, err
	}
	return x, nil
}
