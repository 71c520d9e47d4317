// Package signal is what streams and processes wait for beside events of one process: notifies, count notifies, words
// of device memory, and events that processes share.
package signal

import (
	"sync/atomic"

	"ropeway/internal/core"
	"ropeway/internal/core/handles"
)

// signalState is what a runtime knows of notifies and of words that streams wait for.
type signalState struct {
	rt          *core.Runtime // immutable
	notifies    core.Table[Notify]
	cntNotifies core.Table[cntNotify]
	notifyIDs   atomic.Uint32 // numbers of notifies and count notifies given
	values      values
}

var signalPart = core.NewPart(func(rt *core.Runtime) *signalState {
	s := &signalState{rt: rt}
	s.notifies.Kind, s.cntNotifies.Kind = handles.Notify, handles.CntNotify
	return s
})

func signalsOf(rt *core.Runtime) *signalState { return signalPart.Of(rt) }

// Finalize implements core.Finalizer: it ends the exports of all notifies and events. Processes that have them keep
// them.
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
