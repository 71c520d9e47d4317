package memory

import (
	"fmt"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/share"
)

// Physical is memory without an address, of a device or of the host. It is freed when the program has neither a handle
// nor a mapping of it.
type Physical struct {
	rt     *core.Runtime   // immutable
	memory driver.Memory   // immutable
	kind   abi.MemLocation // immutable; as the program asked for, or the place in the exporting process
	attr   abi.MemAttr     // immutable; the attribute for reading back
	asked  uint64          // immutable; bytes that the program asked for
	size   uint64          // immutable; bytes of the memory
	others bool            // immutable; imported from another process
	from   imported        // immutable; its origin, if that is on this machine

	handle   core.Handle      // guarded by vmm.mu; 0: only mappings are left
	refs     int              // guarded by vmm.mu; number of times the handle must be freed
	maps     int              // guarded by vmm.mu; number of mappings
	exported bool             // guarded by vmm.mu
	key      share.Key        // guarded by vmm.mu; if exported
	list     WhiteList        // guarded by vmm.mu; if exported
	far      driver.FarExport // guarded by vmm.mu; if exported to other servers, else nil
	link     abi.MemLinkType  // guarded by vmm.mu; advice that changes nothing here
}

// memAttrs are the known attributes of physical memory.
var memAttrs = []abi.MemAttr{2, 3, 4, 5, 6, 7, 10, 12, 13, 14, 15, 16, 17}

// isDDR reports whether an attribute is one of DDR memory, which is the host's.
func isDDR(a abi.MemAttr) bool {
	return a == abi.MemAttrDDRMemHuge || a == abi.MemAttrDDRMemNormal || a == abi.MemAttrDDRMemP2PHuge ||
		a == abi.MemAttrDDRMemP2PNormal
}

// placed refuses places in which memory cannot be created.
func placed(_ *core.Thread, api string, prop *abi.PhysicalMemProp) *core.Error {
	if prop.Location.Type == abi.MemLocationTypeUnregistered || prop.Location.Type == abi.MemLocationTypeManaged {
		return core.Invalid(api, "prop", "location.type %v is not HOST, DEVICE or HOST_NUMA", prop.Location.Type)
	}
	return nil
}

// attrFits checks the attribute in properties of memory.
func attrFits(_ *core.Thread, api string, prop *abi.PhysicalMemProp) *core.Error {
	if prop.Location.Type == abi.MemLocationTypeDevice && isDDR(prop.MemAttr) {
		return core.Invalid(api, "prop", "memAttr %v is memory of the host, but location.type is DEVICE", prop.MemAttr)
	}
	if !slices.Contains(memAttrs, prop.MemAttr) {
		return core.Invalid(api, "prop", "memAttr %d is not one of 2 to 7, 10, 12 to 17", prop.MemAttr)
	}
	return nil
}

// pageOf returns the kind of page of an attribute.
func pageOf(a abi.MemAttr) driver.Page {
	switch a {
	case abi.MemAttrDDRMemNormal, abi.MemAttrHBMMemNormal, abi.MemAttrDDRMemP2PNormal, abi.MemAttrMemNormal,
		abi.MemAttrMemP2PNormal:
		return driver.PageNormal
	case abi.MemAttrHBMMemHuge1G, abi.MemAttrMemHuge1G, abi.MemAttrMemP2PHuge1G:
		return driver.Page1G
	}
	return driver.PageHugeOnly
}

