package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/ranges"
	"ropeway/internal/share"
)

// ipcState holds the device memory that this process shares by key, and its imports.
type ipcState struct {
	some   atomic.Bool            // something was shared or imported: before that, freeing memory has nothing to check
	mapped ranges.Set[*ipcImport] // addresses of imports; written with mu held

	mu      sync.Mutex
	exports map[share.Key]*ipcExport  // guarded by mu
	keys    map[core.Addr][]share.Key // guarded by mu; of the exports, by the start of the allocation
	imports map[share.Key]*ipcImport  // guarded by mu
	links   map[share.Key]uint64      // guarded by mu; attributes of keys of a 950
	spent   []*ipcImport              // guarded by mu; unmapped imports whose addresses are still reserved
}

// ipcSource is memory that can be exported. After it is freed, other memory may get its address.
type ipcSource struct {
	start   core.Addr
	id      uint64     // the driver's id of the allocation; 0 for a mapping
	block   *poolBlock // nil if it is not of a pool
	mapping *mapping   // nil if it is an allocation
	dev     *core.Device
}

// stays reports whether the program still has the memory.
func (m *ipcSource) stays(rt *core.Runtime) bool {
	if m.mapping != nil {
		return memoryOf(rt).vmm.mapping(m.start) == m.mapping && rt.Driver.Locate(m.start).Place == driver.OnDevice
	}
	return rt.Driver.Describe(m.start).ID == m.id && (m.block == nil || m.block.live.Load())
}

// ipcExport is memory that other processes may import.
type ipcExport struct {
	ipcSource           // immutable
	link      uint64    // guarded by ipcState.mu; attribute of an A3
	list      WhiteList // guarded by ipcState.mu

	from, size uint64        // immutable; the part of the allocation
	far        driver.FarKey // guarded by ipcState.mu; nil while no process of another server is allowed
}

// ipcImport is memory of another process.
type ipcImport struct {
	span     *ranges.Span[*ipcImport] // its mapping; immutable
	addr     core.Addr                // the address for the program; immutable
	dev      *core.Device             // the device of the importing context; immutable
	mapper   driver.Mapper
	memory   driver.Memory
	resource core.Resource
	count    int // guarded by ipcState.mu; number of imports that have to be closed
}

// offer records an export.
func (ipc *ipcState) offer(k share.Key, x *ipcExport) {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	if ipc.exports == nil {
		ipc.exports, ipc.keys = map[share.Key]*ipcExport{}, map[core.Addr][]share.Key{}
	}
	ipc.exports[k] = x
	ipc.keys[x.start] = append(ipc.keys[x.start], k)
	ipc.some.Store(true)
}

// retain counts another import of a key for the device of c, and returns it; nil if the key is not imported. A process
// imports a key for only one device.
func (ipc *ipcState) retain(api string, c *core.Context, k share.Key) (*ipcImport, *core.Error) {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	return ipc.retainLocked(api, c, k)
}

// retainLocked is retain. ipc.mu is held.
func (ipc *ipcState) retainLocked(api string, c *core.Context, k share.Key) (*ipcImport, *core.Error) {
	im := ipc.imports[k]
	switch {
	case im == nil:
		return nil, nil
	case im.dev != c.Device:
		return nil, core.Fail(api, abi.ErrRTDrvInternalError, "key",
			"is imported in this process for device %d; close it before it is imported for device %d", im.dev.User,
			c.Device.User)
	}
	im.count++
	return im, nil
}

// add records an import. If another thread has imported the key first, it returns that import.
func (ipc *ipcState) add(api string, c *core.Context, k share.Key, im *ipcImport) (*ipcImport, *core.Error) {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	if c.Device.Opened.Load() == nil { // it was reset since
		return nil, core.NoCurrentContext(api)
	}
	if old, err := ipc.retainLocked(api, c, k); old != nil || err != nil {
		return old, err
	}
	if ipc.imports == nil {
		ipc.imports = map[share.Key]*ipcImport{}
	}
	im.count = 1
	ipc.imports[k] = im
	ipc.mapped.Insert(im.span)
	ipc.some.Store(true)
	return im, nil
}

