package core

import "ropeway/internal/driver"

// SuperPodID is the number of a device in a super pod: from the lowest bit, 16 bits of device, 2 of die, 4 of chip,
// 10 of server.
func (rt *Runtime) SuperPodID(phys int32) uint32 {
	if f, ok := driver.As[driver.Fabric](rt.Driver); ok {
		server, _ := f.Server()
		return uint32(server)<<22 | uint32(phys)
	}
	return uint32(phys)
}

// OfSuperPodID is the device of this server that has a number in a super pod; false if it is on another server.
func (rt *Runtime) OfSuperPodID(id uint32) (phys uint32, here bool) {
	if f, ok := driver.As[driver.Fabric](rt.Driver); ok {
		server, _ := f.Server()
		return id & 0xffff, id>>22 == uint32(server)
	}
	return id, true
}
