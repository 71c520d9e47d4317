package core

import (
	"fmt"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/share"
)

// Physical is memory without an address, of a device or of the host. It goes when the program has neither a handle nor a mapping of it.
type Physical struct {
	rt     *Runtime        // immutable
	memory driver.Memory   // immutable
	kind   abi.MemLocation // immutable; as the program asked for it, or where the exporting process has it
	attr   abi.MemAttr     // immutable; as it is read back
	asked  uint64          // immutable; bytes, by the program
	size   uint64          // immutable; bytes there are
	others bool            // immutable; another process's, imported

	handle   Handle          // guarded by vmm.mu; 0: there is none, only mappings
	refs     int             // guarded by vmm.mu; how often the handle is to be freed
	maps     int             // guarded by vmm.mu; mappings
	exported bool            // guarded by vmm.mu
	key      share.Key       // guarded by vmm.mu; if exported
	list     whiteList       // guarded by vmm.mu; if exported
	link     abi.MemLinkType // guarded by vmm.mu; advice that changes nothing here
}

// memAttrs are the attributes of physical memory that are known.
var memAttrs = []abi.MemAttr{2, 3, 4, 5, 6, 7, 10, 12, 13, 14, 15, 16, 17}

// isDDR tells whether an attribute is one of DDR memory, which is the host's.
func isDDR(a abi.MemAttr) bool {
	return a == abi.MemAttrDDRMemHuge || a == abi.MemAttrDDRMemNormal || a == abi.MemAttrDDRMemP2PHuge || a == abi.MemAttrDDRMemP2PNormal
}

// checkAttr is what calls with properties of memory check of the attribute.
func checkAttr(api string, prop *abi.PhysicalMemProp) *Error {
	if prop.Location.Type == abi.MemLocationTypeDevice && isDDR(prop.MemAttr) {
		return invalid(api, "prop", "memAttr %v is memory of the host, but location.type is DEVICE", prop.MemAttr)
	}
	if !slices.Contains(memAttrs, prop.MemAttr) {
		return invalid(api, "prop", "memAttr %d is not one of 2 to 7, 10, 12 to 17", prop.MemAttr)
	}
	return nil
}

// pageOf is the kind of page of an attribute.
func pageOf(a abi.MemAttr) driver.Page {
	switch a {
	case abi.MemAttrDDRMemNormal, abi.MemAttrHBMMemNormal, abi.MemAttrDDRMemP2PNormal, abi.MemAttrMemNormal, abi.MemAttrMemP2PNormal:
		return driver.PageNormal
	case abi.MemAttrHBMMemHuge1G, abi.MemAttrMemHuge1G, abi.MemAttrMemP2PHuge1G:
		return driver.Page1G
	}
	return driver.PageHugeOnly
}

// readBack is the attribute that a program reads of memory which it asked for with another one; 0 if there is none for it.
func (rt *Runtime) readBack(location abi.MemLocationType, a abi.MemAttr) abi.MemAttr {
	p2p := a == abi.MemAttrDDRMemP2PHuge || a == abi.MemAttrDDRMemP2PNormal || a >= abi.MemAttrMemP2PNormal
	var list [3]abi.MemAttr // normal, huge, 1 GiB
	switch {
	case location != abi.MemLocationTypeDevice && (a == abi.MemAttrHBMMemHuge || a == abi.MemAttrHBMMemNormal):
		return 0 // the host has no HBM
	case location != abi.MemLocationTypeDevice && p2p:
		list = [3]abi.MemAttr{abi.MemAttrMemP2PNormal, abi.MemAttrMemP2PHuge, 0}
	case location != abi.MemLocationTypeDevice:
		list = [3]abi.MemAttr{abi.MemAttrMemNormal, abi.MemAttrMemHuge, 0}
	case p2p:
		list = [3]abi.MemAttr{abi.MemAttrMemP2PNormal, abi.MemAttrMemP2PHuge, abi.MemAttrMemP2PHuge1G}
	case rt.prod.DDR:
		list = [3]abi.MemAttr{abi.MemAttrMemNormal, abi.MemAttrMemHuge, 0}
	default:
		list = [3]abi.MemAttr{abi.MemAttrHBMMemNormal, abi.MemAttrHBMMemHuge, abi.MemAttrHBMMemHuge1G}
	}
	switch pageOf(a) {
	case driver.PageNormal:
		return list[0]
	case driver.Page1G:
		return list[2]
	}
	return list[1]
}

