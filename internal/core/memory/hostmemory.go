package memory

import (
	"errors"
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// MallocHost is aclrtMallocHost. In RC form it takes device memory, which is the host's as well.
func MallocHost(t *core.Thread, hostPtr *core.Addr, size uint64) *core.Error {
	const api = "aclrtMallocHost"
	c, err := checkMallocHost(t, hostPtr, size)
	if err != nil {
		return err
	}
	return allocHost(t, api, c, hostPtr, size)
}

// MallocHostWithCfg is aclrtMallocHostWithCfg.
func MallocHostWithCfg(t *core.Thread, ptr *core.Addr, size uint64, cfg *abi.MallocConfig) *core.Error {
	const api = "aclrtMallocHostWithCfg"
	if err := checkMallocHostWithCfg(t, ptr, size, cfg); err != nil {
		return err
	}
	va, err := hostAttributes(api, cfg)
	if err != nil {
		return err
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	if va == 1 && !t.Runtime.Product.Managed { // A2 and A3 have both
		return core.Unsupported(api, "cfg",
			"va flag: %s has no addresses that are equal on host and device; A2 and A3 have", t.Runtime.Product.Name).
			NotRecorded()
	}
	return allocHost(t, api, c, ptr, size)
}

// hostAttributes checks that the attributes of cfg are known, and returns the va flag.
func hostAttributes(api string, cfg *abi.MallocConfig) (va uint32, err *core.Error) {
	if cfg == nil {
		return 0, nil
	}
	if cfg.Attrs == 0 {
		return 0, core.Refused(api, "cfg", "attrs is NULL; pass NULL for cfg if there are no attributes")
	}
	for i := range cfg.NumAttrs {
		switch a := core.Element[abi.MallocAttribute](cfg.Attrs, i); a.Attr {
		case abi.MemAttrModuleId:
		case abi.MemAttrVaFlag:
			va = *a.Value.VaFlag()
		default:
			return 0, core.Refused(api, "cfg", "attribute %d is %v; a module id (1) and a va flag (3) are known here",
				i, a.Attr)
		}
	}
	return va, nil
}

// allocHost allocates host memory for the context and writes its address to p. Pinned memory has one address for the
// host and the copies of every device; a va flag asks for no more.
func allocHost(t *core.Thread, api string, c *core.Context, p *core.Addr, size uint64) *core.Error {
	rounded, ok := Round(size, 0)
	if !ok {
		return core.Fail(api, abi.ErrRTMemoryAllocation, "size",
			"%d bytes of host memory wanted, more than there are addresses", size)
	}
	if c.Runtime.OneMemory {
		return alloc(t, c, p, request{api, size, rounded, pageFor(c.Runtime, abi.MemMallocHugeFirst, rounded), 1})
	}
	a, err := c.Runtime.Driver.AllocHost(rounded)
	if err != nil {
		e := core.FromDriver(api, "size", err)
		if errors.Is(err, driver.ErrNoMemory) {
			e.Text = byteCount(size) + " of pinned host memory wanted, which the system does not have"
		}
		return e
	}
	if fence := c.Runtime.Caps.Fence; fence != nil {
		fence(a, size)
	}
	*p = a
	t.Acquired(core.Resource{Kind: core.PinnedMemory, Name: a, Size: size, Device: c.Device.User})
	return nil
}

// FreeHost is aclrtFreeHost.
func FreeHost(t *core.Thread, hostPtr core.Addr) *core.Error {
	const api = "aclrtFreeHost"
	if err := checkFreeHost(t, hostPtr); err != nil {
		return err
	}
	return freeHost(t, api, hostPtr)
}

// FreeHostWithDevSync is aclrtFreeHostWithDevSync.
func FreeHostWithDevSync(t *core.Thread, hostPtr core.Addr) *core.Error {
	const api = "aclrtFreeHostWithDevSync"
	c, err := checkFreeHostWithDevSync(t, hostPtr)
	if err != nil {
		return err
	}
	if err := t.ObserveWait(api, nil, func(int64) *core.Error { return c.Wait(api, core.WaitLimit{}) }); err != nil {
		return err
	}
	return freeHost(t, api, hostPtr)
}

// freeHost frees pinned host memory.
func freeHost(t *core.Thread, api string, p core.Addr) *core.Error {
	const arg = "hostPtr"
	rt := t.Runtime
	if rt.OneMemory {
		return free(t, api, arg, p)
	}
	if memoryOf(rt).vmm.mapping(p) != nil {
		return isMapped(api, arg, p)
	}
	if place := rt.Driver.Locate(p).Place; place == driver.OnDevice || place == driver.Managed {
		return core.Refused(api, arg, "%#x is %s; aclrtFree frees it", p,
			core.PlaceName(place)).Because(core.NotToFree, p)
	}
	return t.Releasing(core.Resource{Kind: core.PinnedMemory, Name: p},
		func() *core.Error { return freeError(rt, api, arg, p, rt.Driver.FreeHost(p)) })
}

// registerFlags are the flags of aclrtHostRegisterV2; all except PINNED create a device address.
const (
	mappedFlags   = abi.HostRegMapped | abi.HostRegIomemory | abi.HostRegReadonly
	registerFlags = mappedFlags | abi.HostRegPinned
)

// hostPage is the alignment of registered memory that the documents require.
const hostPage = 4096

// HostRegister is aclrtHostRegister.
func HostRegister(t *core.Thread, ptr core.Addr, size uint64, typ abi.HostRegisterType, devPtr *core.Addr) *core.Error {
	const api = "aclrtHostRegister"
	if err := checkHostRegister(t, ptr, size, typ, devPtr); err != nil {
		return err
	}
	if typ&^(abi.HostRegisterIomemory|abi.HostRegisterReadonly) != 0 {
		return core.Unsupported(api, "type", "%#x is not ACL_HOST_REGISTER_MAPPED (0)", uint32(typ))
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	t.Registering(core.Resource{Kind: core.RegisteredMemory, Name: ptr, Size: size})
	a, err := register(c, api, ptr, size, abi.HostRegMapped)
	if err != nil {
		return err
	}
	*devPtr = a
	t.Acquired(core.Resource{Kind: core.RegisteredMemory, Name: ptr, Size: size, Device: c.Device.User})
	return nil
}

// HostRegisterV2 is aclrtHostRegisterV2.
func HostRegisterV2(t *core.Thread, ptr core.Addr, size uint64, flag uint32) *core.Error {
	const api = "aclrtHostRegisterV2"
	if err := checkHostRegisterV2(t, ptr, size, flag); err != nil {
		return err
	}
	if flag == 0 || flag&^registerFlags != 0 {
		return core.Refused(api, "flag",
			"%#x is no mix of ACL_HOST_REG_MAPPED (0x2), _IOMEMORY (0x4), _READONLY (0x8) and _PINNED (0x10000000)",
			flag)
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	t.Registering(core.Resource{Kind: core.RegisteredMemory, Name: ptr, Size: size})
	if _, err := register(c, api, ptr, size, flag); err != nil {
		return err
	}
	t.Acquired(core.Resource{Kind: core.RegisteredMemory, Name: ptr, Size: size, Device: c.Device.User})
	return nil
}

// register registers host memory with the driver and returns its device address, if flag asks for one. It does not
// check that the memory is mapped: a copy does. A program may register pinned memory to map it, but not to pin it
// again.
func register(c *core.Context, api string, ptr core.Addr, size uint64, flag uint32) (core.Addr, *core.Error) {
	rt := c.Runtime
	if !rt.Product.Register {
		return 0, core.Unsupported(api, "", "%s cannot register host memory; aclrtMallocHost gives pinned memory",
			rt.Product.Name)
	}
	if rt.Strict {
		if !rt.Product.Has(api) {
			return 0, core.Unsupported(api, "", "the documents do not list it for the %s", rt.Product.Name)
		}
		if ptr%hostPage != 0 {
			return 0, core.Refused(api, "ptr", "%#x is not a multiple of %d, a page", ptr,
				hostPage).Because(core.Misaligned, ptr)
		}
	}
	l := rt.Driver.Locate(ptr)
	if l.Place == driver.OnDevice || l.Place == driver.Managed || l.Place == driver.Nowhere {
		return 0, core.Refused(api, "ptr",
			"%#x is device or managed memory or was freed; only host memory can be registered", ptr)
	}
	a, err := rt.Driver.Register(ptr, size, flag&mappedFlags != 0, int(c.Device.Phys))
	if err != nil {
		e := core.FromDriver(api, "ptr", err)
		e.Text = fmt.Sprintf("%d bytes at %#x cannot be registered", size, ptr)
		return 0, e
	}
	if flag&abi.HostRegPinned != 0 && l.Place == driver.Host {
		rt.Driver.Unregister(ptr) //nolint:errcheck // it was registered a moment ago
		return 0, core.Refused(api, "ptr",
			"%#x is pinned already, by aclrtMallocHost; ACL_HOST_REG_PINNED is for pageable memory", ptr)
	}
	if flag&mappedFlags != 0 {
		memoryOf(rt).mapped.add(ptr, mappedHost{start: a, size: size, device: c.Device})
	}
	return a, nil
}

// HostGetDevicePointer is aclrtHostGetDevicePointer.
func HostGetDevicePointer(t *core.Thread, pHost core.Addr, pDevice *core.Addr, flag uint32) *core.Error {
	const api = "aclrtHostGetDevicePointer"
	if _, err := checkHostGetDevicePointer(t, pHost, pDevice, flag); err != nil {
		return err
	}
	if !t.Runtime.Product.Register {
		return core.Unsupported(api, "", "%s cannot register host memory", t.Runtime.Product.Name)
	}
	a, err := t.Runtime.Driver.Mapped(pHost)
	if err != nil {
		e := core.FromDriver(api, "pHost", err)
		if e.Code == abi.ErrHostMemoryNotRegistered {
			e.Code = abi.ErrRTParamInvalid
			e.Text = fmt.Sprintf("%#x has no device address: it was not registered with "+
				"ACL_HOST_REGISTER_MAPPED or ACL_HOST_REG_MAPPED", pHost)
		}
		return e
	}
	*pDevice = a
	return nil
}

// HostUnregister is aclrtHostUnregister.
func HostUnregister(t *core.Thread, ptr core.Addr) *core.Error {
	const api = "aclrtHostUnregister"
	if _, err := checkHostUnregister(t, ptr); err != nil {
		return err
	}
	if !t.Runtime.Product.Register {
		return core.Unsupported(api, "", "%s cannot register host memory", t.Runtime.Product.Name)
	}
	return t.Releasing(core.Resource{Kind: core.RegisteredMemory, Name: ptr}, func() *core.Error {
		if err := t.Runtime.Driver.Unregister(ptr); err != nil {
			e := core.FromDriver(api, "ptr", err)
			e.Text = fmt.Sprintf("%#x is not the start of registered memory", ptr)
			return e.Because(core.Gone, ptr)
		}
		memoryOf(t.Runtime).mapped.remove(ptr)
		return nil
	})
}

// HostMemMapCapabilities is aclrtHostMemMapCapabilities. All engines of a product that can register host memory can
// access it; only the 950 has UDMA and CCU.
func HostMemMapCapabilities(t *core.Thread, deviceID uint32, hacType abi.HacType,
	capabilities *abi.HostMemMapCapability) *core.Error {
	if _, _, err := checkHostMemMapCapabilities(t, deviceID, hacType, capabilities); err != nil {
		return err
	}
	has := t.Runtime.Product.Register
	if hacType == abi.HacTypeUdma || hacType == abi.HacTypeCcu {
		has = has && t.Runtime.Product.Name == "950"
	}
	*capabilities = abi.HostMemMapNotSupported
	if has {
		*capabilities = abi.HostMemMapSupported
	}
	return nil
}
