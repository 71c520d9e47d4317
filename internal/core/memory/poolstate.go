package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/core"
	"ropeway/internal/ranges"
)

// poolState holds the memory pools of a process.
type poolState struct {
	table core.Table[Pool]
	any   atomic.Bool            // a pool was created
	index ranges.Set[*poolBlock] // the memory of all pools, in use or not; written with mu held

	mu   sync.Mutex
	list []*Pool // guarded by mu; including destroyed ones with memory that streams still use
}

// make adds a pool for an open device, or returns 0 if that was closed or no handle is left.
func (ps *poolState) make(d *core.Device, dev *core.OpenDevice, size uint64) core.Handle {
	p := &Pool{rt: d.Runtime, dev: d, open: dev, max: size, unused: map[uint64]*poolClass{}}
	d.StayOpen(dev, func() {
		if p.handle = ps.table.Add(p); p.handle != 0 {
			core.Locked(&ps.mu, func() { ps.list = append(ps.list, p) })
			if !ps.any.Swap(true) {
				d.Runtime.OnSynchronized(ps.synchronized)
			}
		}
	})
	return p.handle
}

// find returns the block that contains addr, or nil.
func (ps *poolState) find(addr core.Addr) *poolBlock {
	if s := ps.index.Find(addr); s != nil {
		return s.Of
	}
	return nil
}

// each calls f with every pool that has memory, or a handle.
func (ps *poolState) each(f func(*Pool)) {
	if !ps.any.Load() {
		return
	}
	var list []*Pool
	core.Locked(&ps.mu, func() { list = slices.Clone(ps.list) })
	for _, p := range list {
		f(p)
	}
}

// forget removes blocks from the index, and p from the list if nothing of it is left. It returns the number of blocks
// found.
func (ps *poolState) forget(blocks []*poolBlock, p *Pool) (found int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, b := range blocks {
		if ps.index.Find(b.addr) == b.span {
			ps.index.Remove(b.span)
			found++
		}
	}
	if p != nil {
		ps.list = slices.DeleteFunc(ps.list, func(o *Pool) bool { return o == p })
	}
	return found
}

// synchronized returns unused memory beyond the threshold of each pool to the device.
func (ps *poolState) synchronized() {
	ps.each(func(p *Pool) { p.trim(func(uint64) bool { return p.idle > p.threshold }) }) // lockcheck: trim locks mu
}

// emptyAll returns all unused memory of pools of d.
func (ps *poolState) emptyAll(d *core.Device) {
	ps.each(func(p *Pool) {
		if p.dev == d {
			p.trim(func(uint64) bool { return true })
		}
	})
}

// closed removes the pools of d, whose memory is freed with it. d.mu is held.
func (ps *poolState) closed(d *core.Device) {
	ps.each(func(p *Pool) {
		if p.dev != d {
			return
		}
		ps.table.Remove(p.handle)
		core.Locked(&p.mu, func() { p.gone, p.lost, p.unused, p.idle, p.leaving = true, true, nil, 0, nil })
		blocks := p.blocks()
		ps.forget(blocks, p)
		for _, b := range blocks {
			if b.bare != nil {
				b.unreserve()
			}
		}
	})
}
