package memory

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// mappedHosts holds the registrations that have a device address.
type mappedHosts struct {
	mu   sync.Mutex               // Device.mu → mappedHosts.mu
	list map[core.Addr]mappedHost // guarded by mu; by the address of the program
}

// mappedHost is a registration with its device address.
type mappedHost struct {
	start  core.Addr
	size   uint64
	device *core.Device
}

func (h *mappedHosts) add(ptr core.Addr, x mappedHost) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.list == nil {
		h.list = map[core.Addr]mappedHost{}
	}
	h.list[ptr] = x
}

func (h *mappedHosts) remove(ptr core.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.list, ptr)
}

// closed removes the registrations of a device, which end with it.
func (h *mappedHosts) closed(d *core.Device) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.list, func(_ core.Addr, x mappedHost) bool { return x.device == d })
}

// of returns the ranges that a device can access, by address.
func (h *mappedHosts) of(d *core.Device) (list []mappedHost) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.list {
		if x.device == d {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b mappedHost) int { return cmp.Compare(a.start, b.start) })
	return list
}

// HostGetDevicePointerAddrRange is aclrtHostGetDevicePointerAddrRange.
func HostGetDevicePointerAddrRange(t *core.Thread, addrRange *abi.AddrRange, count *uint32) *core.Error {
	c, err := checkHostGetDevicePointerAddrRange(t, addrRange, count)
	if err != nil {
		return err
	}
	list := memoryOf(t.Runtime).mapped.of(c.Device)
	if addrRange != nil {
		room := min(uint64(*count), uint64(len(list)))
		for i, x := range list[:room] {
			core.Array(addrRange, room)[i] = abi.AddrRange{StartAddr: uintptr(x.start),
				EndAddr: uintptr(x.start) + uintptr(x.size) - 1}
		}
	}
	*count = uint32(len(list))
	return nil
}
