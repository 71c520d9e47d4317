package core

import (
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/share"
)

// ipcState is the device memory that this process shares by key, and what it has imported.
type ipcState struct {
	some atomic.Bool // there ever was something: who frees memory need not look before

	mu      sync.Mutex
	exports map[share.Key]*ipcExport   // guarded by mu
	imports map[share.Key][]*ipcImport // guarded by mu; the oldest first
	links   map[share.Key]uint64       // guarded by mu; a 950's attributes of keys
}

// ipcExport is an allocation that others may import.
type ipcExport struct {
	start Addr    // of the allocation; immutable
	dev   *Device // immutable
	link  uint64  // guarded by ipcState.mu; an A3's attribute
}

// ipcImport is memory of another process.
type ipcImport struct {
	at       Addr    // where it is mapped; immutable
	addr     Addr    // what the program got; immutable
	size     uint64  // of what is mapped; immutable
	dev      *Device // whose context it was imported in; immutable
	mapper   driver.Mapper
	memory   driver.Memory
	resource Resource
}

// offer remembers an export.
func (ipc *ipcState) offer(k share.Key, x *ipcExport) {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	if ipc.exports == nil {
		ipc.exports = map[share.Key]*ipcExport{}
	}
	ipc.exports[k] = x
	ipc.some.Store(true)
}

// add remembers an import; false if the context it is for has gone.
func (ipc *ipcState) add(c *Context, k share.Key, im *ipcImport) bool {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	if c.dev.dev.Load() == nil {
		return false
	}
	if ipc.imports == nil {
		ipc.imports = map[share.Key][]*ipcImport{}
	}
	ipc.imports[k] = append(ipc.imports[k], im)
	ipc.some.Store(true)
	return true
}

// close takes the oldest import of a key out, or else an attribute; the attribute goes with the last import.
func (ipc *ipcState) close(k share.Key) (im *ipcImport, forgotten bool) {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	list := ipc.imports[k]
	if len(list) == 0 {
		_, forgotten = ipc.links[k]
		delete(ipc.links, k)
		return nil, forgotten
	}
	im = list[0]
	if ipc.imports[k] = slices.Delete(list, 0, 1); len(ipc.imports[k]) == 0 {
		delete(ipc.imports, k)
		delete(ipc.links, k)
	}
	return im, false
}

// exported tells whether a key is of this process.
func (ipc *ipcState) exported(k share.Key) bool {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	return ipc.exports[k] != nil
}

// imported tells whether an address is memory of another process.
func (ipc *ipcState) imported(p Addr) bool {
	if !ipc.some.Load() {
		return false
	}
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	for _, list := range ipc.imports {
		if slices.ContainsFunc(list, func(im *ipcImport) bool { return p-im.at < Addr(im.size) }) {
			return true
		}
	}
	return false
}

// withdrawKey ends the export of a key; false if there is none.
func (ipc *ipcState) withdrawKey(rt *Runtime, k share.Key) bool {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	if ipc.exports[k] == nil {
		return false
	}
	delete(ipc.exports, k)
	rt.broker.Withdraw(k)
	return true
}

// withdraw ends the exports that which says.
func (ipc *ipcState) withdraw(rt *Runtime, which func(*ipcExport) bool) {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	for k, x := range ipc.exports {
		if which(x) {
			delete(ipc.exports, k)
			rt.broker.Withdraw(k)
		}
	}
}

// freed ends the exports of an allocation that has gone: nobody can import it any more.
func (ipc *ipcState) freed(rt *Runtime, start Addr) {
	if ipc.some.Load() {
		ipc.withdraw(rt, func(x *ipcExport) bool { return x.start == start })
	}
}

// closed ends what a device shares, and what was imported in its contexts; nil means all devices.
func (ipc *ipcState) closed(rt *Runtime, d *Device) {
	if !ipc.some.Load() {
		return
	}
	ipc.withdraw(rt, func(x *ipcExport) bool { return d == nil || x.dev == d })
	var gone []*ipcImport
	locked(&ipc.mu, func() {
		for k, list := range ipc.imports {
			kept := list[:0:0]
			for _, im := range list {
				if d == nil || im.dev == d {
					gone = append(gone, im)
				} else {
					kept = append(kept, im)
				}
			}
			if ipc.imports[k] = kept; len(kept) == 0 {
				delete(ipc.imports, k)
				delete(ipc.links, k)
			}
		}
	})
	for _, im := range gone {
		im.end() //nolint:errcheck // nothing a program could do about it
	}
}
