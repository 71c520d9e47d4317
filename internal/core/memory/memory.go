package memory

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

const (
	granule   = 32      // sizes are rounded up to a multiple of it
	hugeAbove = 1 << 20 // HUGE_FIRST asks for huge pages for larger sizes
	otherBits = abi.MemTypeLowBandWidth | abi.MemTypeHighBandWidth | abi.MemAccessUserSpaceReadonly
)

// request is a request for device memory by a call of the aclrtMalloc family.
type request struct {
	api   string
	asked uint64      // by the program
	size  uint64      // rounded
	page  driver.Page // kind of page
	tries int         // number of tries
}

// Malloc is aclrtMalloc.
func Malloc(t *core.Thread, devPtr *core.Addr, size uint64, policy abi.MemMallocPolicy) *core.Error {
	if err := checkMalloc(t, devPtr, size, policy); err != nil {
		return err
	}
	return malloc(t, "aclrtMalloc", devPtr, size, policy, t.Runtime.Product.Padding)
}

// MallocAlign32 is aclrtMallocAlign32: aclrtMalloc without padding.
func MallocAlign32(t *core.Thread, devPtr *core.Addr, size uint64, policy abi.MemMallocPolicy) *core.Error {
	if err := checkMallocAlign32(t, devPtr, size, policy); err != nil {
		return err
	}
	return malloc(t, "aclrtMallocAlign32", devPtr, size, policy, 0)
}

// MallocCached is aclrtMallocCached: aclrtMalloc that knows fewer policies. There is no cache.
func MallocCached(t *core.Thread, devPtr *core.Addr, size uint64, policy abi.MemMallocPolicy) *core.Error {
	if err := checkMallocCached(t, devPtr, size, policy); err != nil {
		return err
	}
	switch policy {
	case abi.MemMallocHugeOnly, abi.MemMallocNormalOnly, abi.MemMallocHuge1GOnly:
	default:
		policy = abi.MemMallocHugeFirst
	}
	return malloc(t, "aclrtMallocCached", devPtr, size, policy, t.Runtime.Product.Padding)
}

