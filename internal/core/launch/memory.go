package launch

import (
	"sync"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// argMemory is pinned memory for the arguments of launches, in blocks of a few sizes. It is taken from the driver
// that has the memory, not from those in front of it, whom it does not concern, and kept.
type argMemory struct {
	rt *core.Runtime // immutable

	mu   sync.Mutex
	free [sizes][]*pending // guarded by mu; by size
}

const (
	sizes     = 4
	smallest  = 256
	slabBytes = 1 << 20
)

// blockBytes are the sizes of blocks; larger ones are allocated for themselves.
var blockBytes = [sizes]uint64{smallest, 4 << 10, 64 << 10, 256 << 10}

// pending is a launch that is queued, with the memory of its arguments. It is used again.
type pending struct {
	driver.Launch
	of    *argMemory
	f     *function
	class kernel.Type
	room  core.Addr // of its arguments
	size  uint64    // bytes there
	index int       // of its size; -1: freed when it is over
}

// base is the driver that has the memory.
func base(d driver.Driver) driver.Driver {
	for {
		w, ok := d.(interface{ Unwrap() driver.Driver })
		if !ok {
			return d
		}
		d = w.Unwrap()
	}
}

// take is a launch with room for n bytes of arguments.
func (m *argMemory) take(n uint64) (*pending, error) {
	for i, size := range blockBytes {
		if n <= size {
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.free[i]) == 0 {
				if err := m.grow(i); err != nil {
					return nil, err
				}
			}
			last := len(m.free[i]) - 1
			p := m.free[i][last]
			m.free[i] = m.free[i][:last]
			return p, nil
		}
	}
	addr, err := base(m.rt.Driver).AllocHost(n)
	if err != nil {
		return nil, err
	}
	return &pending{of: m, room: addr, size: n, index: -1}, nil
}

// grow makes blocks of a size. mu is held.
func (m *argMemory) grow(i int) error {
	addr, err := base(m.rt.Driver).AllocHost(slabBytes)
	if err != nil {
		return err
	}
	size := blockBytes[i]
	all := make([]pending, slabBytes/size)
	for k := range all {
		all[k] = pending{of: m, room: addr + core.Addr(uint64(k)*size), size: size, index: i}
		m.free[i] = append(m.free[i], &all[k])
	}
	return nil
}

// LaunchOver implements driver.LaunchOwner.
func (p *pending) LaunchOver(*driver.Launch) {
	if p.Module != nil {
		p.Module.Release()
	}
	p.Launch, p.f = driver.Launch{}, nil
	m := p.of
	if p.index < 0 {
		base(m.rt.Driver).FreeHost(p.room) //nolint:errcheck // ours
		return
	}
	m.mu.Lock()
	m.free[p.index] = append(m.free[p.index], p)
	m.mu.Unlock()
}

// bytes is the room for arguments.
func (p *pending) bytes(n uint64) []byte { return core.Array(core.Pointer[byte](p.room), n) }
