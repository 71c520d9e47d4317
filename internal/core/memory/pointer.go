package memory

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// PointerGetAttributes is aclrtPointerGetAttributes.
func PointerGetAttributes(t *core.Thread, ptr core.Addr, attributes *abi.PtrAttributes) *core.Error {
	const api = "aclrtPointerGetAttributes"
	if err := checkPointerGetAttributes(t, ptr, attributes); err != nil {
		return err
	}
	al := t.Runtime.Driver.Describe(ptr)
	var l abi.MemLocation
	switch al.Place {
	case driver.Host:
		l.Type = abi.MemLocationTypeHost
	case driver.OnDevice, driver.Managed:
		l.Type = abi.MemLocationTypeDevice
		if al.Place == driver.Managed {
			l.Type = abi.MemLocationTypeManaged
		}
		if d := t.Runtime.ByPhys(al.Device); d != nil {
			l.ID = uint32(d.User)
		}
	case driver.Pageable, driver.Nowhere:
		l.Type = abi.MemLocationTypeUnregistered
	default:
		return core.Refused(api, "ptr", "%#x is a kind of memory that is not known here (%d)", ptr, al.Place)
	}
	attributes.Location, attributes.PageSize = l, al.PageSize
	return nil
}
