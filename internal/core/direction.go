package core

import (
	"strconv"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// CorrectKind returns the real direction of an asynchronous or 2-D copy in EP form. If both ends are known, they
// decide; a pageable end allows some kinds (spec/semantics.md, section 12). It returns false if kind is not allowed.
func CorrectKind(kind abi.MemcpyKind, src, dst driver.Place) (abi.MemcpyKind, bool) {
	const (
		h2h = abi.MemcpyHostToHost
		h2d = abi.MemcpyHostToDevice
		d2h = abi.MemcpyDeviceToHost
		d2d = abi.MemcpyDeviceToDevice
	)
	// The allowed kinds are taken as given; DEFAULT becomes the first.
	as := func(allowed ...abi.MemcpyKind) (abi.MemcpyKind, bool) {
		if kind == abi.MemcpyDefault {
			return allowed[0], true
		}
		for _, k := range allowed {
			if kind == k {
				return k, true
			}
		}
		return kind, false
	}
	switch [2]driver.Place{src, dst} {
	case [2]driver.Place{driver.OnDevice, driver.OnDevice}:
		return d2d, true
	case [2]driver.Place{driver.OnDevice, driver.Host}:
		return d2h, true
	case [2]driver.Place{driver.Host, driver.OnDevice}:
		return h2d, true
	case [2]driver.Place{driver.Host, driver.Host}:
		return h2h, true
	case [2]driver.Place{driver.Pageable, driver.OnDevice}:
		return as(h2d, d2d)
	case [2]driver.Place{driver.OnDevice, driver.Pageable}:
		return as(d2h, d2d)
	case [2]driver.Place{driver.Host, driver.Pageable}:
		return as(h2h, h2d)
	case [2]driver.Place{driver.Pageable, driver.Host}:
		return as(h2h, d2h)
	}
	if src == driver.Managed || dst == driver.Managed {
		return kind, true
	}
	return as(h2h, h2d, d2h, d2d)
}

// HostIsPageable reports whether the host end of a copy with its final direction is ordinary memory.
func HostIsPageable(kind abi.MemcpyKind, src, dst driver.Place) bool {
	switch kind {
	case abi.MemcpyHostToDevice:
		return src == driver.Pageable
	case abi.MemcpyDeviceToHost:
		return dst == driver.Pageable
	}
	return false
}

// ToPageable reports whether a copy goes between managed and ordinary memory. Ordinary memory may be unmapped later,
// so such a copy runs at once, whatever its declared direction.
func ToPageable(src, dst driver.Place) bool {
	return src == driver.Pageable && dst == driver.Managed || src == driver.Managed && dst == driver.Pageable
}

// PlaceName returns the name of a place for messages.
func PlaceName(p driver.Place) string {
	switch p {
	case driver.OnDevice:
		return "device memory"
	case driver.Host:
		return "pinned host memory"
	case driver.Pageable:
		return "pageable host memory"
	case driver.Managed:
		return "managed memory"
	}
	return "no live memory"
}

// Locate returns the location of n bytes at addr, and refuses an address without memory, or with less than n bytes.
func (rt *Runtime) Locate(api, arg string, addr Addr, n uint64) (driver.Location, *Error) {
	l := rt.Driver.Locate(addr)
	if l.Place == driver.Nowhere {
		return l, NoMemory(api, arg, addr)
	}
	if l.Place != driver.Pageable && l.Room < n {
		return l, TooShort(api, arg, addr, n, l)
	}
	return l, nil
}

func NoMemory(api, arg string, addr Addr) *Error {
	return Refused(api, arg, "%#x lies in device or pinned memory that is not allocated (freed already?)",
		addr).Because(Gone, addr)
}

func TooShort(api, arg string, addr Addr, n uint64, l driver.Location) *Error {
	return Refused(api, arg, "%d bytes at %#x go past the end of the allocation (%s), which has %d left from there", n,
		addr, PlaceName(l.Place), l.Room).Because(PastEnd, 0).Of(addr, n)
}

// PeerDenied refuses a copy by device d with memory of a device that d may not access.
func (rt *Runtime) PeerDenied(api, arg string, d *Device, addr Addr, l driver.Location) *Error {
	if l.Place != driver.OnDevice || l.Device == d.Phys {
		return nil
	}
	o := rt.ByPhys(l.Device)
	switch {
	// imported memory may be on a device that is not visible
	case o != nil && d.Reaches(o), d.Peers.Load()&(1<<l.Device) != 0:
		return nil
	case !rt.Product.Peer:
		return Refused(api, arg, "is memory of device %s, and %s has no copies between devices", DeviceName(o),
			rt.Product.Name).Because(Unreachable, addr)
	default:
		return Refused(api, arg,
			"is memory of device %s, which device %d may not reach; call aclrtDeviceEnablePeerAccess first",
			DeviceName(o), d.User).Because(Unreachable, addr)
	}
}

// DeviceName returns a device's user id, for messages.
func DeviceName(d *Device) string {
	if d == nil {
		return "(not visible)"
	}
	return strconv.Itoa(int(d.User))
}

func NotDevice(api, arg string, addr Addr, l driver.Location) *Error {
	return Refused(api, arg, "%#x is %s, not device memory", addr, PlaceName(l.Place))
}
