package core

import (
	"encoding/binary"
	"math"
	"runtime"

	"ropeway/internal/abi"
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
func (t *Thread) descriptorCopies(api string, kind abi.MemcpyKind) *Error {
	if err := t.haveDescriptors(api); err != nil {
		return err
	}
	return onlyInner(api, kind)
}

func (t *Thread) haveDescriptors(api string) *Error {
	if t.rt.prod.DescSize == 0 {
		return unsupported(api, "", "%s has no descriptor copies", t.rt.prod.Name)
	}
	return nil
}

func onlyInner(api string, kind abi.MemcpyKind) *Error {
	if kind != abi.MemcpyInnerDeviceToDevice {
		return unsupported(api, "kind", "%v: only ACL_MEMCPY_INNER_DEVICE_TO_DEVICE (6) can be copied by descriptor", kind)
	}
	return nil
}

func unknownKind(api string, kind abi.MemcpyKind) *Error {
	return invalid(api, "kind", "%d is not 0 to 7", kind)
}

// GetMemcpyDescSize is aclrtGetMemcpyDescSize.
func (t *Thread) GetMemcpyDescSize(kind abi.MemcpyKind, descSize *uint64) *Error {
	const api = "aclrtGetMemcpyDescSize"
	if descSize == nil {
		return isNull(api, "descSize")
	}
	if kind < 0 || kind >= maxKind {
		return unknownKind(api, kind)
	}
	if err := t.descriptorCopies(api, kind); err != nil {
		return err
	}
	*descSize = uint64(t.rt.prod.DescSize)
	return nil
}

// layout is where this product's descriptors keep their fields.
func (rt *Runtime) layout() driver.Layout {
	if rt.prod.DescSize == 64 {
		return driver.Desc64
	}
	return driver.Desc32
}

// SetMemcpyDesc is aclrtSetMemcpyDesc: it writes the descriptor into device memory before it returns.
func (t *Thread) SetMemcpyDesc(desc Addr, kind abi.MemcpyKind, srcAddr, dstAddr Addr, count uint64, config Addr) *Error {
	const api = "aclrtSetMemcpyDesc"
	switch {
	case desc == 0:
		return isNull(api, "desc")
	case kind < 0 || kind >= maxKind:
		return unknownKind(api, kind)
	case srcAddr == 0:
		return isNull(api, "srcAddr")
	case dstAddr == 0:
		return isNull(api, "dstAddr")
	case count == 0:
		return invalid(api, "count", "is 0")
	case config != 0:
		return invalid(api, "config", "is reserved and must be NULL")
	}
	if err := t.descriptorCopies(api, kind); err != nil {
		return err
	}
	if count > math.MaxUint32 {
		return refused(api, "count", "%d bytes do not fit into a descriptor, which has room for 4 GiB minus one byte", count)
	}
	if desc%descAlign != 0 {
		return misaligned(api, desc)
	}
	size := uint64(t.rt.prod.DescSize)
	at, err := t.rt.locate(api, "desc", desc, size)
	if err != nil {
		return err
	}
	to, err := t.rt.locate(api, "dstAddr", dstAddr, count)
	if err != nil {
		return err
	}
	from, err := t.rt.locate(api, "srcAddr", srcAddr, count)
	if err != nil {
		return err
	}
	if at.Place != driver.OnDevice {
		return notDevice(api, "desc", desc, at)
	}
	if from.Place != driver.OnDevice {
		return notDevice(api, "srcAddr", srcAddr, from)
	}
	if to.Place != driver.OnDevice {
		return notDevice(api, "dstAddr", dstAddr, to)
	}
	if from.Device != to.Device {
		return refused(api, "dstAddr", "is memory of device %s, srcAddr of device %s: a descriptor copies inside one device", deviceName(t.rt.byPhys(to.Device)), deviceName(t.rt.byPhys(from.Device)))
	}
	if t.current() == nil {
		return noContext(api)
	}
	b := make([]byte, size)
	l := t.rt.layout()
	binary.LittleEndian.PutUint32(b[l.Length:], uint32(count))
	binary.LittleEndian.PutUint64(b[l.Src:], uint64(srcAddr))
	binary.LittleEndian.PutUint64(b[l.Dst:], uint64(dstAddr))
	return t.poke(api, desc, b)
}

// poke writes b into device memory now.
func (t *Thread) poke(api string, dst Addr, b []byte) *Error {
	err := t.run(api, driver.Op{Kind: driver.OpCopy, Dst: dst, Src: AddrOf(b), N: uint64(len(b))})
	runtime.KeepAlive(b)
	return err
}

func misaligned(api string, desc Addr) *Error {
	return refused(api, "desc", "%#x is not a multiple of 64", desc)
}

// MemcpyAsyncWithDesc is aclrtMemcpyAsyncWithDesc: the descriptor is read when the copy runs.
func (t *Thread) MemcpyAsyncWithDesc(desc Addr, kind abi.MemcpyKind, stream Handle) *Error {
	const api = "aclrtMemcpyAsyncWithDesc"
	switch {
	case desc == 0:
		return isNull(api, "desc")
	case kind < 0 || kind >= maxKind:
		return unknownKind(api, kind)
	case stream == 0:
		return invalid(api, "stream", "is NULL: the default stream is not accepted here")
	}
	if err := t.haveDescriptors(api); err != nil {
		return err
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if err := onlyInner(api, kind); err != nil {
		return err
	}
	size := uint64(t.rt.prod.DescSize)
	at, err := t.rt.locate(api, "desc", desc, size)
	if err != nil {
		return err
	}
	if at.Place != driver.OnDevice {
		return notDevice(api, "desc", desc, at)
	}
	if desc%descAlign != 0 {
		return misaligned(api, desc)
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if s, err = c.on(api, s); err != nil {
		return err
	}
	if err := t.rt.peerDenied(api, "desc", c.dev, desc, at); err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	if size == 32 {
		// The call itself rewrites the reserved words with control bits, at once and unordered with the stream.
		// It is no access of the program: nobody who watches is told.
		if err := t.rt.drv.Run(driver.Op{Kind: driver.OpCopy, Dst: desc, Src: AddrOf(controlWords), N: uint64(len(controlWords))}); err != nil {
			return fromDriver(api, "", err)
		}
	}
	return s.launch(api, t, task{op: driver.Op{Kind: driver.OpDesc, Src: desc, N: size, Layout: t.rt.layout(), Device: at.Device}})
}

// MemcpyAsyncWithOffset is aclrtMemcpyAsyncWithOffset: dst and src are device addresses of cells that hold the bases,
// and are read when the copy runs.
func (t *Thread) MemcpyAsyncWithOffset(dst Addr, destMax, dstDataOffset uint64, src Addr, count, srcDataOffset uint64, kind abi.MemcpyKind, stream Handle) *Error {
	const api = "aclrtMemcpyAsyncWithOffset"
	if count == 0 {
		return nil
	}
	if kind != abi.MemcpyInnerDeviceToDevice {
		return refused(api, "kind", "%d is not ACL_MEMCPY_INNER_DEVICE_TO_DEVICE (6)", kind)
	}
	if !t.rt.prod.OffsetCopy {
		return unsupported(api, "", "%s has no copies with offset", t.rt.prod.Name)
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	switch {
	case dst == 0:
		return refused(api, "dst", "is NULL")
	case src == 0:
		return refused(api, "src", "is NULL")
	case count > destMax:
		return tooMuch(api, 0, count, destMax)
	case count > maxOffsetCopy:
		return refused(api, "count", "%d bytes are more than 4 GiB", count)
	case srcDataOffset > maxDataOffset:
		return refused(api, "srcDataOffset", "%#x has more than 48 bits", srcDataOffset)
	case dstDataOffset > maxDataOffset:
		return refused(api, "dstDataOffset", "%#x has more than 48 bits", dstDataOffset)
	case dstDataOffset >= destMax:
		return refused(api, "dstDataOffset", "%d is not below destMax, %d", dstDataOffset, destMax)
	case count > destMax-dstDataOffset:
		return refused(api, "count", "%d bytes do not fit behind dstDataOffset %d into destMax, %d", count, dstDataOffset, destMax)
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if _, err := t.rt.locate(api, "src", src, 8); err != nil {
		return err
	}
	if _, err := t.rt.locate(api, "dst", dst, 8); err != nil {
		return err
	}
	if s, err = c.on(api, s); err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	return s.launch(api, t, task{op: driver.Op{
		Kind: driver.OpOffset, Dst: dst, Src: src, N: count,
		DstPitch: dstDataOffset, SrcPitch: srcDataOffset, Device: c.dev.phys,
	}})
}