// MallocPhysical is aclrtMallocPhysical. A size that is no multiple of the granularity is rounded up; it is mapped by either size.
func (t *Thread) MallocPhysical(handle *Handle, size uint64, prop *abi.PhysicalMemProp, flags uint64) *Error {
	const api = "aclrtMallocPhysical"
	switch {
	case handle == nil:
		return isNull(api, "handle")
	case prop == nil:
		return isNull(api, "prop")
	case size == 0:
		return invalid(api, "size", "is 0")
	case flags != 0:
		return invalid(api, "flags", "%#x: is reserved and must be 0", flags)
	case prop.HandleType != abi.MemHandleTypeNone:
		return invalid(api, "prop", "handleType %d is not ACL_MEM_HANDLE_TYPE_NONE (0)", prop.HandleType)
	case prop.AllocationType != abi.MemAllocationTypePinned:
		return invalid(api, "prop", "allocationType %d is not ACL_MEM_ALLOCATION_TYPE_PINNED (0)", prop.AllocationType)
	case prop.Location.Type == abi.MemLocationTypeUnregistered || prop.Location.Type == abi.MemLocationTypeManaged:
		return invalid(api, "prop", "location.type %v is not HOST, DEVICE or HOST_NUMA", prop.Location.Type)
	}
	if err := checkAttr(api, prop); err != nil {
		return err
	}
	d, err := t.placeOf(api, prop)
	if err != nil {
		return err
	}
	if prop.Location.Type == abi.MemLocationTypeHostNuma && t.current() == nil {
		return noContext(api)
	}
	page := pageOf(prop.MemAttr)
	if page == driver.Page1G && !t.rt.prod.Modern {
		return unsupported(api, "prop", "memAttr %v: %s has no pages of 1 GiB; 950, A3 and A2 have", prop.MemAttr, t.rt.prod.Name).quiet()
	}
	m, err := t.mapper(api)
	if err != nil {
		return err
	}
	if uint32(prop.Location.Type) > uint32(abi.MemLocationTypeHostNuma) {
		return refused(api, "prop", "location.type %d is not HOST, DEVICE or HOST_NUMA", prop.Location.Type)
	}
	where := driver.OnHost
	if d != nil {
		where = int(d.phys)
	}
	g := m.Granularity(where, page)
	n := (size + g - 1) &^ (g - 1)
	if n < size {
		return fail(api, abi.ErrRTMemoryAllocation, "size", "%d bytes wanted, more than there are addresses", size)
	}
	memory, err := t.create(api, m, d, n, page)
	if err != nil {
		return err
	}
	p := &Physical{rt: t.rt, memory: memory, kind: prop.Location, attr: t.rt.readBack(prop.Location.Type, prop.MemAttr), asked: size, size: n}
	return t.handOut(api, handle, p)
}

// placeOf is the device that properties of memory name; nil for the host.
func (t *Thread) placeOf(api string, prop *abi.PhysicalMemProp) (*Device, *Error) {
	if prop.Location.Type != abi.MemLocationTypeDevice {
		return nil, nil
	}
	d := t.rt.byNumber(prop.Location.ID)
	if d == nil {
		return nil, t.noDevice(api, "prop", int64(prop.Location.ID))
	}
	return d, nil
}

// create makes memory. A device has memory while it is open, that is, set in this process. If there is too little, pools are emptied first.
func (t *Thread) create(api string, m driver.Mapper, d *Device, n uint64, page driver.Page) (driver.Memory, *Error) {
	if d == nil {
		memory, err := m.Create(driver.OnHost, n, page)
		return memory, t.notCreated(api, d, n, err)
	}
	make := func() (memory driver.Memory, err error) {
		if !d.stayOpen(nil, func() { memory, err = m.Create(int(d.phys), n, page) }) {
			err = driver.ErrClosed
		}
		return memory, err
	}
	memory, err := make()
	if err != nil && callCode(err) == abi.ErrRTMemoryAllocation {
		memoryOf(t.rt).pools.emptyAll(d)
		memory, err = make()
	}
	return memory, t.notCreated(api, d, n, err)
}

