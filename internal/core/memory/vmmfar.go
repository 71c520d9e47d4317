package memory

import (
	"errors"
	"fmt"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// In a pod (driver.Fabric) fabric handles also work on other servers. Such a handle has two parts: a key for processes
// of this server, as without a pod, and at offset farAt the handle for other servers.

const farAt = 64

// exportFar also exports exported memory to other servers, and writes their part of the handle.
func exportFar(t *core.Thread, api string, handle core.Handle, data []byte) *core.Error {
	f := t.Runtime.Caps.Fabric
	if f == nil {
		return nil
	}
	v := &memoryOf(t.Runtime).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := physical(t, api, handle)
	if err != nil {
		return err
	}
	x, failed := f.ExportFar(p.memory, p.asked, p.list.open)
	if failed != nil {
		p.withdraw()
		e := core.FromDriver(api, "handle", failed)
		e.Text = "cannot be offered to other servers"
		return e
	}
	p.far = x
	h := x.Handle()
	copy(data[farAt:], h[:])
	return nil
}

// farther reports whether a fabric handle was created on another server, and returns the fabric to it.
func farther(t *core.Thread, data []byte) (driver.Fabric, bool) {
	f := t.Runtime.Caps.Fabric
	if f == nil {
		return nil, false
	}
	owner, ok := f.OwnerFar(data[farAt:])
	server, _ := f.Server()
	return f, ok && owner != server
}

// notFarther explains why no process on this server owns a fabric handle that may be from another server; "" if it was
// created without a pod.
func notFarther(t *core.Thread, data []byte) string {
	f := t.Runtime.Caps.Fabric
	if f == nil {
		if slices.Max(data[farAt:]) > 0 {
			return "if it is of another server, ROPEWAY_POD has to be set here, too"
		}
		return ""
	}
	if _, ok := f.OwnerFar(data[farAt:]); !ok {
		return ""
	}
	server, _ := f.Server()
	return fmt.Sprintf("if it is of another machine, that is server %d of the pod, too; ROPEWAY_POD_SERVER says which "+
		"one a process is on", server)
}

// importFar opens memory of another server for device d. Whatever the other server refuses, the code is the same.
func importFar(t *core.Thread, api string, f driver.Fabric, data []byte, d *core.Device,
	handle *core.Handle) *core.Error {
	m, failed := f.ImportFar(data[farAt:], int(d.Phys))
	if failed != nil {
		e := core.FromDriver(api, "shareableHandle", failed)
		e.Code = abi.ErrRTInvalidHandle
		if errors.Is(failed, driver.ErrNotAllowed) {
			e.Text = "name this process there with aclrtMemSetPidToShareableHandleV2, or export with flags 1"
		}
		return e
	}
	p := &Physical{rt: t.Runtime, memory: m, asked: m.Size(), size: m.Size(), others: true}
	p.kind.Type = abi.MemLocationTypeDevice
	far, ok := m.(driver.FarMemory)
	if ok {
		p.asked = far.Asked()
	}
	if ok && far.Host() {
		if m.Page() == driver.PageNormal {
			m.Free() //nolint:errcheck // it is refused anyway
			return core.Unsupported(api, "shareableHandle",
				"is host memory in normal pages, which a device cannot have; allocate it with huge pages")
		}
		p.kind.Type = abi.MemLocationTypeHost
	}
	attr := [...]abi.MemAttr{abi.MemAttrMemHuge, abi.MemAttrMemHuge, abi.MemAttrMemNormal,
		abi.MemAttrMemHuge1G}[m.Page()]
	p.attr = readBack(t.Runtime, p.kind.Type, attr)
	return handOut(t, api, handle, p)
}

// farLost returns the error of freeing memory of a server that does not answer.
func farLost(api string, failed error) *core.Error {
	if !errors.Is(failed, driver.ErrLost) {
		return nil // its device may have been closed
	}
	e := core.FromDriver(api, "handle", failed)
	e.Code, e.Text = abi.ErrRTInvalidHandle, "it is given up here, but the server that has it does not answer"
	return e
}
