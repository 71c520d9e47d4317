package core

import (
	"errors"
	"fmt"
	"math/bits"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

const (
	granule   = 32      // sizes are rounded up to a multiple of it
	hugeAbove = 1 << 20 // HUGE_FIRST asks for huge pages for more than that
	otherBits = abi.MemTypeLowBandWidth | abi.MemTypeHighBandWidth | abi.MemAccessUserSpaceReadonly
)

// request is device memory that a call of the aclrtMalloc family wants.
type request struct {
	api   string
	asked uint64      // by the program
	size  uint64      // rounded
	page  driver.Page // what it is made of
	tries int         // how often the driver is asked
}

// Malloc is aclrtMalloc.
func (t *Thread) Malloc(devPtr *Addr, size uint64, policy abi.MemMallocPolicy) *Error {
	return t.malloc("aclrtMalloc", devPtr, size, policy, t.rt.prod.Padding)
}

// MallocAlign32 is aclrtMallocAlign32: aclrtMalloc without padding.
func (t *Thread) MallocAlign32(devPtr *Addr, size uint64, policy abi.MemMallocPolicy) *Error {
	return t.malloc("aclrtMallocAlign32", devPtr, size, policy, 0)
}

// MallocCached is aclrtMallocCached: aclrtMalloc that knows fewer policies. There is no cache to care about.
func (t *Thread) MallocCached(devPtr *Addr, size uint64, policy abi.MemMallocPolicy) *Error {
	switch policy {
	case abi.MemMallocHugeOnly, abi.MemMallocNormalOnly, abi.MemMallocHuge1GOnly:
	default:
		policy = abi.MemMallocHugeFirst
	}
	return t.malloc("aclrtMallocCached", devPtr, size, policy, t.rt.prod.Padding)
}

func (t *Thread) malloc(api string, devPtr *Addr, size uint64, policy abi.MemMallocPolicy, padding uint64) *Error {
	if devPtr == nil {
		return isNull(api, "devPtr")
	}
	if size == 0 {
		return invalid(api, "size", "is 0")
	}
	if is1G(policy) {
		padding = 0
	}
	rounded, ok := round(size, padding)
	if !ok {
		return invalid(api, "size", "%d bytes are too many to be rounded up: a size has 64 bits", size)
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if err := t.rt.checkPolicy(api, policy); err != nil {
		return err
	}
	page := t.rt.pageFor(policy, rounded)
	if isP2P(policy) {
		page = driver.PageNormal // here, unlike in aclrtMallocWithCfg, whatever the policy says of pages
	}
	// The second try is for memory pools, which are emptied first.
	return t.alloc(c, devPtr, request{api, size, rounded, page, 2})
}

// MallocWithCfg is aclrtMallocWithCfg. Bandwidth and access bits of the policy are accepted and change nothing: there
// is one kind of memory, and the host cannot write to it anyway.
func (t *Thread) MallocWithCfg(devPtr *Addr, size uint64, policy abi.MemMallocPolicy, cfg *abi.MallocConfig) *Error {
	return t.mallocWithCfg("aclrtMallocWithCfg", devPtr, size, policy, cfg)
}

// MallocForTaskScheduler is aclrtMallocForTaskScheduler. All device memory can be read by the task scheduler.
func (t *Thread) MallocForTaskScheduler(devPtr *Addr, size uint64, policy abi.MemMallocPolicy, cfg *abi.MallocConfig) *Error {
	return t.mallocWithCfg("aclrtMallocForTaskScheduler", devPtr, size, policy, cfg)
}

func (t *Thread) mallocWithCfg(api string, devPtr *Addr, size uint64, policy abi.MemMallocPolicy, cfg *abi.MallocConfig) *Error {
	if devPtr == nil {
		return isNull(api, "devPtr")
	}
	if cfg != nil && cfg.Attrs == 0 && cfg.NumAttrs != 0 {
		return invalid(api, "cfg", "attrs is NULL, but numAttrs is %d", cfg.NumAttrs)
	}
	if size == 0 {
		return invalid(api, "size", "is 0")
	}
	if cfg != nil && cfg.Attrs == 0 {
		return refused(api, "cfg", "has no attributes; pass NULL instead")
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if err := c.checkAttributes(api, cfg); err != nil {
		return err
	}
	policy &^= otherBits
	if err := t.rt.checkPolicy(api, policy); err != nil {
		return err
	}
	rounded, ok := round(size, 0)
	if !ok {
		return fail(api, abi.ErrRTMemoryAllocation, "size", "%d bytes wanted, more than there are addresses", size)
	}
	return t.alloc(c, devPtr, request{api, size, rounded, t.rt.pageFor(policy, rounded), 1})
}

// checkAttributes looks at the attributes of cfg: they must be known, and the last device id that of the context. A
// module id is accepted and not remembered.
func (c *Context) checkAttributes(api string, cfg *abi.MallocConfig) *Error {
	if cfg == nil {
		return nil
	}
	id := uint32(c.dev.user)
	for i := range cfg.NumAttrs {
		switch a := element[abi.MallocAttribute](cfg.Attrs, i); a.Attr {
		case abi.MemAttrRsv, abi.MemAttrModuleId:
		case abi.MemAttrDeviceId:
			id = *a.Value.DeviceID()
		default:
			return refused(api, "cfg", "attribute %d is %v; a module id (1) and a device id (2) are known here", i, a.Attr)
		}
	}
	if id != uint32(c.dev.user) {
		return refused(api, "cfg", "device id %d is not the current device, %d", id, c.dev.user)
	}
	return nil
}

// round adds padding to size and rounds the sum up; false if it overflows.
func round(size, padding uint64) (uint64, bool) {
	sum, carry := bits.Add64(size, padding+granule-1, 0)
	return sum &^ (granule - 1), carry == 0
}

// is1G tells whether a policy asks for pages of 1 GiB.
func is1G(p abi.MemMallocPolicy) bool {
	return p == abi.MemMallocHuge1GOnly || p == abi.MemMallocHuge1GOnlyP2P
}

// isP2P tells whether a policy asks for memory that peers can reach, but not for pages of 1 GiB.
func isP2P(p abi.MemMallocPolicy) bool {
	return p >= abi.MemMallocHugeFirstP2P && p <= abi.MemMallocNormalOnlyP2P
}

// checkPolicy refuses policies that the product or its form lacks.
func (rt *Runtime) checkPolicy(api string, p abi.MemMallocPolicy) *Error {
	if is1G(p) && !rt.prod.Modern && !(rt.open && p == abi.MemMallocHuge1GOnlyP2P) {
		return unsupported(api, "policy", "%v: %s has no pages of 1 GiB; 950, A3 and A2 have", p, rt.prod.Name)
	}
	if isP2P(p) && rt.open {
		return unsupported(api, "policy", "%v: a program on the device's own CPU (RC form) has no peers; take the policy without P2P", p)
	}
	return nil
}

// pageFor is the page kind of a policy for a rounded size; an unknown policy acts like HUGE_FIRST, and so does in RC
// form the 1 GiB policy for peers, which is not known there.
func (rt *Runtime) pageFor(p abi.MemMallocPolicy, size uint64) driver.Page {
	switch p {
	case abi.MemMallocHugeOnly, abi.MemMallocHugeOnlyP2P:
		return driver.PageHugeOnly
	case abi.MemMallocNormalOnly, abi.MemMallocNormalOnlyP2P:
		return driver.PageNormal
	case abi.MemMallocHuge1GOnly, abi.MemMallocHuge1GOnlyP2P:
		if !rt.open {
			return driver.Page1G
		}
	}
	if size > hugeAbove {
		return driver.PageHugeFirst
	}
	return driver.PageNormal
}

// alloc makes the allocation on the context's device and writes its address to p.
func (t *Thread) alloc(c *Context, p *Addr, r request) *Error {
	dev := c.dev.dev.Load()
	if dev == nil { // the device was reset meanwhile
		return noContext(r.api)
	}
	var err error
	for try := range r.tries {
		var a Addr
		if try > 0 {
			memoryOf(t.rt).pools.emptyAll(c.dev)
		}
		if a, err = dev.Alloc(r.size, r.page); err == nil {
			*p = a
			t.given(Resource{Kind: DeviceMemory, Name: a, Size: r.asked, Device: c.dev.user})
			return nil
		}
	}
	e := fromDriver(r.api, "size", err)
	switch {
	case errors.Is(err, driver.ErrNoMemory):
		free, total := dev.Memory()
		e.Text = fmt.Sprintf("%s wanted (%d when rounded up), device %d has %s of %s left", byteCount(r.asked), r.size, c.dev.user, byteCount(free), byteCount(total))
	case errors.Is(err, driver.ErrUnsupported):
		e.Arg = "policy"
	}
	return e
}

// byteCount writes n for people: the exact number, and MiB where that helps.
func byteCount(n uint64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%d bytes (%.1f MiB)", n, float64(n)/(1<<20))
}

// Free is aclrtFree.
func (t *Thread) Free(devPtr Addr) *Error {
	const api = "aclrtFree"
	if err := t.checkFree(devPtr); err != nil {
		return err
	}
	return t.free(api, "devPtr", devPtr)
}

// FreeWithDevSync is aclrtFreeWithDevSync.
func (t *Thread) FreeWithDevSync(devPtr Addr) *Error {
	const api = "aclrtFreeWithDevSync"
	c, err := t.checkFreeWithDevSync(devPtr)
	if err != nil {
		return err
	}
	if err := t.waits(api, nil, func(int64) *Error { return c.wait(api, waiting{}) }); err != nil {
		return err
	}
	return t.free(api, "devPtr", devPtr)
}

// free gives device memory back to the device it is on, which need not be the current one.
func (t *Thread) free(api, arg string, p Addr) *Error {
	rt := t.rt
	if b := memoryOf(rt).pools.find(p); b != nil {
		return t.gives(Resource{Kind: DeviceMemory, Name: p, Device: b.pool.dev.user}, func() *Error { return b.free(api, arg, p) })
	}
	if memoryOf(rt).vmm.mapping(p) != nil {
		return isMapped(api, arg, p)
	}
	l := rt.drv.Locate(p)
	switch l.Place {
	case driver.Host:
		return refused(api, arg, "%#x is pinned or registered host memory; aclrtFreeHost or aclrtHostUnregister gives it back", p).because(NotToFree, p)
	case driver.Pageable:
		return refused(api, arg, "%#x is no device memory", p).because(NotToFree, p)
	case driver.Nowhere:
		return refused(api, arg, "%#x is in no live allocation: it was freed already, or its device was reset", p).because(Gone, p)
	case driver.Managed:
		return t.freeManaged(api, arg, p, l)
	}
	if memoryOf(rt).ipc.imported(p) {
		return refused(api, arg, "%#x is memory of another process; aclrtIpcMemClose gives it back", p).because(NotToFree, p)
	}
	d := rt.byPhys(l.Device)
	if d == nil {
		return refused(api, arg, "%#x is memory of a device that is not visible", p)
	}
	dev := d.dev.Load()
	if dev == nil {
		return refused(api, arg, "%#x went with device %d, which was reset", p, d.user)
	}
	return t.gives(Resource{Kind: DeviceMemory, Name: p, Device: d.user}, func() *Error {
		err := rt.gaveBack(api, arg, p, dev.Free(p))
		if err == nil {
			memoryOf(rt).ipc.freed(rt, p)
		}
		return err
	})
}

// isMapped is the answer to who wants to free a mapping.
func isMapped(api, arg string, p Addr) *Error {
	return refused(api, arg, "%#x lies in a mapping of aclrtMapMem; aclrtUnmapMem takes that away, and aclrtFreePhysical gives the memory back", p).because(NotToFree, p)
}

// gaveBack says how giving memory back ended: who passed a pointer into an allocation gets to know where it starts.
func (rt *Runtime) gaveBack(api, arg string, p Addr, err error) *Error {
	if err == nil {
		return nil
	}
	e := fromDriver(api, arg, err)
	if al := rt.drv.Describe(p); al.Size > 0 && al.Start != p {
		e.Text = fmt.Sprintf("%#x lies %d bytes inside the %d bytes at %#x", p, p-al.Start, al.Size, al.Start)
	} else {
		e.Text = fmt.Sprintf("%#x cannot be given back here", p)
	}
	return e.because(Gone, p)
}