// close ends one import of a key, and returns it if it was the last. Without an import it removes the attribute of the
// key, unless the key is exported here. done reports whether nothing is left to do.
func (ipc *ipcState) close(k share.Key) (im *ipcImport, done bool) {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	if ipc.imports[k] == nil {
		_, done = ipc.links[k]
		delete(ipc.links, k)
		return nil, done && ipc.exports[k] == nil
	}
	im = ipc.takeImport(k)
	return im, im == nil
}

// takeImport ends one import of a key. If it was the last, it removes and returns it, and removes an attribute of the
// key; else it returns nil. ipc.mu is held.
func (ipc *ipcState) takeImport(k share.Key) *ipcImport {
	im := ipc.imports[k]
	if im.count--; im.count > 0 {
		return nil
	}
	ipc.mapped.Remove(im.span)
	delete(ipc.imports, k)
	delete(ipc.links, k)
	return im
}

// mostLinks is the most keys that have an attribute.
const mostLinks = 1 << 16

// choose sets the attribute of a key. Any text may be a key that is imported later: if there are too many, choose
// removes one that is neither imported nor exported. mu is held.
func (ipc *ipcState) choose(k share.Key, attr uint64) {
	if ipc.links == nil {
		ipc.links = map[share.Key]uint64{}
	}
	if _, ok := ipc.links[k]; !ok && len(ipc.links) >= mostLinks {
		for o := range ipc.links {
			if ipc.imports[o] == nil && ipc.exports[o] == nil {
				delete(ipc.links, o)
				break
			}
		}
	}
	ipc.links[k] = attr
}

// imported reports whether an address is memory of another process.
func (ipc *ipcState) imported(p core.Addr) bool { return ipc.mapped.Find(p) != nil }

// withdrawKey ends the export of a key; false if there is none.
func (ipc *ipcState) withdrawKey(rt *core.Runtime, k share.Key) bool {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	x := ipc.exports[k]
	if x == nil {
		return false
	}
	ipc.end(rt, k, x)
	return true
}

// end removes an export. ipc.mu is held.
func (ipc *ipcState) end(rt *core.Runtime, k share.Key, x *ipcExport) {
	delete(ipc.exports, k)
	if ipc.imports[k] == nil {
		delete(ipc.links, k)
	}
	keys := ipc.keys[x.start]
	if keys = slices.DeleteFunc(keys, func(o share.Key) bool { return o == k }); len(keys) > 0 {
		ipc.keys[x.start] = keys
	} else {
		delete(ipc.keys, x.start)
	}
	rt.Broker.Withdraw(k)
	if x.far != nil {
		x.far.Withdraw()
	}
}

// freed ends the exports of the memory freed at start, which can no longer be imported. New memory of another thread at
// that address keeps its exports.
func (ipc *ipcState) freed(rt *core.Runtime, start core.Addr) {
	if !ipc.some.Load() {
		return
	}
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	for _, k := range slices.Clone(ipc.keys[start]) {
		if x := ipc.exports[k]; !x.stays(rt) {
			ipc.end(rt, k, x)
		}
	}
}

// closed ends the exports of a device and the imports of its contexts; nil means all devices. Device.mu may be held:
// sweep releases the addresses.
func (ipc *ipcState) closed(rt *core.Runtime, d *core.Device) {
	if !ipc.some.Load() {
		return
	}
	var gone []*ipcImport
	core.Locked(&ipc.mu, func() {
		for k, x := range ipc.exports {
			if d == nil || x.dev == d {
				ipc.end(rt, k, x)
			}
		}
		for k, im := range ipc.imports {
			if d == nil || im.dev == d {
				gone = append(gone, im)
				ipc.mapped.Remove(im.span)
				delete(ipc.imports, k)
				delete(ipc.links, k)
			}
		}
	})
	for _, im := range gone {
		im.unmap() //nolint:errcheck // a program could not do anything about it
	}
	core.Locked(&ipc.mu, func() { ipc.spent = append(ipc.spent, gone...) })
}

// sweep releases the addresses of imports that ended with a device. No lock is held.
func (ipc *ipcState) sweep() {
	if !ipc.some.Load() {
		return
	}
	var spent []*ipcImport
	core.Locked(&ipc.mu, func() { spent, ipc.spent = ipc.spent, nil })
	for _, im := range spent {
		im.mapper.Release(im.span.Start) //nolint:errcheck // addresses that stay taken do no harm
	}
}
