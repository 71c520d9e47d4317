package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// PointerGetAttributes is aclrtPointerGetAttributes.
func (t *Thread) PointerGetAttributes(ptr Addr, attributes *abi.PtrAttributes) *Error {
	const api = "aclrtPointerGetAttributes"
	if err := t.checkPointerGetAttributes(ptr, attributes); err != nil {
		return err
	}
	al := t.rt.drv.Describe(ptr)
	var l abi.MemLocation
	switch al.Place {
	case driver.Host:
		l.Type = abi.MemLocationTypeHost
	case driver.OnDevice, driver.Managed:
		l.Type = abi.MemLocationTypeDevice
		if al.Place == driver.Managed {
			l.Type = abi.MemLocationTypeManaged
		}
		if d := t.rt.byPhys(al.Device); d != nil {
			l.ID = uint32(d.user)
		}
	case driver.Pageable, driver.Nowhere:
		l.Type = abi.MemLocationTypeUnregistered
	default:
		return refused(api, "ptr", "%#x is a kind of memory that is not known here (%d)", ptr, al.Place)
	}
	attributes.Location, attributes.PageSize = l, al.PageSize
	return nil
}
