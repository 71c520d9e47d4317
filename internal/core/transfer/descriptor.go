package transfer

import (
	"encoding/binary"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

const descAlign = 64

// controlWords is the content that a submission writes to the reserved words of a 32-byte descriptor.
var controlWords = []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// GetMemcpyDescSize is aclrtGetMemcpyDescSize.
func GetMemcpyDescSize(t *core.Thread, kind abi.MemcpyKind, descSize *uint64) *core.Error {
	if err := checkGetMemcpyDescSize(t, kind, descSize); err != nil {
		return err
	}
	*descSize = uint64(t.Runtime.Product.DescSize)
	return nil
}

// layout returns the layout of this product's descriptors.
func layout(rt *core.Runtime) driver.Layout {
	if rt.Product.DescSize == 64 {
		return driver.Desc64
	}
	return driver.Desc32
}

// SetMemcpyDesc is aclrtSetMemcpyDesc: it writes the descriptor into device memory before it returns.
func SetMemcpyDesc(t *core.Thread, desc core.Addr, kind abi.MemcpyKind, srcAddr, dstAddr core.Addr, count uint64,
	config core.Addr) *core.Error {
	const api = "aclrtSetMemcpyDesc"
	if err := checkSetMemcpyDesc(t, desc, kind, srcAddr, dstAddr, count, config); err != nil {
		return err
	}
	if desc%descAlign != 0 {
		return misaligned(api, desc)
	}
	size := uint64(t.Runtime.Product.DescSize)
	at, err := t.Runtime.Locate(api, "desc", desc, size)
	if err != nil {
		return err
	}
	to, err := t.Runtime.Locate(api, "dstAddr", dstAddr, count)
	if err != nil {
		return err
	}
	from, err := t.Runtime.Locate(api, "srcAddr", srcAddr, count)
	if err != nil {
		return err
	}
	if at.Place != driver.OnDevice {
		return core.NotDevice(api, "desc", desc, at)
	}
	if from.Place != driver.OnDevice {
		return core.NotDevice(api, "srcAddr", srcAddr, from)
	}
	if to.Place != driver.OnDevice {
		return core.NotDevice(api, "dstAddr", dstAddr, to)
	}
	if from.Device != to.Device {
		return core.Refused(api, "dstAddr",
			"is memory of device %s, srcAddr of device %s: a descriptor copies inside one device",
			core.DeviceName(t.Runtime.ByPhys(to.Device)), core.DeviceName(t.Runtime.ByPhys(from.Device)))
	}
	if t.Current() == nil {
		return core.NoCurrentContext(api)
	}
	b := make([]byte, size)
	l := layout(t.Runtime)
	binary.LittleEndian.PutUint32(b[l.Length:], uint32(count))
	binary.LittleEndian.PutUint64(b[l.Src:], uint64(srcAddr))
	binary.LittleEndian.PutUint64(b[l.Dst:], uint64(dstAddr))
	return poke(t, api, desc, b)
}

// poke writes b into device memory now.
func poke(t *core.Thread, api string, dst core.Addr, b []byte) *core.Error {
	err := t.Run(api, driver.Op{Kind: driver.OpCopy, Dst: dst, Src: core.AddrOf(b), N: uint64(len(b))})
	runtime.KeepAlive(b)
	return err
}

func misaligned(api string, desc core.Addr) *core.Error {
	return core.Refused(api, "desc", "%#x is not a multiple of 64", desc)
}

// MemcpyAsyncWithDesc is aclrtMemcpyAsyncWithDesc: the descriptor is read when the copy runs.
func MemcpyAsyncWithDesc(t *core.Thread, desc core.Addr, kind abi.MemcpyKind, stream core.Handle) *core.Error {
	const api = "aclrtMemcpyAsyncWithDesc"
	s, err := checkMemcpyAsyncWithDesc(t, desc, kind, stream)
	if err != nil {
		return err
	}
	size := uint64(t.Runtime.Product.DescSize)
	at, err := t.Runtime.Locate(api, "desc", desc, size)
	if err != nil {
		return err
	}
	if at.Place != driver.OnDevice {
		return core.NotDevice(api, "desc", desc, at)
	}
	if desc%descAlign != 0 {
		return misaligned(api, desc)
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	if s, err = c.On(api, s); err != nil {
		return err
	}
	if err := t.Runtime.PeerDenied(api, "desc", c.Device, desc, at); err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	if size == 32 {
		// The call itself rewrites the reserved words with control bits, at once and unordered with the stream. It is
		// not an access of the program: the checker does not see it.
		if err := t.Runtime.Driver.Run(driver.Op{Kind: driver.OpCopy, Dst: desc, Src: core.AddrOf(controlWords),
			N: uint64(len(controlWords))}); err != nil {
			return core.FromDriver(api, "", err)
		}
	}
	return s.Launch(api, t, core.Task{Op: driver.Op{Kind: driver.OpDesc, Src: desc, N: size, Layout: layout(t.Runtime),
		Device: at.Device}})
}

// fitsCell refuses more bytes than destMax has room for. The destination is not known yet.
func fitsCell(t *core.Thread, api string, destMax, count uint64) *core.Error {
	return fitsInto(t, api, 0, destMax, count)
}

// MemcpyAsyncWithOffset is aclrtMemcpyAsyncWithOffset: dst and src are device addresses of cells that hold the bases,
// and are read when the copy runs.
func MemcpyAsyncWithOffset(t *core.Thread, dst core.Addr, destMax, dstDataOffset uint64, src core.Addr, count,
	srcDataOffset uint64, kind abi.MemcpyKind, stream core.Handle) *core.Error {
	const api = "aclrtMemcpyAsyncWithOffset"
	s, done, err := checkMemcpyAsyncWithOffset(t, dst, destMax, dstDataOffset, src, count, srcDataOffset, kind, stream)
	if done {
		return err
	}
	if count > destMax-dstDataOffset {
		return core.Refused(api, "count", "%d bytes do not fit behind dstDataOffset %d into destMax, %d", count,
			dstDataOffset, destMax)
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	if _, err := t.Runtime.Locate(api, "src", src, 8); err != nil {
		return err
	}
	if _, err := t.Runtime.Locate(api, "dst", dst, 8); err != nil {
		return err
	}
	if s, err = c.On(api, s); err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	return s.Launch(api, t, core.Task{Op: driver.Op{
		Kind: driver.OpOffset, Dst: dst, Src: src, N: count,
		DstPitch: dstDataOffset, SrcPitch: srcDataOffset, Device: c.Device.Phys,
	}})
}
