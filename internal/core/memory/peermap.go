package memory

import (
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// MemP2PMap is aclrtMemP2PMap. Devices that may reach each other's memory reach all of it: it only checks whether
// they may.
func MemP2PMap(t *core.Thread, devPtr core.Addr, size uint64, dstDevID int32, flags uint64) *core.Error {
	const api = "aclrtMemP2PMap"
	dst, c, err := checkMemP2PMap(t, devPtr, size, dstDevID, flags)
	if err != nil {
		return err
	}
	if err := noPeers(t, api); err != nil {
		return err
	}
	if t.Runtime.Product.RC {
		return core.Unsupported(api, "", "a program in RC form has no peer devices")
	}
	l, err := t.Runtime.Locate(api, "devPtr", devPtr, size)
	switch {
	case err != nil:
		return err
	case l.Place != driver.OnDevice:
		return core.NotDevice(api, "devPtr", devPtr, l)
	case l.Device != c.Device.Phys:
		return core.Refused(api, "devPtr", "is memory of device %s, not of the current one, %d",
			core.DeviceName(t.Runtime.ByPhys(l.Device)), c.Device.User)
	case !dst.Reaches(c.Device) && !c.Device.Reaches(dst):
		return core.Refused(api, "dstDevId",
			"devices %d and %d may not reach each other; call aclrtDeviceEnablePeerAccess first", c.Device.User,
			dst.User)
	}
	return nil
}
