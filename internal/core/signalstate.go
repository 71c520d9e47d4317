package core

import "sync/atomic"

// signalState is what a runtime knows of notifies and of words that streams wait for.
type signalState struct {
	rt          *Runtime // immutable
	notifies    table[Notify]
	cntNotifies table[cntNotify]
	notifyIDs   atomic.Uint32 // numbers of notifies and count notifies given
	values      values
}

var signalPart = NewPart(func(rt *Runtime) *signalState {
	s := &signalState{rt: rt}
	s.notifies.kind, s.cntNotifies.kind = notifyKind, cntNotifyKind
	return s
})

func signalsOf(rt *Runtime) *signalState { return signalPart.Of(rt) }

// Finalize implements core.Finalizer: it ends the exports of all notifies and events. Processes that have them keep them.
func (s *signalState) Finalize() {
	s.notifies.each((*Notify).unshare)
	s.rt.events.each(func(e *Event) {
		if x, ok := e.shared.(*ipcEvent); ok {
			x.unshare(e)
		}
	})
}

// NewSharedEvent implements core.EventSharer.
func (s *signalState) NewSharedEvent() (SharedEvent, error) {
	x, err := newIPCEvent()
	if err != nil {
		return nil, err
	}
	return x, nil
}
