package cuda

import (
	"fmt"
	"slices"

	"ropeway/internal/driver"
	"ropeway/internal/ranges"
)

// revive gives a GPU that was lost a new context, in place of the one that a fault has made useless. What was in the old one
// is gone; pinned and registered memory, which belongs to the program, is taken over into the new one. It fails while another
// device that is the same GPU is open, and where CUDA cannot go on in this process. d.pins and d.mu are held.
func (d *Driver) revive(c *card) error {
	lost := c.healthy()
	if lost == nil {
		return nil
	}
	var same []*card
	for _, o := range d.cards {
		if o.gpu != c.gpu {
			continue
		}
		if d.opened[o.number] {
			return fmt.Errorf("%w; device %d, which is the same GPU, has to be closed before it can be used again", lost, o.number)
		}
		same = append(same, o)
	}
	for _, o := range same {
		o.gate.shut() // who uses it now finds out at the next call that it is lost
		defer o.gate.open()
	}
	d.gone.Lock()
	defer d.gone.Unlock()
	for _, o := range d.cards { // other GPUs may be copying from pinned memory, which is not pinned for a moment
		if o.gpu != c.gpu && o.context.Load() != 0 && o.healthy() == nil {
			o.enter()
			d.lib.settle()
			o.leave()
		}
	}
	err := d.renew(same)
	if err != nil {
		err = fmt.Errorf("%w: GPU %d cannot be used again in this process: %w", driver.ErrLost, c.gpu, err)
		for _, o := range same {
			o.lost.Store(&err)
		}
	}
	if home, none := d.home(); none == nil && home.healthy() == nil {
		d.pinAgain(same, home)
	}
	d.epoch.Add(1)
	return err
}

// renew replaces the contexts of cards that are one GPU. No work is under way there, and Driver.gone is held.
func (d *Driver) renew(same []*card) error {
	var used []*card
	for _, c := range same {
		c.clock.stop()
		c.mu.Lock()
		if c.context.Load() != 0 {
			used = append(used, c)
			d.lib.release(c.gpu)
			c.forgetAll()
		}
		c.mu.Unlock()
	}
	if r := d.lib.reset(same[0].gpu); r != success && r != notSupported { // others may hold the context, too
		return failed(d.lib, "cuDevicePrimaryCtxReset", r)
	}
	for _, c := range used {
		c.lost.Store(nil)
		if err := c.start(); err != nil {
			return err
		}
		c.enter()
		r := d.lib.settle()
		c.leave()
		if r != success {
			return failed(d.lib, "cuCtxSynchronize", r)
		}
	}
	for _, c := range same {
		c.lost.Store(nil)
		c.told.Store(false)
	}
	return nil
}

// pinAgain registers all host memory anew, with home, that was registered with cards whose context is gone. What CUDA does not
// take any more, because the program has unmapped it, say, the host copies from now on. d.mu and Driver.gone are held.
func (d *Driver) pinAgain(gone []*card, home *card) {
	home.enter()
	defer home.leave()
	pin := func(addr uintptr, n uint64) bool {
		at, r := d.lib.register(addr, n)
		return r == success && at == addr
	}
	for s := range d.own.All() {
		if s.Of.kind == managedBlock && slices.Contains(gone, d.cards[s.Of.device]) {
			d.own.Remove(s)
			d.forget(s)
			continue
		}
		if b := *s.Of; b.kind == pinnedBlock && b.in == nil && slices.Contains(gone, d.cards[b.device]) {
			b.device = int32(home.number)
			if pin(s.Start, pinnedPages(b.size)) {
				replace(&d.own, s, &b)
			} else {
				d.warn(fmt.Sprintf("%d bytes of pinned memory at %#x are lost to the GPUs", b.size, s.Start))
			}
		}
	}
	for s := range d.hosts.All() {
		if r := *s.Of; slices.Contains(gone, r.locker) {
			r.locker = home
			if !pin(s.Start, s.Size) {
				r.pinned, r.locker = false, nil
			}
			replace(&d.hosts, s, &r)
			if alias := d.own.Find(r.alias); r.alias != 0 && alias != nil {
				b := *alias.Of
				b.reg = &r
				replace(&d.own, alias, &b)
			}
		}
	}
}

// replace says something else of a range. Both are not written meanwhile.
func replace[T any](set *ranges.Set[T], s *ranges.Span[T], of T) {
	set.Remove(s)
	set.Insert(&ranges.Span[T]{Start: s.Start, Size: s.Size, Of: of})
}
