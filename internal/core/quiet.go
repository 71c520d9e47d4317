package core

import "time"

// Quiet returns when no stream runs anything or is about to: each is idle, or cannot go on by itself. It gives up after
// limit. A process that ends calls it before the memory goes that copies use; the runtime stays usable.
func (rt *Runtime) Quiet(limit time.Duration) {
	for end := time.Now().Add(limit); rt.awaitBusy(end) && time.Now().Before(end); {
	}
}

// awaitBusy waits until end for the streams that run something, one after the other, and tells whether there were any:
// they may have let others go on.
func (rt *Runtime) awaitBusy(end time.Time) (any bool) {
	for _, d := range rt.devices {
		for _, c := range d.contexts() {
			for _, s := range c.all() {
				for !s.queue.Idle() && !s.queue.Stalled() && time.Now().Before(end) {
					any = true
					s.queue.Wait(time.Millisecond, nil)
				}
			}
		}
	}
	return any
}
