package transfer

import (
	"encoding/binary"
	"math"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

const (
	maxKind       = 8       // kinds are below
	maxOffsetCopy = 4 << 30 // bytes
	descAlign     = 64
	maxDataOffset = 1<<48 - 1
)

// controlWords is what a submission leaves in the reserved words of a 32-byte descriptor.
var controlWords = []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// descriptorCopies tells whether kind can be copied by descriptor on this product.
func descriptorCopies(t *core.Thread, api string, kind abi.MemcpyKind) *core.Error {
	if err := haveDescriptors(t, api); err != nil {
		return err
	}
	return onlyInner(api, kind)
}

func haveDescriptors(t *core.Thread, api string) *core.Error {
	if t.Runtime.Product.DescSize == 0 {
		return core.Unsupported(api, "", "%s has no descriptor copies", t.Runtime.Product.Name)
	}
	return nil
}

func onlyInner(api string, kind abi.MemcpyKind) *core.Error {
	if kind != abi.MemcpyInnerDeviceToDevice {
		return core.Unsupported(api, "kind",
			"%v: only ACL_MEMCPY_INNER_DEVICE_TO_DEVICE (6) can be copied by descriptor", kind)
	}
	return nil
}

func unknownKind(api string, kind abi.MemcpyKind) *core.Error {
	return core.Invalid(api, "kind", "%d is not 0 to 7", kind)
}

// GetMemcpyDescSize is aclrtGetMemcpyDescSize.
func GetMemcpyDescSize(t *core.Thread, kind abi.MemcpyKind, descSize *uint64) *core.Error {
	const api = "aclrtGetMemcpyDescSize"
	if descSize == nil {
		return core.IsNull(api, "descSize")
	}
	if kind < 0 || kind >= maxKind {
		return unknownKind(api, kind)
	}
	if err := descriptorCopies(t, api, kind); err != nil {
		return err
	}
	*descSize = uint64(t.Runtime.Product.DescSize)
	return nil
}

// layout is where this product's descriptors keep their fields.
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
	switch {
	case desc == 0:
		return core.IsNull(api, "desc")
	case kind < 0 || kind >= maxKind:
		return unknownKind(api, kind)
	case srcAddr == 0:
		return core.IsNull(api, "srcAddr")
	case dstAddr == 0:
		return core.IsNull(api, "dstAddr")
	case count == 0:
		return core.Invalid(api, "count", "is 0")
	case config != 0:
		return core.Invalid(api, "config", "is reserved and must be NULL")
	}
	if err := descriptorCopies(t, api, kind); err != nil {
		return err
	}
	if count > math.MaxUint32 {
		return core.Refused(api, "count",
			"%d bytes do not fit into a descriptor, which has room for 4 GiB minus one byte", count)
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
			"is memory of device %s, srcAddr of device %s: a descriptor copies inside one device", core.DeviceName(t.Runtime.ByPhys(to.Device)), core.DeviceName(t.Runtime.ByPhys(from.Device)))
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
	err := run(t, api, driver.Op{Kind: driver.OpCopy, Dst: dst, Src: core.AddrOf(b), N: uint64(len(b))})
	runtime.KeepAlive(b)
	return err
}

func misaligned(api string, desc core.Addr) *core.Error {
	return core.Refused(api, "desc", "%#x is not a multiple of 64", desc)
}

// MemcpyAsyncWithDesc is aclrtMemcpyAsyncWithDesc: the descriptor is read when the copy runs.
func MemcpyAsyncWithDesc(t *core.Thread, desc core.Addr, kind abi.MemcpyKind, stream core.Handle) *core.Error {
	const api = "aclrtMemcpyAsyncWithDesc"
	switch {
	case desc == 0:
		return core.IsNull(api, "desc")
	case kind < 0 || kind >= maxKind:
		return unknownKind(api, kind)
	case stream == 0:
		return core.Invalid(api, "stream", "is NULL: the default stream is not accepted here")
	}
	if err := haveDescriptors(t, api); err != nil {
		return err
	}
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if err := onlyInner(api, kind); err != nil {
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
		// The call itself rewrites the reserved words with control bits, at once and unordered with the stream.
		// It is no access of the program: a watcher does not see it.
		if err := t.Runtime.Driver.Run(driver.Op{Kind: driver.OpCopy, Dst: desc, Src: core.AddrOf(controlWords),
			N: uint64(len(controlWords))}); err != nil {
			return core.FromDriver(api, "", err)
		}
	}
	return s.Launch(api, t, core.Task{Op: driver.Op{Kind: driver.OpDesc, Src: desc, N: size, Layout: layout(t.Runtime),
		Device: at.Device}})
}

// MemcpyAsyncWithOffset is aclrtMemcpyAsyncWithOffset: dst and src are device addresses of cells that hold the bases,
// and are read when the copy runs.
func MemcpyAsyncWithOffset(t *core.Thread, dst core.Addr, destMax, dstDataOffset uint64, src core.Addr, count,
	srcDataOffset uint64, kind abi.MemcpyKind, stream core.Handle) *core.Error {
	const api = "aclrtMemcpyAsyncWithOffset"
	if count == 0 {
		return nil
	}
	if kind != abi.MemcpyInnerDeviceToDevice {
		return core.Refused(api, "kind", "%d is not ACL_MEMCPY_INNER_DEVICE_TO_DEVICE (6)", kind)
	}
	if !t.Runtime.Product.OffsetCopy {
		return core.Unsupported(api, "", "%s has no copies with offset", t.Runtime.Product.Name)
	}
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	switch {
	case dst == 0:
		return core.Refused(api, "dst", "is NULL")
	case src == 0:
		return core.Refused(api, "src", "is NULL")
	case count > destMax:
		return tooMuch(api, 0, count, destMax)
	case count > maxOffsetCopy:
		return core.Refused(api, "count", "%d bytes are more than 4 GiB", count)
	case srcDataOffset > maxDataOffset:
		return core.Refused(api, "srcDataOffset", "%#x has more than 48 bits", srcDataOffset)
	case dstDataOffset > maxDataOffset:
		return core.Refused(api, "dstDataOffset", "%#x has more than 48 bits", dstDataOffset)
	case dstDataOffset >= destMax:
		return core.Refused(api, "dstDataOffset", "%d is not below destMax, %d", dstDataOffset, destMax)
	case count > destMax-dstDataOffset:
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
