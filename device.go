package ropeway

import (
	"context"
	"runtime"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// Device is a device in use: memory, streams and events are made on it.
type Device struct {
	r      *Runtime
	id     int
	t      *core.Thread
	closed atomic.Bool
}

// ID returns the device's number.
func (d *Device) ID() int { return d.id }

// location returns the device as a location of memory.
func (d *Device) location() abi.MemLocation {
	return abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: uint32(d.id)}
}

// gone reports whether the device was closed as often as it was opened, so that its memory is freed.
func (d *Device) gone() bool { return d.t.Current() == nil }

// Close ends the use of the device. When it is closed as often as [Runtime.Device] returned it, its streams, events
// and memory are closed, and queued work is dropped. Closing one Device twice is an error.
func (d *Device) Close() error {
	if d.closed.Swap(true) {
		return misuse("aclrtResetDevice", "deviceId", "the device was closed already")
	}
	return d.result(d.r.rt.NewThread(0).ResetDevice(int32(d.id)))
}

// Alloc allocates n bytes of device memory.
func (d *Device) Alloc(n int) (*Buffer, error) {
	var p core.Addr
	if err := memory.Malloc(d.t, &p, size(n), abi.MemMallocHugeFirst); err != nil {
		return nil, d.result(err)
	}
	return &Buffer{d: d, addr: p, n: n, free: memory.Free, device: true, goes: true}, nil
}

// AllocPinned allocates n bytes of pinned host memory: copies with it are asynchronous, and [Buffer.Bytes] is the
// memory itself.
func (d *Device) AllocPinned(n int) (*Buffer, error) {
	var p core.Addr
	if err := memory.MallocHost(d.t, &p, size(n)); err != nil {
		return nil, d.result(err)
	}
	return &Buffer{d: d, addr: p, n: n, free: memory.FreeHost, host: bytesAt(p, n), goes: d.r.prod.RC}, nil
}

// AllocManaged allocates n bytes of memory that has one address for the host and all devices: [Buffer.Bytes] is the
// memory itself, and copies use it like any other. The host must not touch it while queued work does. Only some
// products have it (A2, A3).
func (d *Device) AllocManaged(n int) (*Buffer, error) {
	var p core.Addr
	if err := memory.MemAllocManaged(d.t, &p, size(n), abi.MemAttachGlobal); err != nil {
		return nil, d.result(err)
	}
	return &Buffer{d: d, addr: p, n: n, free: memory.Free, host: bytesAt(p, n), goes: true}, nil
}

// Register makes memory of the program usable like pinned memory until the buffer is closed.
func (d *Device) Register(b []byte) (*Buffer, error) {
	addr := core.AddrOf(b)
	if err := memory.HostRegisterV2(d.t, addr, uint64(len(b)), abi.HostRegPinned); err != nil {
		return nil, d.result(err)
	}
	d.r.registered.Store(addr, b)
	return &Buffer{d: d, addr: addr, n: len(b), free: d.r.unregister, host: b}, nil
}

// unregister ends a registration; then the garbage collector may free the memory.
func (r *Runtime) unregister(t *core.Thread, p core.Addr) *core.Error {
	err := memory.HostUnregister(t, p)
	if err != nil && err.Code == abi.ErrRTContextNull && r.rt.Driver.Unregister(p) == nil {
		err = nil // the device was closed, and the registration outlived it
	}
	if err != nil {
		return err
	}
	r.registered.Delete(p)
	return nil
}

// size converts n to the core's type; negative lengths become 0, which is refused.
func size(n int) uint64 { return uint64(max(n, 0)) }

// MemInfo returns the free and the total bytes of device memory.
func (d *Device) MemInfo() (free, total int, err error) {
	var f, t uint64
	err = d.result(memory.GetMemInfo(d.t, abi.MemAttrHBMMem, &f, &t))
	return int(f), int(t), err
}

// Synchronize waits for everything queued on all streams of the device and returns the first failure. If ctx ends
// first, its error is returned and the work continues.
func (d *Device) Synchronize(ctx context.Context) error {
	return d.waited(ctx, d.t.SynchronizeDeviceWithin(core.WaitLimit{Cancel: ctx.Done()}))
}

// waited returns the context's error for a wait that the context ended.
func (d *Device) waited(ctx context.Context, err *core.Error) error {
	late := err != nil && (err.Code == abi.ErrRTStreamSyncTimeout || err.Code == abi.ErrRTEventSyncTimeout)
	if late && ctx.Err() != nil {
		return ctx.Err()
	}
	return d.result(err)
}

// EnablePeer lets the device access memory of another, which copies between the two require. It works in one
// direction.
func (d *Device) EnablePeer(peer *Device) error {
	const api = "aclrtDeviceEnablePeerAccess"
	if peer.r != d.r {
		return misuse(api, "peerDeviceId", otherRuntime)
	}
	return d.result(memory.DeviceEnablePeerAccess(d.t, int32(peer.id), 0))
}

// DisablePeer undoes EnablePeer.
func (d *Device) DisablePeer(peer *Device) error {
	const api = "aclrtDeviceDisablePeerAccess"
	if peer.r != d.r {
		return misuse(api, "peerDeviceId", otherRuntime)
	}
	return d.result(memory.DeviceDisablePeerAccess(d.t, int32(peer.id)))
}

// Copy copies src to the beginning of dst, of any memory, and returns when the bytes are there. It does not wait for
// streams.
func (d *Device) Copy(dst, src Span) error {
	const api = "aclrtMemcpy"
	if err := usable(d.r, api, dst, src); err != nil {
		return err
	}
	err := transfer.Memcpy(d.t, dst.addr, uint64(dst.n), src.addr, uint64(src.n), abi.MemcpyDefault)
	runtime.KeepAlive(src.keep)
	runtime.KeepAlive(dst.keep)
	return d.result(err)
}

// Fill sets every byte of dst and returns when that is done. It does not wait for streams.
func (d *Device) Fill(dst Span, value byte) error {
	if err := filled(d.r, "aclrtMemset", "devPtr", dst); err != nil {
		return err
	}
	err := transfer.Memset(d.t, dst.addr, uint64(dst.n), int32(value), uint64(dst.n))
	runtime.KeepAlive(dst.keep)
	return d.result(err)
}
