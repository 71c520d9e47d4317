package core

import (
	"slices"
	"time"
)

// cutTime is the longest wait for work that is cut short.
const cutTime = time.Second

// Quiet waits until the streams have done their work, except for streams that cannot continue by themselves. It gives
// up after limit, or when stop is closed, and reports whether it did; with cut it then drops the remaining work and
// cuts running tasks short. A process that ends calls it before the memory of copies is freed; the runtime stays
// usable, and Quiet does not wait for tasks that other threads submit during the call.
func (rt *Runtime) Quiet(limit time.Duration, stop <-chan struct{}, cut bool) (gaveUp bool) {
	if end := rt.Caps.End; end != nil {
		defer end()
	}
	if rt.quiesced() {
		return false
	}
	end := time.Now().Add(limit)
	var streams []*Stream
	for _, d := range rt.Devices {
		for _, c := range d.contexts() {
			streams = append(streams, c.all()...)
		}
	}
	// A stream that is done may let others continue, and they may let others: at most once for each stream.
	for range streams {
		waited := false
		for _, s := range streams {
			waited = s.comeToRest(end, stop) || waited
		}
		if !waited {
			break
		}
	}
	if !isOver(end, stop) {
		return false
	}
	streams = slices.DeleteFunc(streams, func(s *Stream) bool { return s.queue.Idle() || s.queue.Stalled() })
	for _, s := range streams {
		if cut {
			s.drop()
		}
	}
	for _, s := range streams {
		if cut {
			s.queue.Wait(cutTime, nil)
		}
	}
	return len(streams) > 0
}

// isOver reports whether end is reached, or stop is closed.
func isOver(end time.Time, stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return time.Until(end) <= 0
	}
}

// comeToRest waits for the current work of the stream, until it cannot continue by itself, end is reached or stop is
// closed. It reports whether it waited.
func (s *Stream) comeToRest(end time.Time, stop <-chan struct{}) bool {
	if s.queue.Idle() || s.queue.Stalled() || isOver(end, stop) {
		return false
	}
	over, stuck := make(chan struct{}), make(chan struct{})
	go func() {
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		for {
			select {
			case <-over:
				return
			case <-look.C:
				if s.queue.Stalled() {
					close(stuck)
					return
				}
			case <-stop:
				close(stuck)
				return
			}
		}
	}()
	s.queue.Wait(max(time.Until(end), 1), stuck)
	close(over)
	return true
}