// malloc allocates for a call whose arguments were checked.
func malloc(t *core.Thread, api string, devPtr *core.Addr, size uint64, policy abi.MemMallocPolicy,
	padding uint64) *core.Error {
	if is1G(policy) {
		padding = 0
	}
	rounded, ok := Round(size, padding)
	if !ok {
		return core.Invalid(api, "size", "%d bytes are too many to be rounded up: a size has 64 bits", size)
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	if err := checkPolicy(t.Runtime, api, policy); err != nil {
		return err
	}
	page := pageFor(t.Runtime, policy, rounded)
	if isP2P(policy) {
		page = driver.PageNormal // whatever the policy's page, unlike in aclrtMallocWithCfg
	}
	// Before the second try memory pools are emptied.
	return alloc(t, c, devPtr, request{api, size, rounded, page, 2})
}

// MallocWithCfg is aclrtMallocWithCfg. Bandwidth and access bits of the policy are accepted and change nothing: there
// is one kind of memory, and the host cannot write to it anyway.
func MallocWithCfg(t *core.Thread, devPtr *core.Addr, size uint64, policy abi.MemMallocPolicy,
	cfg *abi.MallocConfig) *core.Error {
	c, err := checkMallocWithCfg(t, devPtr, size, policy, cfg)
	if err != nil {
		return err
	}
	return mallocWithCfg(t, "aclrtMallocWithCfg", c, devPtr, size, policy)
}

// MallocForTaskScheduler is aclrtMallocForTaskScheduler. All device memory can be read by the task scheduler.
func MallocForTaskScheduler(t *core.Thread, devPtr *core.Addr, size uint64, policy abi.MemMallocPolicy,
	cfg *abi.MallocConfig) *core.Error {
	c, err := checkMallocForTaskScheduler(t, devPtr, size, policy, cfg)
	if err != nil {
		return err
	}
	return mallocWithCfg(t, "aclrtMallocForTaskScheduler", c, devPtr, size, policy)
}

// mallocWithCfg allocates in c for a call whose arguments were checked.
func mallocWithCfg(t *core.Thread, api string, c *core.Context, devPtr *core.Addr, size uint64,
	policy abi.MemMallocPolicy) *core.Error {
	policy &^= otherBits
	rounded, ok := Round(size, 0)
	if !ok {
		return core.Fail(api, abi.ErrRTMemoryAllocation, "size", "%d bytes wanted, more than there are addresses", size)
	}
	return alloc(t, c, devPtr, request{api, size, rounded, pageFor(t.Runtime, policy, rounded), 1})
}

// attrsThere refuses a configuration with a number of attributes but no list.
func attrsThere(_ *core.Thread, api string, cfg *abi.MallocConfig) *core.Error {
	if cfg != nil && cfg.Attrs == 0 && cfg.NumAttrs != 0 {
		return core.Invalid(api, "cfg", "attrs is NULL, but numAttrs is %d", cfg.NumAttrs)
	}
	return nil
}

// someAttrs refuses a configuration without attributes.
func someAttrs(_ *core.Thread, api string, cfg *abi.MallocConfig) *core.Error {
	if cfg != nil && cfg.Attrs == 0 {
		return core.Refused(api, "cfg", "has no attributes; pass NULL instead")
	}
	return nil
}

// attrsFit checks the attributes of cfg: they must be known, and the last device id must be that of the context. A
// module id is accepted and ignored.
func attrsFit(_ *core.Thread, api string, cfg *abi.MallocConfig, c *core.Context) *core.Error {
	if cfg == nil {
		return nil
	}
	id := uint32(c.Device.User)
	for i := range cfg.NumAttrs {
		switch a := core.Element[abi.MallocAttribute](cfg.Attrs, i); a.Attr {
		case abi.MemAttrRsv, abi.MemAttrModuleId:
		case abi.MemAttrDeviceId:
			id = *a.Value.DeviceID()
		default:
			return core.Refused(api, "cfg", "attribute %d is %v; a module id (1) and a device id (2) are known here", i,
				a.Attr)
		}
	}
	if id != uint32(c.Device.User) {
		return core.Refused(api, "cfg", "device id %d is not the current device, %d", id, c.Device.User)
	}
	return nil
}

// Round adds padding to size and rounds the sum up; false if it overflows.
func Round(size, padding uint64) (uint64, bool) {
	sum, carry := bits.Add64(size, padding+granule-1, 0)
	return sum &^ (granule - 1), carry == 0
}

// is1G reports whether a policy asks for pages of 1 GiB.
func is1G(p abi.MemMallocPolicy) bool {
	return p == abi.MemMallocHuge1GOnly || p == abi.MemMallocHuge1GOnlyP2P
}

// isP2P reports whether a policy asks for memory that peers can access, but not for pages of 1 GiB.
func isP2P(p abi.MemMallocPolicy) bool {
	return p >= abi.MemMallocHugeFirstP2P && p <= abi.MemMallocNormalOnlyP2P
}

// plainPolicy is checkPolicy for a policy that may have bits about bandwidth and access.
func plainPolicy(t *core.Thread, api string, p abi.MemMallocPolicy) *core.Error {
	return checkPolicy(t.Runtime, api, p&^otherBits)
}

// checkPolicy refuses policies that the product or its form lacks.
func checkPolicy(rt *core.Runtime, api string, p abi.MemMallocPolicy) *core.Error {
	if is1G(p) && !rt.Product.Modern && !(rt.OneMemory && p == abi.MemMallocHuge1GOnlyP2P) {
		return core.Unsupported(api, "policy", "%v: %s has no pages of 1 GiB; 950, A3 and A2 have", p, rt.Product.Name)
	}
	if isP2P(p) && rt.OneMemory {
		return core.Unsupported(api, "policy",
			"%v: a program on the device's own CPU (RC form) has no peers; take the policy without P2P", p)
	}
	return nil
}

// pageFor returns the page kind of a policy for a rounded size. An unknown policy acts like HUGE_FIRST; in RC form the
// 1 GiB policy for peers is unknown.
func pageFor(rt *core.Runtime, p abi.MemMallocPolicy, size uint64) driver.Page {
	switch p {
	case abi.MemMallocHugeOnly, abi.MemMallocHugeOnlyP2P:
		return driver.PageHugeOnly
	case abi.MemMallocNormalOnly, abi.MemMallocNormalOnlyP2P:
		return driver.PageNormal
	case abi.MemMallocHuge1GOnly, abi.MemMallocHuge1GOnlyP2P:
		if !rt.OneMemory {
			return driver.Page1G
		}
	}
	if size > hugeAbove {
		return driver.PageHugeFirst
	}
	return driver.PageNormal
}

// alloc makes the allocation on the context's device and writes its address to p.
func alloc(t *core.Thread, c *core.Context, p *core.Addr, r request) *core.Error {
	dev := c.Device.Opened.Load()
	if dev == nil { // the device was reset since
		return core.NoCurrentContext(r.api)
	}
	var err error
	for try := range r.tries {
		var a core.Addr
		if try > 0 {
			memoryOf(t.Runtime).pools.emptyAll(c.Device)
		}
		if a, err = dev.Alloc(r.size, r.page); err == nil {
			*p = a
			if t.Runtime.Probe != nil {
				t.Acquired(core.Resource{Kind: core.DeviceMemory, Name: a, Size: r.asked, Device: c.Device.User})
			}
			return nil
		}
	}
	e := core.FromDriver(r.api, "size", err)
	switch {
	case errors.Is(err, driver.ErrNoMemory):
		free, total := dev.Memory()
		e.Text = fmt.Sprintf("%s wanted, %s on device %d", byteCount(r.asked), freeOf(free, total), c.Device.User)
		if byteCount(r.asked) == byteCount(free) {
			e.Text = fmt.Sprintf("%d bytes wanted (%d when rounded up), %d of %d free on device %d", r.asked, r.size,
				free, total, c.Device.User)
		}
	case errors.Is(err, driver.ErrUnsupported):
		e.Arg = "policy"
	}
	return e
}

// byteCount writes n for people: exactly if it is less than a MiB, else in the largest unit with one decimal at most,
// rounded down.
func byteCount(n uint64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d bytes", n)
	}
	units, shift := [...]string{"MiB", "GiB", "TiB", "PiB", "EiB"}, 0
	for n>>(20+10*shift) >= 1024 {
		shift++
	}
	tenths := n >> (10 + 10*shift) * 10 / 1024
	return strings.TrimSuffix(fmt.Sprintf("%d.%d", tenths/10, tenths%10), ".0") + " " + units[shift]
}

