package soft

import (
	"time"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// A launch may ask which guarded memory its kernel touches. Device memory then stays closed while the kernel runs, and
// each page is opened on its first access. Only one such kernel can run at a time. If a kernel runs for long it may be
// waiting for another one: then both run with all memory open, and both reports are incomplete.

// aside is how long a launch waits for the ones that are running. Only tests change it.
var aside = time.Second

// unveil lets a kernel use allocated guarded memory; with see it watches the accesses. The caller must pass end to
// veil.
func (d *Driver) unveil(see bool) (end func() (list []kernel.Touch, all bool)) {
	if d.kernels.begin(see && d.prot != readWrite) {
		end = kernel.WatchPages(d.allocated())
	}
	if end == nil {
		d.uncover()
	}
	return end
}

// veil undoes unveil when the kernel of o is over.
func (d *Driver) veil(o *driver.Launch, end func() (list []kernel.Touch, all bool)) {
	var list []kernel.Touch
	all := false
	if end != nil {
		list, all = end()
	}
	all = d.cover() && all
	if o.Seen != nil {
		o.Seen(list, all)
	}
}

// begin counts a launch and reports whether to watch it. With wait it waits for other launches, and returns true unless
// one is still running.
func (k *kernels) begin(wait bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if wait && k.running > 0 {
		k.waitAside()
	}
	if k.running++; k.running > 1 {
		k.disturbed = true
		return false
	}
	k.disturbed = false
	return wait
}

// waitAside waits until no launch is running, at most the time aside. mu is held, but released while it waits.
func (k *kernels) waitAside() {
	for limit := time.Now().Add(aside); k.running > 0 && time.Now().Before(limit); {
		if k.over == nil {
			k.over = make(chan struct{})
		}
		over := k.over
		k.mu.Unlock()
		select {
		case <-over:
		case <-time.After(time.Until(limit)):
		}
		k.mu.Lock()
	}
}

// eachAllocated calls f with the allocated ranges of all devices, in ascending order and rounded to whole pages.
func (d *Driver) eachAllocated(f func(lo, hi uintptr)) {
	for i := range d.windows {
		if a := d.windows[i].Load(); a != nil {
			a.Each(func(r arena.Range) bool {
				f(floor(r.Start), ceil(r.Start+uintptr(r.Size)))
				return true
			})
		}
	}
}

// allocated returns the allocated ranges of all devices, sorted and rounded to whole pages.
func (d *Driver) allocated() (list []kernel.Range) {
	d.eachAllocated(func(lo, hi uintptr) { list = append(list, kernel.Range{Lo: lo, Hi: hi}) })
	return list
}

// uncover opens the allocated memory of all devices.
func (d *Driver) uncover() {
	d.eachAllocated(func(lo, hi uintptr) {
		arena.ProtectPages(lo, uint64(hi-lo), readWrite) //nolint:errcheck // then the kernel faults and reports where
	})
}

// cover ends a launch; the last one closes device memory. alone reports that no other launch ran at the same time.
func (d *Driver) cover() (alone bool) {
	k := &d.kernels
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running--; k.running > 0 {
		return false
	}
	for i := range d.windows {
		if a := d.windows[i].Load(); a != nil && d.prot != readWrite {
			a.Protect(a.Base(), a.Base()+uintptr(a.Capacity()), d.prot) //nolint:errcheck // as above
		}
	}
	if k.over != nil {
		close(k.over)
		k.over = nil
	}
	return !k.disturbed
}
