package launch

import (
	"sync"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// argMemory is pinned memory for the arguments of launches, in blocks of a few sizes, which are reused. It comes from
// the driver that has the memory: drivers in front of it need not know of it.
type argMemory struct {
	rt *core.Runtime // immutable

	// Threads of the program take launches, and threads of the device return them. So that the two do not wait for each
	// other, returned launches have a list and a lock of their own; the lists are swapped when the first is empty.
	// Unused blocks are taken last, so that a few blocks are reused in turn and stay in the caches.
	mu     sync.Mutex
	free   [sizes][]*pending // guarded by mu; by size
	unused [sizes][]*pending // guarded by mu

	_     [64]byte
	over  sync.Mutex        // taken after mu
	back  [sizes][]*pending // guarded by over
	spent []core.Addr       // guarded by over; memory of launches that are over, to be freed
}

const (
	sizes     = 4
	smallest  = 256
	slabBytes = 1 << 20
	some      = 32 // unused blocks taken at a time
)

// blockBytes are the sizes of blocks; larger ones are allocated separately.
var blockBytes = [sizes]uint64{smallest, 4 << 10, 64 << 10, 256 << 10}

// pending is a queued launch with the memory of its arguments. It is reused. Its old content is overwritten when it is
// taken, not when it is returned, so that the device's thread does not touch its cache lines.
type pending struct {
	of    *argMemory // immutable
	room  core.Addr  // immutable; memory of its arguments
	size  uint64     // immutable; bytes of room
	index int        // immutable; index of its size; -1: freed when it is over

	f     *function
	class kernel.Type
	dumps bool     // its launch asked for a dump of its data
	args  *pending // launch that has the memory of its arguments, if not its own; returned with it

	as *driver.Launch // Launch is a copy of this one, except for the fields that put sets; nil: none
	driver.Launch
}

// alloc returns a launch with room for n bytes of arguments.
func (m *argMemory) alloc(n uint64) (*pending, error) {
	p, err := m.room(n)
	if err == nil {
		p.f, p.class, p.dumps, p.args, p.as, p.Launch = nil, 0, false, nil, nil, driver.Launch{}
	}
	return p, err
}

// room is alloc that keeps Launch and the fields before it from the last launch.
func (m *argMemory) room(n uint64) (*pending, error) {
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
	addr, err := m.rt.Caps.Base.AllocHost(n)
	if err != nil {
		return nil, err
	}
	return &pending{of: m, room: addr, size: n, index: -1}, nil
}

// spare returns a free block of a size, or nil.
func (m *argMemory) spare(i int) *pending {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.free[i]) == 0 {
		m.refill(i)
	}
	last := len(m.free[i]) - 1
	if last < 0 {
		return nil
	}
	p := m.free[i][last]
	m.free[i] = m.free[i][:last]
	return p
}

// refill takes the returned blocks, or else some unused ones. mu is held.
func (m *argMemory) refill(i int) {
	core.Locked(&m.over, func() { m.free[i], m.back[i] = m.back[i], m.free[i] })
	if left := len(m.unused[i]); len(m.free[i]) == 0 && left > 0 {
		n := max(left-some, 0)
		m.free[i] = append(m.free[i], m.unused[i][n:]...)
		m.unused[i] = m.unused[i][:n]
	}
}

// clean frees blocks that are too large to be kept.
func (m *argMemory) clean() {
	var spent []core.Addr
	core.Locked(&m.over, func() { spent, m.spent = m.spent, nil })
	for _, addr := range spent {
		m.rt.Caps.Base.FreeHost(addr) //nolint:errcheck // ours
	}
}

// grow allocates blocks of a size.
func (m *argMemory) grow(i int) error {
	addr, err := m.rt.Caps.Base.AllocHost(slabBytes)
	if err != nil {
		return err
	}
	size := blockBytes[i]
	all := make([]pending, slabBytes/size)
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range all {
		all[k] = pending{of: m, room: addr + core.Addr(uint64(k)*size), size: size, index: i}
		m.unused[i] = append(m.unused[i], &all[k])
	}
	return nil
}

// LaunchOver implements driver.LaunchOwner.
func (p *pending) LaunchOver(*driver.Launch) {
	if p.Module != nil {
		p.Module.Release()
	}
	if p.args != nil {
		p.args.LaunchOver(nil)
	}
	m := p.of
	m.over.Lock()
	if p.index < 0 { // the driver must not be called here
		m.spent = append(m.spent, p.room)
	} else {
		m.back[p.index] = append(m.back[p.index], p)
	}
	m.over.Unlock()
}

// bytes returns n bytes of the room for arguments.
func (p *pending) bytes(n uint64) []byte { return core.Array(core.Pointer[byte](p.room), n) }
