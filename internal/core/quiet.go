package core

import (
	"time"

	"ropeway/internal/driver"
)

// Quiet returns when what the streams had to do has been done, except where a stream cannot go on by itself. It gives
// up after limit. A process that ends calls it before the memory goes that copies use; the runtime stays usable, and
// what other threads submit meanwhile is not waited for.
func (rt *Runtime) Quiet(limit time.Duration) {
	if d, ok := driver.As[driver.Ender](rt.Driver); ok {
		defer d.End()
	}
	if rt.quiesced() {
		return
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
			waited = s.comeToRest(end) || waited
		}
		if !waited {
			return
		}
	}
}

// comeToRest waits for what the stream has to do now, until it cannot go on by itself or it is time. It reports whether
// it waited.
func (s *Stream) comeToRest(end time.Time) bool {
	left := time.Until(end)
	if s.queue.Idle() || s.queue.Stalled() || left <= 0 {
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
			}
		}
	}()
	s.queue.Wait(left, stuck)
	close(over)
	return true
}
