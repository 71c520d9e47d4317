package core

import (
	"bytes"
	"math/bits"
	"runtime"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// A symbol is the address of a host variable that stands for a variable on devices. On real devices a loader makes them known; here
// [Runtime.RegisterSymbol] does, which is ours. The variable gets its memory and its initial value on a device when it is first used there, and loses
// both when the device is reset.

// symbols are the variables that are known.
type symbols struct {
	mu     sync.RWMutex
	byName map[Addr]*symbolVariable // guarded by mu
}

// symbolVariable is one variable.
type symbolVariable struct {
	size uint64 // immutable
	init []byte // immutable; its first bytes, the others are 0

	mu sync.Mutex
	on map[*Device]placedSymbol // guarded by mu
}

// placedSymbol is where a variable is on a device, as long as that is open.
type placedSymbol struct {
	dev  *openDevice
	addr Addr
}

// RegisterSymbol makes symbol stand for a variable of size bytes on every device, which init is the beginning of; what follows is 0. To
// register it again with the same size changes nothing.
func (rt *Runtime) RegisterSymbol(symbol Addr, size uint64, init []byte) *Error {
	const api = "ropewayRegisterSymbol"
	switch {
	case symbol == 0:
		return isNull(api, "symbol")
	case size == 0:
		return invalid(api, "size", "is 0")
	case uint64(len(init)) > size:
		return invalid(api, "init", "has %d bytes, more than the variable, %d", len(init), size)
	case size > 1<<40:
		return fail(api, abi.ErrRTMemoryAllocation, "size", "%d bytes are too many for a variable", size)
	}
	s := &transferOf(rt).symbols
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.byName[symbol]; v != nil {
		if v.size != size {
			return invalid(api, "size", "%#x is registered already, with %d bytes", symbol, v.size)
		}
		return nil
	}
	if s.byName == nil {
		s.byName = map[Addr]*symbolVariable{}
	}
	s.byName[symbol] = &symbolVariable{size: size, init: bytes.Clone(init), on: map[*Device]placedSymbol{}}
	return nil
}

// RegisterSymbol is ropewayRegisterSymbol, for C: init is the address of size bytes, or NULL for zeros.
func (t *Thread) RegisterSymbol(symbol Addr, size uint64, init Addr) *Error {
	if init == 0 || symbol == 0 || size == 0 {
		return t.rt.RegisterSymbol(symbol, size, nil)
	}
	// Read piece by piece: a size that is wrong is to fault, and not to take all memory first.
	const piece = 1 << 20
	var value []byte
	for all := arrayOf(t, pointer[byte](init), size); len(all) > 0; all = all[min(piece, len(all)):] {
		value = append(value, all[:min(piece, len(all))]...)
	}
	return t.rt.RegisterSymbol(symbol, size, value)
}

// place is where the variable is on the device of c, where it is put if it is not there yet.
func (v *symbolVariable) place(api string, c *Context) (Addr, *Error) {
	dev := c.dev.dev.Load()
	if dev == nil { // the device was reset meanwhile
		return 0, noContext(api)
	}
	v.mu.Lock()
	p := v.on[c.dev]
	v.mu.Unlock()
	if p.dev == dev {
		return p.addr, nil
	}
	rounded, ok := round(v.size, 0)
	if !ok {
		return 0, fail(api, abi.ErrRTMemoryAllocation, "symbol", "a variable of %d bytes is too large", v.size)
	}
	addr, err := dev.Alloc(rounded, driver.PageNormal)
	if err != nil {
		return 0, notLoaded(api, c, err)
	}
	drop := func() { dev.Free(addr) } //nolint:errcheck // ours, allocated above
	// It is no access of the program: nobody who watches is told.
	n := uint64(len(v.init))
	if n > 0 {
		err = c.rt.drv.Run(driver.Op{Kind: driver.OpCopy, Dst: addr, Src: AddrOf(v.init), N: n})
		runtime.KeepAlive(v.init)
	}
	if err == nil && n < v.size {
		err = c.rt.drv.Run(driver.Op{Kind: driver.OpFill, Dst: addr + Addr(n), Width: 1, N: v.size - n})
	}
	if err != nil {
		drop()
		return 0, notLoaded(api, c, err)
	}
	v.mu.Lock()
	p = v.on[c.dev]
	current := c.dev.dev.Load() == dev
	if p.dev != dev && current {
		v.on[c.dev] = placedSymbol{dev, addr}
	}
	v.mu.Unlock()
	switch {
	case p.dev == dev: // another thread was faster
		drop()
		return p.addr, nil
	case !current: // and here a reset
		return 0, noContext(api)
	}
	return addr, nil
}

func notLoaded(api string, c *Context, err error) *Error {
	e := fromDriver(api, "symbol", err)
	e.Text = "the variable cannot be put on device " + deviceName(c.dev)
	return e
}

// symbol finds a variable, and puts it on the current device.
func (t *Thread) symbol(api string, symbol Addr) (*symbolVariable, Addr, *Error) {
	c := t.current()
	if c == nil {
		return nil, 0, noContext(api)
	}
	s := &transferOf(t.rt).symbols
	s.mu.RLock()
	v := s.byName[symbol]
	s.mu.RUnlock()
	if v == nil {
		return nil, 0, fail(api, abi.ErrRTInvalidSymbol, "symbol", "%#x stands for no variable on devices; ropewayRegisterSymbol makes one", symbol)
	}
	addr, err := v.place(api, c)
	return v, addr, err
}

// GetSymbolAddress is aclrtGetSymbolAddress.
func (t *Thread) GetSymbolAddress(symbol Addr, devPtr *Addr) *Error {
	const api = "aclrtGetSymbolAddress"
	if symbol == 0 {
		return isNull(api, "symbol")
	}
	if devPtr == nil {
		return isNull(api, "devPtr")
	}
	_, addr, err := t.symbol(api, symbol)
	if err == nil {
		*devPtr = addr
	}
	return err
}

// GetSymbolSize is aclrtGetSymbolSize. It puts the variable on the device, too.
func (t *Thread) GetSymbolSize(symbol Addr, size *uint64) *Error {
	const api = "aclrtGetSymbolSize"
	if symbol == 0 {
		return isNull(api, "symbol")
	}
	if size == nil {
		return isNull(api, "size")
	}
	v, _, err := t.symbol(api, symbol)
	if err == nil {
		*size = v.size
	}
	return err
}

// inSymbol is where offset bytes into a variable are on the current device, and how many bytes there are from there on. count of them are wanted.
func (t *Thread) inSymbol(api string, symbol Addr, count, offset uint64) (Addr, uint64, *Error) {
	v, addr, err := t.symbol(api, symbol)
	if err != nil {
		return 0, 0, err
	}
	end, carry := bits.Add64(offset, count, 0)
	if carry != 0 {
		return 0, 0, fail(api, abi.ErrFailure, "offset", "%d and count, %d, do not fit in 64 bits", offset, count).because(OutOfBounds, 0)
	}
	if end > v.size {
		return 0, 0, invalid(api, "count", "%d bytes at offset %d go past the end of the variable, which has %d", count, offset, v.size).because(OutOfBounds, 0)
	}
	return addr + Addr(offset), v.size - offset, nil
}

// MemcpyFromSymbol is aclrtMemcpyFromSymbol.
func (t *Thread) MemcpyFromSymbol(dst Addr, dstMax uint64, symbol Addr, count, offset uint64, kind abi.MemcpyKind) *Error {
	const api = "aclrtMemcpyFromSymbol"
	if count == 0 {
		return nil
	}
	src, err := t.fromSymbol(api, dst, dstMax, symbol, count, offset, kind)
	if err != nil {
		return err
	}
	return t.memcpy(api, dst, dstMax, src, count, abi.MemcpyDeviceToHost)
}

// MemcpyFromSymbolAsync is aclrtMemcpyFromSymbolAsync.
func (t *Thread) MemcpyFromSymbolAsync(dst Addr, dstMax uint64, symbol Addr, count, offset uint64, kind abi.MemcpyKind, stream Handle) *Error {
	const api = "aclrtMemcpyFromSymbolAsync"
	if count == 0 {
		return nil
	}
	src, err := t.fromSymbol(api, dst, dstMax, symbol, count, offset, kind)
	if err != nil {
		return err
	}
	return t.memcpyAsync(api, dst, dstMax, src, count, abi.MemcpyDeviceToHost, stream)
}

// fromSymbol checks a copy out of a variable and says where it begins.
func (t *Thread) fromSymbol(api string, dst Addr, dstMax uint64, symbol Addr, count, offset uint64, kind abi.MemcpyKind) (Addr, *Error) {
	switch {
	case symbol == 0:
		return 0, isNull(api, "symbol")
	case dst == 0:
		return 0, isNull(api, "dst")
	case count > dstMax:
		return 0, invalid(api, "count", "%d bytes do not fit into dstMax, %d", count, dstMax).because(OutOfBounds, 0).of(dst, count)
	case kind != abi.MemcpyDeviceToHost && kind != abi.MemcpyDefault:
		return 0, invalid(api, "kind", "%v is neither ACL_MEMCPY_DEVICE_TO_HOST nor ACL_MEMCPY_DEFAULT", kind)
	}
	src, _, err := t.inSymbol(api, symbol, count, offset)
	return src, err
}

// MemcpyToSymbol is aclrtMemcpyToSymbol.
func (t *Thread) MemcpyToSymbol(symbol, src Addr, count, offset uint64, kind abi.MemcpyKind) *Error {
	const api = "aclrtMemcpyToSymbol"
	if count == 0 {
		return nil
	}
	dst, room, err := t.toSymbol(api, symbol, src, count, offset, kind)
	if err != nil {
		return err
	}
	return t.memcpy(api, dst, room, src, count, abi.MemcpyHostToDevice)
}

// MemcpyToSymbolAsync is aclrtMemcpyToSymbolAsync.
func (t *Thread) MemcpyToSymbolAsync(symbol, src Addr, count, offset uint64, kind abi.MemcpyKind, stream Handle) *Error {
	const api = "aclrtMemcpyToSymbolAsync"
	if count == 0 {
		return nil
	}
	dst, room, err := t.toSymbol(api, symbol, src, count, offset, kind)
	if err != nil {
		return err
	}
	return t.memcpyAsync(api, dst, room, src, count, abi.MemcpyHostToDevice, stream)
}

// toSymbol checks a copy into a variable and says where it ends up.
func (t *Thread) toSymbol(api string, symbol, src Addr, count, offset uint64, kind abi.MemcpyKind) (Addr, uint64, *Error) {
	switch {
	case symbol == 0:
		return 0, 0, isNull(api, "symbol")
	case src == 0:
		return 0, 0, isNull(api, "src")
	case kind != abi.MemcpyHostToDevice && kind != abi.MemcpyDefault:
		return 0, 0, invalid(api, "kind", "%v is neither ACL_MEMCPY_HOST_TO_DEVICE nor ACL_MEMCPY_DEFAULT", kind)
	}
	return t.inSymbol(api, symbol, count, offset)
}