// freeOf writes how much of total is free: 255.7 of 256 MiB free.
func freeOf(free, total uint64) string {
	left, all := byteCount(free), byteCount(total)
	_, unit, _ := strings.Cut(all, " ")
	return fmt.Sprintf("%s of %s free", strings.TrimSuffix(left, " "+unit), all)
}

// Free is aclrtFree.
func Free(t *core.Thread, devPtr core.Addr) *core.Error {
	const api = "aclrtFree"
	if err := checkFree(t, devPtr); err != nil {
		return err
	}
	return free(t, api, "devPtr", devPtr)
}

// FreeWithDevSync is aclrtFreeWithDevSync.
func FreeWithDevSync(t *core.Thread, devPtr core.Addr) *core.Error {
	const api = "aclrtFreeWithDevSync"
	c, err := checkFreeWithDevSync(t, devPtr)
	if err != nil {
		return err
	}
	if err := t.ObserveWait(api, nil, func(int64) *core.Error { return c.Wait(api, core.WaitLimit{}) }); err != nil {
		return err
	}
	return free(t, api, "devPtr", devPtr)
}

// free frees device memory. Its device need not be the current one.
func free(t *core.Thread, api, arg string, p core.Addr) *core.Error {
	rt, m := t.Runtime, memoryOf(t.Runtime)
	if b := m.pools.find(p); b != nil {
		return t.Releasing(core.Resource{Kind: core.DeviceMemory, Name: p, Device: b.pool.dev.User},
			func() *core.Error { return b.free(api, arg, p) })
	}
	if m.vmm.mapping(p) != nil {
		return isMapped(api, arg, p)
	}
	l := rt.Driver.Locate(p)
	switch l.Place {
	case driver.Host:
		return core.Refused(api, arg,
			"%#x is pinned or registered host memory; aclrtFreeHost or aclrtHostUnregister frees it", p).
			Because(core.NotToFree, p)
	case driver.Pageable:
		return core.Refused(api, arg, "%#x is no device memory", p).Because(core.NotToFree, p)
	case driver.Nowhere:
		return core.Refused(api, arg, "%#x is in no live allocation: it was freed already, or its device was reset",
			p).Because(core.Gone, p)
	case driver.Managed:
		return freeManaged(t, api, arg, p, l)
	}
	if m.ipc.imported(p) {
		return core.Refused(api, arg, "%#x is memory of another process; aclrtIpcMemClose closes it",
			p).Because(core.NotToFree, p)
	}
	d := rt.ByPhys(l.Device)
	if d == nil {
		return core.Refused(api, arg, "%#x is memory of a device that is not visible", p)
	}
	dev := d.Opened.Load()
	if dev == nil {
		return core.Refused(api, arg, "%#x was freed when device %d was reset", p, d.User)
	}
	return t.Releasing(core.Resource{Kind: core.DeviceMemory, Name: p, Device: d.User}, func() *core.Error {
		err := freeError(rt, api, arg, p, dev.Free(p))
		if err == nil {
			m.ipc.freed(rt, p)
		}
		return err
	})
}

// isMapped returns the error of a call that tries to free a mapping.
func isMapped(api, arg string, p core.Addr) *core.Error {
	return core.Refused(api, arg,
		"%#x lies in a mapping of aclrtMapMem; aclrtUnmapMem takes that away, "+
			"and aclrtFreePhysical frees the memory", p).Because(core.NotToFree, p)
}

// freeError returns the error of freeing memory; nil if err is nil. For a pointer into an allocation it has the start
// of that.
func freeError(rt *core.Runtime, api, arg string, p core.Addr, err error) *core.Error {
	if err == nil {
		return nil
	}
	e := core.FromDriver(api, arg, err)
	if al := rt.Driver.Describe(p); al.Size > 0 && al.Start != p {
		e.Text = fmt.Sprintf("%#x lies %d bytes inside the %d bytes at %#x", p, p-al.Start, al.Size, al.Start)
	} else {
		e.Text = fmt.Sprintf("%#x cannot be freed here", p)
	}
	return e.Because(core.Gone, p)
}
