package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// LocationCache remembers the allocation that the last address was in. The copies of a program, and the segments of a
// batch, mostly stay in a few, and comparing is cheaper than looking up. It belongs to one goroutine.
type LocationCache struct {
	Runtime *Runtime
	epoch   uint64 // of the driver, when it was looked up
	loc     driver.Location
	Lo, Hi  Addr // addresses known to be in that allocation; hi is its end
}

// Find is Locate for a moment at which the driver's epoch was the one given, or later.
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
			// The same allocation, further down: going through it backwards must not call the driver for every step.
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

// mustHold panics with Wild if one of n bytes at addr is the driver's and in no allocation. Where memory begins that
// the driver does not know, it knows nothing of the rest.
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

// Locate is Runtime.locate for an end of a copy of this thread, which remembers where the last one was.
func (t *Thread) Locate(api, arg string, near *LocationCache, epoch uint64, addr Addr, n uint64) (driver.Location,
	*Error) {
	if t.Shared {
		return t.Runtime.Locate(api, arg, addr, n)
	}
	near.Runtime = t.Runtime
	l := near.Find(addr, epoch)
	if l.Room < n && l.Place != driver.Pageable {
		return t.Runtime.Locate(api, arg, addr, n) // refuses it, or it has come to be meanwhile
	}
	return l, nil
}
