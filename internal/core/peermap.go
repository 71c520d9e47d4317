package core

import "ropeway/internal/driver"

// MemP2PMap is aclrtMemP2PMap. Devices that may reach each other's memory reach all of it: what is left is to look whether they may.
func (t *Thread) MemP2PMap(devPtr Addr, size uint64, dstDevID int32, flags uint64) *Error {
	const api = "aclrtMemP2PMap"
	dst, c, err := t.checkMemP2PMap(devPtr, size, dstDevID, flags)
	if err != nil {
		return err
	}
	if err := t.noPeers(api); err != nil {
		return err
	}
	if t.rt.prod.RC {
		return unsupported(api, "", "a program in RC form has no peer devices")
	}
	l, err := t.rt.locate(api, "devPtr", devPtr, size)
	switch {
	case err != nil:
		return err
	case l.Place != driver.OnDevice:
		return notDevice(api, "devPtr", devPtr, l)
	case l.Device != c.dev.phys:
		return refused(api, "devPtr", "is memory of device %s, not of the current one, %d", deviceName(t.rt.byPhys(l.Device)), c.dev.user)
	case !dst.reaches(c.dev) && !c.dev.reaches(dst):
		return refused(api, "dstDevId", "devices %d and %d may not reach each other; call aclrtDeviceEnablePeerAccess first", c.dev.user, dst.user)
	}
	return nil
}