// notCreated says why there is no memory; nil if there is.
func (t *Thread) notCreated(api string, d *Device, n uint64, err error) *Error {
	if err == nil {
		return nil
	}
	e := fromDriver(api, "size", err)
	switch e.Code {
	case abi.ErrRTContextNull:
		e.Code, e.Arg = abi.ErrRTDevSetupError, "prop"
		e.Text = fmt.Sprintf("device %d is not set in this process; call aclrtSetDevice first", d.user)
	case abi.ErrRTMemoryAllocation:
		e.Text = byteCount(n) + " wanted"
		if d == nil {
			break
		}
		if dev := d.dev.Load(); dev != nil {
			free, total := dev.Memory()
			e.Text = fmt.Sprintf("%s wanted, device %d has %s of %s left", byteCount(n), d.user, byteCount(free), byteCount(total))
		}
	}
	return e
}

// handOut gives the program a first handle of p.
func (t *Thread) handOut(api string, handle *Handle, p *Physical) *Error {
	var h Handle
	locked(&memoryOf(t.rt).vmm.mu, func() {
		if h = p.retain(); h == 0 {
			p.settle()
		}
	})
	if h == 0 {
		return fail(api, abi.ErrRTMemoryAllocation, "", "the process has as many memories as there are handles; free some")
	}
	*handle = h
	t.given(p.counted(h, false))
	return nil
}

// counted is what a watcher is told of a reference to p; more if there are others.
func (p *Physical) counted(h Handle, more bool) Resource {
	return Resource{Kind: PhysicalMemory, Name: uintptr(h), Size: p.size, Device: p.resource(0).Device, Counts: more}
}

// retain counts one more reference to p, and returns its handle; 0 if there is none left. vmm.mu is held.
func (p *Physical) retain() Handle {
	if p.handle == 0 {
		p.handle = memoryOf(p.rt).vmm.memories.add(p)
	}
	if p.handle != 0 {
		p.refs++
	}
	return p.handle
}

// settle gives the memory back if nobody has it any more. vmm.mu is held.
func (p *Physical) settle() {
	if p.refs > 0 || p.maps > 0 {
		return
	}
	p.withdraw()
	p.memory.Free() //nolint:errcheck // its device may have been closed
}

// physical finds the memory a handle names. vmm.mu is held.
func (t *Thread) physical(api string, h Handle) (*Physical, *Error) {
	if p := memoryOf(t.rt).vmm.memories.get(h); p != nil {
		return p, nil
	}
	return nil, noPhysical(api, h)
}

// PhysicalSize is how many bytes are mapped of the memory that a handle names, 0 if it names none: an importer has no other way to know.
func (t *Thread) PhysicalSize(handle Handle) uint64 {
	v := &memoryOf(t.rt).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.memories.get(handle)
	if p == nil {
		return 0
	}
	return p.size
}

func noPhysical(api string, h Handle) *Error {
	return refused(api, "handle", "%#x is no handle of memory, or was freed", uintptr(h)).because(Gone, uintptr(h))
}

