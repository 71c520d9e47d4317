package launch

import (
	"sync"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// argMemory is pinned memory for the arguments of launches, in blocks of a few sizes. It is taken from the driver that
// has the memory, not from those in front of it, which it does not concern, and kept.
type argMemory struct {
	rt *core.Runtime // immutable

	mu    sync.Mutex
	free  [sizes][]*pending // guarded by mu; by size
	spent []core.Addr       // guarded by mu; of launches that are over, to be freed
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

// take is a launch with room for n bytes of arguments.
func (m *argMemory) take(n uint64) (*pending, error) {
	for i, size := range blockBytes {
		for n <= size {
			if p := m.spare(i); p != nil {
				return p, nil
			}
			if err := m.grow(i); err != nil {
				return nil, err
			}
		}
	}
	m.clean()
	addr, err := driver.Base(m.rt.Driver).AllocHost(n)
	if err != nil {
		return nil, err
	}
	return &pending{of: m, room: addr, size: n, index: -1}, nil
}

// spare is a block of a size that is not in use, or nil.
func (m *argMemory) spare(i int) *pending {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := len(m.free[i]) - 1
	if last < 0 {
		return nil
	}
	p := m.free[i][last]
	m.free[i] = m.free[i][:last]
	return p
}

// clean frees what is too large to be kept.
func (m *argMemory) clean() {
	var spent []core.Addr
	core.Locked(&m.mu, func() { spent, m.spent = m.spent, nil })
	for _, addr := range spent {
		driver.Base(m.rt.Driver).FreeHost(addr) //nolint:errcheck // ours
	}
}

// grow makes blocks of a size.
func (m *argMemory) grow(i int) error {
	addr, err := driver.Base(m.rt.Driver).AllocHost(slabBytes)
	if err != nil {
		return err
	}
	size := blockBytes[i]
	all := make([]pending, slabBytes/size)
	m.mu.Lock()
	defer m.mu.Unlock()
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
	m.mu.Lock()
	if p.index < 0 { // the driver may not be called here
		m.spent = append(m.spent, p.room)
	} else {
		m.free[p.index] = append(m.free[p.index], p)
	}
	m.mu.Unlock()
}

// bytes is the room for arguments.
func (p *pending) bytes(n uint64) []byte { return core.Array(core.Pointer[byte](p.room), n) }
