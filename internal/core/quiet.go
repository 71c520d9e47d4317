package core

import (
	"slices"
	"time"

	"ropeway/internal/driver"
)

// cutTime is how long what is cut short may take to end.
const cutTime = time.Second

// Quiet returns when what the streams had to do has been done, except where a stream cannot go on by itself. It gives
// up after limit, or when stop is closed, and reports whether it did; with cut, what is left is dropped then, and what
// runs is cut short. A process that ends calls it before the memory goes that copies use; the runtime stays usable, and
// what other threads submit meanwhile is not waited for.
func (rt *Runtime) Quiet(limit time.Duration, stop <-chan struct{}, cut bool) (gaveUp bool) {
	if d, ok := driver.As[driver.Ender](rt.Driver); ok {
		defer d.End()
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
	// A stream that is done may let others go on, and they others: at most as often as there are streams.
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

// isOver reports whether it is time, or stop is closed.
func isOver(end time.Time, stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return time.Until(end) <= 0
	}
}

// comeToRest waits for what the stream has to do now, until it cannot go on by itself, it is time or stop is closed. It
// reports whether it waited.
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
