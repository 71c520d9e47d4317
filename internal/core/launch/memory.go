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

	// Launches are taken by the threads of the program and come back from those of the device. So that these two do not
	// wait for each other, what comes back has a list and a lock of its own; the lists change places when the first is
	// empty. What was never used comes last: a few blocks that are used in turn stay in the caches.
	mu     sync.Mutex
	free   [sizes][]*pending // guarded by mu; by size
	unused [sizes][]*pending // guarded by mu

	_     [64]byte
	over  sync.Mutex        // taken after mu
	back  [sizes][]*pending // guarded by over
	spent []core.Addr       // guarded by over; of launches that are over, to be freed
}

const (
	sizes     = 4
	smallest  = 256
	slabBytes = 1 << 20
	some      = 32 // unused blocks that are taken at a time
)

// blockBytes are the sizes of blocks; larger ones are allocated for themselves.
var blockBytes = [sizes]uint64{smallest, 4 << 10, 64 << 10, 256 << 10}

// pending is a launch that is queued, with the memory of its arguments. It is used again. What it was before is written
// over by take, not when it is over: the device's thread, which returns it, leaves its cache lines alone.
type pending struct {
	of    *argMemory // immutable
	room  core.Addr  // immutable; of its arguments
	size  uint64     // immutable; bytes there
	index int        // immutable; of its size; -1: freed when it is over

	f     *function
	class kernel.Type
	dumps bool     // its launch asked for a dump of its data
	args  *pending // whose memory its arguments are in, if that is another one; returned with it

	as *driver.Launch // what Launch is a copy of, but for what put sets; nil: none
	driver.Launch
}

// take is a launch with room for n bytes of arguments.
func (m *argMemory) take(n uint64) (*pending, error) {
	p, err := m.room(n)
	if err == nil {
		p.f, p.class, p.dumps, p.args, p.as, p.Launch = nil, 0, false, nil, nil, driver.Launch{}
	}
	return p, err
}

// room is take, but leaves Launch and the fields before it as the last launch had them.
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

// refill takes what has come back, or else some that were never used. mu is held.
func (m *argMemory) refill(i int) {
	core.Locked(&m.over, func() { m.free[i], m.back[i] = m.back[i], m.free[i] })
	if left := len(m.unused[i]); len(m.free[i]) == 0 && left > 0 {
		n := max(left-some, 0)
		m.free[i] = append(m.free[i], m.unused[i][n:]...)
		m.unused[i] = m.unused[i][:n]
	}
}

// clean frees what is too large to be kept.
func (m *argMemory) clean() {
	var spent []core.Addr
	core.Locked(&m.over, func() { spent, m.spent = m.spent, nil })
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
	if p.index < 0 { // the driver may not be called here
		m.spent = append(m.spent, p.room)
	} else {
		m.back[p.index] = append(m.back[p.index], p)
	}
	m.over.Unlock()
}

// bytes is the room for arguments.
func (p *pending) bytes(n uint64) []byte { return core.Array(core.Pointer[byte](p.room), n) }
