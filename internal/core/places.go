package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// LocationCache caches the allocation of the last address. The segments of a batch mostly use a few allocations, and
// comparing is cheaper than a lookup. One goroutine owns it.
type LocationCache struct {
	Runtime *Runtime
	epoch   uint64 // the driver's, at the lookup
	loc     driver.Location
	Lo, Hi  Addr // addresses known to be in that allocation; Hi is its end
}

// Find is Locate at a time when the driver's epoch was at least the given one.
func (p *LocationCache) Find(addr Addr, epoch uint64) driver.Location {
	if addr >= p.Lo && addr < p.Hi && p.epoch == epoch {
		l := p.loc
		l.Room = uint64(p.Hi - addr)
		return l
	}
	l := p.Runtime.Driver.Locate(addr)
	if l.Place == driver.OnDevice || l.Place == driver.Host || l.Place == driver.Managed {
		hi := addr + Addr(l.Room)
		if hi == p.Hi && addr < p.Lo && p.epoch == epoch {
			// A lower address of the same allocation: going through it backwards must not call the driver for every
			// step.
			p.Lo = addr
			if a := p.Runtime.Driver.Describe(addr); a.Start+Addr(a.Size) == hi {
				p.Lo = a.Start
			}
		} else {
			p.Lo, p.Hi, p.epoch = addr, hi, epoch
		}
		p.loc = l
	}
	return l
}

// mustHold panics with Wild if any of the n bytes at addr is in the driver's ranges but not allocated. It stops at the
// first pageable byte, which the driver cannot judge.
func (rt *Runtime) mustHold(addr Addr, n uint64) {
	for {
		l := rt.Driver.Locate(addr)
		switch {
		case l.Place == driver.Nowhere:
			panic(Wild(addr))
		case l.Place == driver.Pageable || l.Room >= n:
			return
		}
		addr, n = addr+Addr(l.Room), n-l.Room
	}
}

// Matches reports whether a real location is the declared one. Pageable memory counts as host memory.
func (rt *Runtime) Matches(want abi.MemLocation, l driver.Location) bool {
	switch want.Type {
	case abi.MemLocationTypeHost, abi.MemLocationTypeHostNuma:
		return l.Place == driver.Host || l.Place == driver.Pageable
	case abi.MemLocationTypeManaged:
		return l.Place == driver.Managed
	case abi.MemLocationTypeDevice:
		if l.Place == driver.OnDevice {
			d := rt.ByPhys(l.Device)
			return d != nil && uint32(d.User) == want.ID
		}
	}
	return false
}