// FreePhysical is aclrtFreePhysical. Memory that is mapped stays until it is unmapped.
func (t *Thread) FreePhysical(handle Handle) *Error {
	const api = "aclrtFreePhysical"
	if err := t.checkFreePhysical(handle); err != nil {
		return err
	}
	if _, err := t.mapper(api); err != nil {
		return err
	}
	v := &memoryOf(t.rt).vmm
	last := false
	v.mu.Lock()
	p, err := t.physical(api, handle)
	if err == nil && p.refs == 0 {
		err = noPhysical(api, handle) // another thread frees it for the last time
	}
	if err == nil {
		p.refs--
		last = p.refs == 0
	}
	v.mu.Unlock()
	if err != nil {
		return err
	}
	return t.gives(p.counted(handle, !last), func() *Error {
		if !last {
			return nil
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if p.refs == 0 && p.handle == handle { // else it was retained meanwhile
			v.memories.remove(handle)
			p.handle = 0
			p.settle()
		}
		return nil
	})
}

// MemRetainAllocationHandle is aclrtMemRetainAllocationHandle.
func (t *Thread) MemRetainAllocationHandle(virPtr Addr, handle *Handle) *Error {
	const api = "aclrtMemRetainAllocationHandle"
	if err := t.checkMemRetainAllocationHandle(virPtr, handle); err != nil {
		return err
	}
	if _, err := t.mapper(api); err != nil {
		return err
	}
	p, h, more, err := memoryOf(t.rt).vmm.retainAt(api, virPtr)
	if err != nil {
		return err
	}
	*handle = h
	t.given(p.counted(h, more))
	return nil
}

// retainAt counts one more reference to what is mapped at addr: more tells whether there were others.
func (v *vmm) retainAt(api string, addr Addr) (p *Physical, h Handle, more bool, err *Error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.mapping(addr)
	if x == nil {
		return nil, 0, false, notMapped(api, addr, nil)
	}
	p = x.memory
	more = p.refs > 0
	if h = p.retain(); h == 0 {
		return nil, 0, false, fail(api, abi.ErrRTMemoryAllocation, "", "the process has as many memories as there are handles; free some")
	}
	return p, h, more, nil
}

// MemGetAllocationPropertiesFromHandle is aclrtMemGetAllocationPropertiesFromHandle.
func (t *Thread) MemGetAllocationPropertiesFromHandle(handle Handle, prop *abi.PhysicalMemProp) *Error {
	const api = "aclrtMemGetAllocationPropertiesFromHandle"
	if err := t.checkMemGetAllocationPropertiesFromHandle(handle, prop); err != nil {
		return err
	}
	if _, err := t.mapper(api); err != nil {
		return err
	}
	v := &memoryOf(t.rt).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := t.physical(api, handle)
	if err != nil {
		return err
	}
	prop.HandleType, prop.AllocationType = abi.MemHandleTypeNone, abi.MemAllocationTypePinned
	prop.Location = p.kind
	if d := p.memory.Device(); d != driver.OnHost {
		prop.Location.ID = uint32(d) // as the driver counts
	}
	prop.Reserve = 0
	if p.attr == 0 {
		return invalid(api, "handle", "no memAttr says what this memory is: its pages or its kind do not exist where it is")
	}
	prop.MemAttr = p.attr
	return nil
}

// MemGetAllocationGranularity is aclrtMemGetAllocationGranularity. The smallest multiple is the recommended one.
func (t *Thread) MemGetAllocationGranularity(prop *abi.PhysicalMemProp, option abi.MemGranularityOptions, granularity *uint64) *Error {
	const api = "aclrtMemGetAllocationGranularity"
	if err := t.checkMemGetAllocationGranularity(prop, option, granularity); err != nil {
		return err
	}
	if err := checkAttr(api, prop); err != nil {
		return err
	}
	d, err := t.placeOf(api, prop)
	if err != nil {
		return err
	}
	m, err := t.mapper(api)
	if err != nil {
		return err
	}
	where := driver.OnHost
	switch prop.Location.Type {
	case abi.MemLocationTypeDevice:
		where = int(d.phys)
	case abi.MemLocationTypeHost, abi.MemLocationTypeHostNuma:
	default:
		return refused(api, "prop", "location.type %d is not HOST, DEVICE or HOST_NUMA", prop.Location.Type)
	}
	if option != abi.MemAllocGranularityMinimum && option != abi.MemAllocGranularityRecommended {
		return refused(api, "option", "%d is neither MINIMUM (0) nor RECOMMENDED (1)", option)
	}
	page := pageOf(prop.MemAttr)
	if page == driver.Page1G && !t.rt.prod.Modern {
		return refused(api, "prop", "memAttr %v: %s has no pages of 1 GiB; 950, A3 and A2 have", prop.MemAttr, t.rt.prod.Name)
	}
	*granularity = m.Granularity(where, page)
	return nil
}

// MemMapSetLink is aclrtMemMapSetLink. The choice is remembered; all ways to memory are the same here.
func (t *Thread) MemMapSetLink(handle Handle, adviceLink abi.MemLinkType) *Error {
	const api = "aclrtMemMapSetLink"
	if err := t.checkMemMapSetLink(handle, adviceLink); err != nil {
		return err
	}
	if adviceLink < abi.MemAccessLinkSio || adviceLink > abi.MemAccessUbMultiPortPath {
		return refused(api, "adviceLink", "%d is not 0 to 3", adviceLink)
	}
	name := t.rt.prod.Name
	if name != "A3" && name != "950" {
		return unsupported(api, "", "%s has one way between devices; A3 and 950 have several", name).quiet()
	}
	if _, err := t.mapper(api); err != nil {
		return err
	}
	if ub := adviceLink >= abi.MemAccessUbOnePortPath; ub != (name == "950") {
		return fail(api, abi.ErrRTLinkTypeNotSupported, "adviceLink", "%v: the A3 has SIO (0) and HCCS (1), the 950 UB with one port (2) and several (3)", adviceLink).quiet()
	}
	v := &memoryOf(t.rt).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := t.physical(api, handle)
	if err == nil {
		p.link = adviceLink
	}
	return err
}
