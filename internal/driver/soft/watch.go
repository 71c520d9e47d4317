package soft

import (
	"time"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// What a kernel touches of guarded memory is seen where its launch asks for it: device memory stays closed while it
// runs, and each page is opened when it is touched. That takes kernels that run one at a time. One that does not end
// for a while may wait for another: then all is open to both, and not all is seen of either.

// aside is how long a launch waits for the one before it. Changed by tests alone.
var aside = time.Second

// unveil lets a kernel use guarded memory, as far as it is allocated; veil has to follow. end is for veil. see: what
// the kernel touches is to be seen.
func (d *Driver) unveil(see bool) (end func() (list []kernel.Touch, all bool)) {
	if d.kernels.begin(see && d.prot != readWrite) {
		end = kernel.WatchPages(d.allocated())
	}
	if end == nil {
		d.uncover()
	}
	return end
}

// veil ends what unveil began, when the kernel of o is over.
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

// begin counts a launch, and reports whether it is to be watched. wait: it is, if no other is running, and waits for
// that.
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

// waitAside waits until no launch is running, or for as long as it is to. mu is held, and released meanwhile.
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

// eachAllocated calls f with what is allocated on all devices, in ascending order, in whole pages.
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

// allocated is what is allocated on all devices, sorted, in whole pages.
func (d *Driver) allocated() (list []kernel.Range) {
	d.eachAllocated(func(lo, hi uintptr) { list = append(list, kernel.Range{Lo: lo, Hi: hi}) })
	return list
}

// uncover opens what is allocated on all devices.
func (d *Driver) uncover() {
	d.eachAllocated(func(lo, hi uintptr) {
		arena.ProtectPages(lo, uint64(hi-lo), readWrite) //nolint:errcheck // then the kernel faults, and says where
	})
}

// cover ends a launch: the last one closes device memory. It reports whether no other ran at the same time.
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