// readBack returns the attribute that a program reads for memory created with a; 0 if that is not valid.
func readBack(rt *core.Runtime, location abi.MemLocationType, a abi.MemAttr) abi.MemAttr {
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
	case rt.Product.DDR:
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

// MallocPhysical is aclrtMallocPhysical. A size that is not a multiple of the granularity is rounded up; the memory can
// be mapped with either size.
func MallocPhysical(t *core.Thread, handle *core.Handle, size uint64, prop *abi.PhysicalMemProp,
	flags uint64) *core.Error {
	const api = "aclrtMallocPhysical"
	if err := checkMallocPhysical(t, handle, size, prop, flags); err != nil {
		return err
	}
	d, err := placeOf(t, api, prop)
	if err != nil {
		return err
	}
	if prop.Location.Type == abi.MemLocationTypeHostNuma && t.Current() == nil {
		return core.NoCurrentContext(api)
	}
	page := pageOf(prop.MemAttr)
	if page == driver.Page1G && !t.Runtime.Product.Modern {
		return core.Unsupported(api, "prop", "memAttr %v: %s has no pages of 1 GiB; 950, A3 and A2 have", prop.MemAttr,
			t.Runtime.Product.Name).NotRecorded()
	}
	m, err := mapper(t, api)
	if err != nil {
		return err
	}
	if uint32(prop.Location.Type) > uint32(abi.MemLocationTypeHostNuma) {
		return core.Refused(api, "prop", "location.type %d is not HOST, DEVICE or HOST_NUMA", prop.Location.Type)
	}
	where := driver.OnHost
	if d != nil {
		where = int(d.Phys)
	}
	g := m.Granularity(where, page)
	n := (size + g - 1) &^ (g - 1)
	if n < size {
		return core.Fail(api, abi.ErrRTMemoryAllocation, "size", "%d bytes wanted, more than there are addresses", size)
	}
	memory, err := create(t, api, m, d, n, page)
	if err != nil {
		return err
	}
	p := &Physical{rt: t.Runtime, memory: memory, kind: prop.Location,
		attr: readBack(t.Runtime, prop.Location.Type, prop.MemAttr), asked: size, size: n}
	return handOut(t, api, handle, p)
}

// placeOf returns the device in properties of memory; nil for the host.
func placeOf(t *core.Thread, api string, prop *abi.PhysicalMemProp) (*core.Device, *core.Error) {
	if prop.Location.Type != abi.MemLocationTypeDevice {
		return nil, nil
	}
	d := t.Runtime.ByNumber(prop.Location.ID)
	if d == nil {
		return nil, t.NoDevice(api, "prop", int64(prop.Location.ID))
	}
	return d, nil
}

// create creates memory. A device has memory while it is open, that is, set in this process. If there is too little,
// create empties the pools first.
func create(t *core.Thread, api string, m driver.Mapper, d *core.Device, n uint64, page driver.Page) (driver.Memory,
	*core.Error) {
	if d == nil {
		memory, err := m.Create(driver.OnHost, n, page)
		return memory, notCreated(t, api, d, n, err)
	}
	make := func() (memory driver.Memory, err error) {
		if !d.StayOpen(nil, func() { memory, err = m.Create(int(d.Phys), n, page) }) {
			err = driver.ErrClosed
		}
		return memory, err
	}
	memory, err := make()
	if err != nil && core.CallCode(err) == abi.ErrRTMemoryAllocation {
		memoryOf(t.Runtime).pools.emptyAll(d)
		memory, err = make()
	}
	return memory, notCreated(t, api, d, n, err)
}

// notCreated converts the error of create; nil if err is nil.
func notCreated(t *core.Thread, api string, d *core.Device, n uint64, err error) *core.Error {
	if err == nil {
		return nil
	}
	e := core.FromDriver(api, "size", err)
	switch e.Code {
	case abi.ErrRTContextNull:
		e.Code, e.Arg = abi.ErrRTDevSetupError, "prop"
		e.Text = fmt.Sprintf("device %d is not set in this process; call aclrtSetDevice first", d.User)
	case abi.ErrRTMemoryAllocation:
		e.Text = byteCount(n) + " wanted"
		if d == nil {
			break
		}
		if dev := d.Opened.Load(); dev != nil {
			free, total := dev.Memory()
			e.Text = fmt.Sprintf("%s wanted, %s on device %d", byteCount(n), freeOf(free, total), d.User)
		}
	}
	return e
}

// handOut returns a first handle of p to the program, or another handle of the same memory if a thread has imported it
// first.
func handOut(t *core.Thread, api string, handle *core.Handle, p *Physical) *core.Error {
	var h core.Handle
	again := false
	v := &memoryOf(t.Runtime).vmm
	core.Locked(&v.mu, func() {
		if old := v.imports[p.from]; old != nil && old.refs > 0 {
			p.freeUnused() //nolint:errcheck // nothing has it
			p, again = old, true
		}
		if h = p.retain(); h == 0 {
			p.freeUnused() //nolint:errcheck // its device may have been closed
			return
		}
		if p.from != (imported{}) {
			if v.imports == nil {
				v.imports = map[imported]*Physical{}
			}
			v.imports[p.from] = p
		}
	})
	if h == 0 {
		return core.Fail(api, abi.ErrRTMemoryAllocation, "",
			"the process has as many memories as there are handles; free some")
	}
	*handle = h
	t.Acquired(p.counted(h, again))
	return nil
}

// handOutAgain returns the handle of memory that the program has imported before; false if there is none.
func (v *vmm) handOutAgain(t *core.Thread, handle *core.Handle, from imported) bool {
	var h core.Handle
	var p *Physical
	core.Locked(&v.mu, func() {
		if p = v.imports[from]; p != nil && p.refs > 0 {
			h = p.retain()
		}
	})
	if h == 0 {
		return false
	}
	*handle = h
	t.Acquired(p.counted(h, true))
	return true
}

// counted describes a reference to p to the checker; more means that there are others.
func (p *Physical) counted(h core.Handle, more bool) core.Resource {
	return core.Resource{Kind: core.PhysicalMemory, Name: uintptr(h), Size: p.size, Device: p.resource(0).Device,
		Counts: more}
}

// retain counts another reference to p, and returns its handle; 0 if no handle is left. vmm.mu is held.
func (p *Physical) retain() core.Handle {
	if p.handle == 0 {
		p.handle = memoryOf(p.rt).vmm.memories.Add(p)
	}
	if p.handle != 0 {
		p.refs++
	}
	return p.handle
}

// freeUnused frees the memory if no handle and no mapping refers to it. vmm.mu is held.
func (p *Physical) freeUnused() error {
	if p.refs > 0 || p.maps > 0 {
		return nil
	}
	p.withdraw()
	return p.memory.Free()
}

// physical returns the memory of a handle. vmm.mu is held.
func physical(t *core.Thread, api string, h core.Handle) (*Physical, *core.Error) {
	if p := memoryOf(t.Runtime).vmm.memories.Get(h); p != nil {
		return p, nil
	}
	return nil, noPhysical(api, h)
}

// PhysicalSize returns the size of the memory of a handle, 0 if there is none: an importer has no other way to learn
// it.
func PhysicalSize(t *core.Thread, handle core.Handle) uint64 {
	v := &memoryOf(t.Runtime).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.memories.Get(handle)
	if p == nil {
		return 0
	}
	return p.size
}

func noPhysical(api string, h core.Handle) *core.Error {
	return core.Refused(api, "handle", "%#x is no handle of memory, or was freed", uintptr(h)).Because(core.Gone,
		uintptr(h))
}

// FreePhysical is aclrtFreePhysical. Memory that is mapped stays until it is unmapped.
func FreePhysical(t *core.Thread, handle core.Handle) *core.Error {
	const api = "aclrtFreePhysical"
	if err := checkFreePhysical(t, handle); err != nil {
		return err
	}
	if _, err := mapper(t, api); err != nil {
		return err
	}
	v := &memoryOf(t.Runtime).vmm
	last := false
	v.mu.Lock()
	p, err := physical(t, api, handle)
	if err == nil && p.refs == 0 {
		err = noPhysical(api, handle) // another thread has freed the last reference
	}
	if err == nil {
		p.refs--
		last = p.refs == 0
	}
	v.mu.Unlock()
	if err != nil {
		return err
	}
	var lost *core.Error
	err = t.Releasing(p.counted(handle, !last), func() *core.Error {
		if !last {
			return nil
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if p.refs == 0 && p.handle == handle { // else it was retained since
			v.memories.Remove(handle)
			p.handle = 0
			if v.imports[p.from] == p {
				delete(v.imports, p.from)
			}
			lost = farLost(api, p.freeUnused()) // it is freed on this server in any case
		}
		return nil
	})
	if err != nil {
		return err
	}
	return lost
}

// MemRetainAllocationHandle is aclrtMemRetainAllocationHandle.
func MemRetainAllocationHandle(t *core.Thread, virPtr core.Addr, handle *core.Handle) *core.Error {
	const api = "aclrtMemRetainAllocationHandle"
	if err := checkMemRetainAllocationHandle(t, virPtr, handle); err != nil {
		return err
	}
	if _, err := mapper(t, api); err != nil {
		return err
	}
	p, h, more, err := memoryOf(t.Runtime).vmm.retainAt(api, virPtr)
	if err != nil {
		return err
	}
	*handle = h
	t.Acquired(p.counted(h, more))
	return nil
}

// retainAt counts another reference to the memory mapped at addr; more reports whether there were others.
func (v *vmm) retainAt(api string, addr core.Addr) (p *Physical, h core.Handle, more bool, err *core.Error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.mapping(addr)
	if x == nil {
		return nil, 0, false, notMapped(api, addr, nil)
	}
	p = x.memory
	more = p.refs > 0
	if h = p.retain(); h == 0 {
		return nil, 0, false, core.Fail(api, abi.ErrRTMemoryAllocation, "",
			"the process has as many memories as there are handles; free some")
	}
	return p, h, more, nil
}

// MemGetAllocationPropertiesFromHandle is aclrtMemGetAllocationPropertiesFromHandle.
func MemGetAllocationPropertiesFromHandle(t *core.Thread, handle core.Handle, prop *abi.PhysicalMemProp) *core.Error {
	const api = "aclrtMemGetAllocationPropertiesFromHandle"
	if err := checkMemGetAllocationPropertiesFromHandle(t, handle, prop); err != nil {
		return err
	}
	if _, err := mapper(t, api); err != nil {
		return err
	}
	is, err := core.Under(&memoryOf(t.Runtime).vmm.mu, func() (abi.PhysicalMemProp, *core.Error) {
		p, err := physical(t, api, handle)
		if err != nil {
			return abi.PhysicalMemProp{}, err
		}
		is := abi.PhysicalMemProp{AllocationType: abi.MemAllocationTypePinned, MemAttr: p.attr, Location: p.kind}
		if d := p.memory.Device(); d != driver.OnHost {
			is.Location.ID = uint32(d) // the driver's number
		}
		return is, nil
	})
	if err != nil {
		return err
	}
	prop.HandleType, prop.AllocationType, prop.Location, prop.Reserve = is.HandleType, is.AllocationType, is.Location, 0
	if is.MemAttr == 0 {
		return core.Invalid(api, "handle",
			"no memAttr says what this memory is: its pages or its kind do not exist where it is")
	}
	prop.MemAttr = is.MemAttr
	return nil
}

// MemGetAllocationGranularity is aclrtMemGetAllocationGranularity. The smallest multiple is the recommended one.
func MemGetAllocationGranularity(t *core.Thread, prop *abi.PhysicalMemProp, option abi.MemGranularityOptions,
	granularity *uint64) *core.Error {
	const api = "aclrtMemGetAllocationGranularity"
	if err := checkMemGetAllocationGranularity(t, prop, option, granularity); err != nil {
		return err
	}
	if err := attrFits(t, api, prop); err != nil {
		return err
	}
	d, err := placeOf(t, api, prop)
	if err != nil {
		return err
	}
	m, err := mapper(t, api)
	if err != nil {
		return err
	}
	where := driver.OnHost
	switch prop.Location.Type {
	case abi.MemLocationTypeDevice:
		where = int(d.Phys)
	case abi.MemLocationTypeHost, abi.MemLocationTypeHostNuma:
	default:
		return core.Refused(api, "prop", "location.type %d is not HOST, DEVICE or HOST_NUMA", prop.Location.Type)
	}
	if option != abi.MemAllocGranularityMinimum && option != abi.MemAllocGranularityRecommended {
		return core.Refused(api, "option", "%d is neither MINIMUM (0) nor RECOMMENDED (1)", option)
	}
	page := pageOf(prop.MemAttr)
	if page == driver.Page1G && !t.Runtime.Product.Modern {
		return core.Refused(api, "prop", "memAttr %v: %s has no pages of 1 GiB; 950, A3 and A2 have", prop.MemAttr,
			t.Runtime.Product.Name)
	}
	*granularity = m.Granularity(where, page)
	return nil
}

// MemMapSetLink is aclrtMemMapSetLink. The choice is only stored: all links are the same here.
func MemMapSetLink(t *core.Thread, handle core.Handle, adviceLink abi.MemLinkType) *core.Error {
	const api = "aclrtMemMapSetLink"
	if err := checkMemMapSetLink(t, handle, adviceLink); err != nil {
		return err
	}
	if adviceLink < abi.MemAccessLinkSio || adviceLink > abi.MemAccessUbMultiPortPath {
		return core.Refused(api, "adviceLink", "%d is not 0 to 3", adviceLink)
	}
	name := t.Runtime.Product.Name
	if name != "A3" && name != "950" {
		return core.Unsupported(api, "", "%s has one way between devices; A3 and 950 have several", name).NotRecorded()
	}
	if _, err := mapper(t, api); err != nil {
		return err
	}
	if ub := adviceLink >= abi.MemAccessUbOnePortPath; ub != (name == "950") {
		return core.Fail(api, abi.ErrRTLinkTypeNotSupported, "adviceLink",
			"%v: the A3 has SIO (0) and HCCS (1), the 950 UB with one port (2) and several (3)", adviceLink).
			NotRecorded()
	}
	v := &memoryOf(t.Runtime).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := physical(t, api, handle)
	if err == nil {
		p.link = adviceLink
	}
	return err
}
