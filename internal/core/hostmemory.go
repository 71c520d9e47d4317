package core

import (
	"errors"
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// MallocHost is aclrtMallocHost. In RC form it takes device memory, which is the host's as well.
func (t *Thread) MallocHost(hostPtr *Addr, size uint64) *Error {
	const api = "aclrtMallocHost"
	c, err := t.checkMallocHost(hostPtr, size)
	if err != nil {
		return err
	}
	return t.allocHost(api, c, hostPtr, size)
}

// MallocHostWithCfg is aclrtMallocHostWithCfg.
func (t *Thread) MallocHostWithCfg(ptr *Addr, size uint64, cfg *abi.MallocConfig) *Error {
	const api = "aclrtMallocHostWithCfg"
	if err := t.checkMallocHostWithCfg(ptr, size, cfg); err != nil {
		return err
	}
	va, err := hostAttributes(api, cfg)
	if err != nil {
		return err
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if va == 1 && !t.rt.prod.Managed { // A2 and A3 have both
		return unsupported(api, "cfg", "va flag: %s has no addresses that are equal on host and device; A2 and A3 have", t.rt.prod.Name).quiet()
	}
	return t.allocHost(api, c, ptr, size)
}

// hostAttributes looks at the attributes of cfg, which must be known, and returns the va flag.
func hostAttributes(api string, cfg *abi.MallocConfig) (va uint32, err *Error) {
	if cfg == nil {
		return 0, nil
	}
	if cfg.Attrs == 0 {
		return 0, refused(api, "cfg", "attrs is NULL; pass NULL for cfg if there are no attributes")
	}
	for i := range cfg.NumAttrs {
		switch a := element[abi.MallocAttribute](cfg.Attrs, i); a.Attr {
		case abi.MemAttrModuleId:
		case abi.MemAttrVaFlag:
			va = *a.Value.VaFlag()
		default:
			return 0, refused(api, "cfg", "attribute %d is %v; a module id (1) and a va flag (3) are known here", i, a.Attr)
		}
	}
	return va, nil
}

// allocHost makes host memory for the context and writes its address to p. Pinned memory has one address for the host
// and the copies of every device, which is all that a va flag asks for.
func (t *Thread) allocHost(api string, c *Context, p *Addr, size uint64) *Error {
	rounded, ok := round(size, 0)
	if !ok {
		return fail(api, abi.ErrRTMemoryAllocation, "size", "%d bytes of host memory wanted, more than there are addresses", size)
	}
	if c.rt.open {
		return t.alloc(c, p, request{api, size, rounded, c.rt.pageFor(abi.MemMallocHugeFirst, rounded), 1})
	}
	a, err := c.rt.drv.AllocHost(rounded)
	if err != nil {
		e := fromDriver(api, "size", err)
		if errors.Is(err, driver.ErrNoMemory) {
			e.Text = byteCount(size) + " of pinned host memory wanted"
		}
		return e
	}
	if f, ok := driver.As[driver.Fencer](c.rt.drv); ok {
		f.Fence(a, size)
	}
	*p = a
	t.given(Resource{Kind: PinnedMemory, Name: a, Size: size, Device: c.dev.user})
	return nil
}

// FreeHost is aclrtFreeHost.
func (t *Thread) FreeHost(hostPtr Addr) *Error {
	const api = "aclrtFreeHost"
	if err := t.checkFreeHost(hostPtr); err != nil {
		return err
	}
	return t.freeHost(api, hostPtr)
}

// FreeHostWithDevSync is aclrtFreeHostWithDevSync.
func (t *Thread) FreeHostWithDevSync(hostPtr Addr) *Error {
	const api = "aclrtFreeHostWithDevSync"
	c, err := t.checkFreeHostWithDevSync(hostPtr)
	if err != nil {
		return err
	}
	if err := t.waits(api, nil, func(int64) *Error { return c.wait(api, waiting{}) }); err != nil {
		return err
	}
	return t.freeHost(api, hostPtr)
}

// freeHost gives pinned host memory back.
func (t *Thread) freeHost(api string, p Addr) *Error {
	const arg = "hostPtr"
	rt := t.rt
	if rt.open {
		return t.free(api, arg, p)
	}
	if memoryOf(rt).vmm.mapping(p) != nil {
		return isMapped(api, arg, p)
	}
	if place := rt.drv.Locate(p).Place; place == driver.OnDevice || place == driver.Managed {
		return refused(api, arg, "%#x is %s; aclrtFree gives it back", p, placeName(place)).because(NotToFree, p)
	}
	return t.gives(Resource{Kind: PinnedMemory, Name: p}, func() *Error { return rt.gaveBack(api, arg, p, rt.drv.FreeHost(p)) })
}

// registerFlags are what aclrtHostRegisterV2 knows; all but PINNED make a device address.
const (
	mappedFlags   = abi.HostRegMapped | abi.HostRegIomemory | abi.HostRegReadonly
	registerFlags = mappedFlags | abi.HostRegPinned
)

// hostPage is what the documents ask the addresses of registered memory to be multiples of.
const hostPage = 4096

// HostRegister is aclrtHostRegister.
func (t *Thread) HostRegister(ptr Addr, size uint64, typ abi.HostRegisterType, devPtr *Addr) *Error {
	const api = "aclrtHostRegister"
	if err := t.checkHostRegister(ptr, size, typ, devPtr); err != nil {
		return err
	}
	if typ&^(abi.HostRegisterIomemory|abi.HostRegisterReadonly) != 0 {
		return unsupported(api, "type", "%#x is not ACL_HOST_REGISTER_MAPPED (0)", uint32(typ))
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	t.giving(Resource{Kind: RegisteredMemory, Name: ptr, Size: size})
	a, err := c.register(api, ptr, size, abi.HostRegMapped)
	if err != nil {
		return err
	}
	*devPtr = a
	t.given(Resource{Kind: RegisteredMemory, Name: ptr, Size: size, Device: c.dev.user})
	return nil
}

// HostRegisterV2 is aclrtHostRegisterV2.
func (t *Thread) HostRegisterV2(ptr Addr, size uint64, flag uint32) *Error {
	const api = "aclrtHostRegisterV2"
	if err := t.checkHostRegisterV2(ptr, size, flag); err != nil {
		return err
	}
	if flag == 0 || flag&^registerFlags != 0 {
		return refused(api, "flag", "%#x is no mix of ACL_HOST_REG_MAPPED (0x2), _IOMEMORY (0x4), _READONLY (0x8) and _PINNED (0x10000000)", flag)
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	t.giving(Resource{Kind: RegisteredMemory, Name: ptr, Size: size})
	if _, err := c.register(api, ptr, size, flag); err != nil {
		return err
	}
	t.given(Resource{Kind: RegisteredMemory, Name: ptr, Size: size, Device: c.dev.user})
	return nil
}

// register makes host memory known to the driver and returns its device address, if flag asks for one. Nobody looks
// whether the memory is there: a copy finds out. A program may register pinned memory to map it, not to pin it again.
func (c *Context) register(api string, ptr Addr, size uint64, flag uint32) (Addr, *Error) {
	rt := c.rt
	if !rt.prod.Register {
		return 0, unsupported(api, "", "%s cannot register host memory; aclrtMallocHost gives pinned memory", rt.prod.Name)
	}
	if rt.strict {
		if !rt.prod.Has(api) {
			return 0, unsupported(api, "", "the documents do not list it for the %s", rt.prod.Name)
		}
		if ptr%hostPage != 0 {
			return 0, refused(api, "ptr", "%#x is not a multiple of %d, a page", ptr, hostPage).because(Misaligned, ptr)
		}
	}
	l := rt.drv.Locate(ptr)
	if l.Place == driver.OnDevice || l.Place == driver.Managed || l.Place == driver.Nowhere {
		return 0, refused(api, "ptr", "%#x is device or managed memory or was freed; only host memory can be registered", ptr)
	}
	a, err := rt.drv.Register(ptr, size, flag&mappedFlags != 0, int(c.dev.phys))
	if err != nil {
		e := fromDriver(api, "ptr", err)
		e.Text = fmt.Sprintf("%d bytes at %#x cannot be registered", size, ptr)
		return 0, e
	}
	if flag&abi.HostRegPinned != 0 && l.Place == driver.Host {
		rt.drv.Unregister(ptr) //nolint:errcheck // it was registered a moment ago
		return 0, refused(api, "ptr", "%#x is pinned already, by aclrtMallocHost; ACL_HOST_REG_PINNED is for pageable memory", ptr)
	}
	rt.registers(ptr, size)
	return a, nil
}

// HostGetDevicePointer is aclrtHostGetDevicePointer.
func (t *Thread) HostGetDevicePointer(pHost Addr, pDevice *Addr, flag uint32) *Error {
	const api = "aclrtHostGetDevicePointer"
	if _, err := t.checkHostGetDevicePointer(pHost, pDevice, flag); err != nil {
		return err
	}
	if !t.rt.prod.Register {
		return unsupported(api, "", "%s cannot register host memory", t.rt.prod.Name)
	}
	a, err := t.rt.drv.Mapped(pHost)
	if err != nil {
		e := fromDriver(api, "pHost", err)
		if e.Code == abi.ErrHostMemoryNotRegistered {
			e.Code = abi.ErrRTParamInvalid
			e.Text = fmt.Sprintf("%#x has no device address: it was not registered with ACL_HOST_REGISTER_MAPPED or ACL_HOST_REG_MAPPED", pHost)
		}
		return e
	}
	*pDevice = a
	return nil
}

// HostUnregister is aclrtHostUnregister.
func (t *Thread) HostUnregister(ptr Addr) *Error {
	const api = "aclrtHostUnregister"
	if _, err := t.checkHostUnregister(ptr); err != nil {
		return err
	}
	if !t.rt.prod.Register {
		return unsupported(api, "", "%s cannot register host memory", t.rt.prod.Name)
	}
	return t.gives(Resource{Kind: RegisteredMemory, Name: ptr}, func() *Error {
		if err := t.rt.drv.Unregister(ptr); err != nil {
			e := fromDriver(api, "ptr", err)
			e.Text = fmt.Sprintf("%#x is not the start of registered memory", ptr)
			return e.because(Gone, ptr)
		}
		t.rt.unregisters(ptr)
		return nil
	})
}

// hacTypes is how many kinds of device engine there are.
const hacTypes = 10

// HostMemMapCapabilities is aclrtHostMemMapCapabilities. All engines of a product that can register host memory reach
// it; UDMA and CCU are engines of 950 alone.
func (t *Thread) HostMemMapCapabilities(deviceID uint32, hacType abi.HacType, capabilities *abi.HostMemMapCapability) *Error {
	const api = "aclrtHostMemMapCapabilities"
	if capabilities == nil {
		return isNull(api, "capabilities")
	}
	if t.rt.device(int32(deviceID)) == nil {
		return t.noDevice(api, "deviceId", int64(deviceID))
	}
	if uint32(hacType) >= hacTypes {
		return refused(api, "hacType", "%d is not 0 to %d", uint32(hacType), hacTypes-1)
	}
	if t.current() == nil {
		return noContext(api)
	}
	has := t.rt.prod.Register
	if hacType == abi.HacTypeUdma || hacType == abi.HacTypeCcu {
		has = has && t.rt.prod.Name == "950"
	}
	*capabilities = abi.HostMemMapNotSupported
	if has {
		*capabilities = abi.HostMemMapSupported
	}
	return nil
}
