package core

// SuperPodID returns the number of a device in a super pod: from the lowest bit, 16 bits of device, 2 of die, 4 of
// chip, 10 of server.
func (rt *Runtime) SuperPodID(phys int32) uint32 {
	if f := rt.Caps.Fabric; f != nil {
		server, _ := f.Server()
		return uint32(server)<<22 | uint32(phys)
	}
	return uint32(phys)
}

// OfSuperPodID returns the device of this server with a number in a super pod; false if it is on another server.
func (rt *Runtime) OfSuperPodID(id uint32) (phys uint32, here bool) {
	if f := rt.Caps.Fabric; f != nil {
		server, _ := f.Server()
		return id & 0xffff, id>>22 == uint32(server)
	}
	return id, true
}
