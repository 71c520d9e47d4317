package transfer

import (
	"bytes"
	"math/bits"
	"runtime"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
)

// A symbol is the address of a host variable that stands for a variable on devices. On real devices a loader registers
// symbols; here ropeway's own [Runtime.RegisterSymbol] does. The variable gets its memory and its initial value on a
// device when it is first used there, and loses both when the device is reset.

// symbols holds the registered variables.
type symbols struct {
	mu     sync.RWMutex
	byName map[core.Addr]*symbolVariable // guarded by mu
}

// symbolVariable is one variable.
type symbolVariable struct {
	size uint64 // immutable
	init []byte // immutable; initial value of the first bytes; the others are 0

	// of, if not nil, returns the address of a binary's variable on the device of a context. Immutable.
	of func(api string, c *core.Context) (core.Addr, *core.Error)

	mu sync.Mutex
	on map[*core.Device]placedSymbol // guarded by mu
}

// placedSymbol is the address of a variable on a device, while that is open.
type placedSymbol struct {
	dev  *core.OpenDevice
	addr core.Addr
}

// DefineSymbol makes symbol stand for a variable of size bytes on every device. It begins with init; the rest is 0.
// Registering it again with the same size changes nothing.
func DefineSymbol(rt *core.Runtime, symbol core.Addr, size uint64, init []byte) *core.Error {
	const api = "ropewayRegisterSymbol"
	switch {
	case symbol == 0:
		return core.IsNull(api, "symbol")
	case size == 0:
		return core.Invalid(api, "size", "is 0")
	case uint64(len(init)) > size:
		return core.Invalid(api, "init", "has %d bytes, more than the variable, %d", len(init), size)
	case size > 1<<40:
		return core.Fail(api, abi.ErrRTMemoryAllocation, "size", "%d bytes are too many for a variable", size)
	}
	s := &transferOf(rt).symbols
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.byName[symbol]; v != nil {
		if v.size != size {
			return core.Invalid(api, "size", "%#x is registered already, with %d bytes", symbol, v.size)
		}
		return nil
	}
	if s.byName == nil {
		s.byName = map[core.Addr]*symbolVariable{}
	}
	s.byName[symbol] = &symbolVariable{size: size, init: bytes.Clone(init), on: map[*core.Device]placedSymbol{}}
	return nil
}

// RegisterSymbol is ropewayRegisterSymbol, for C: init is the address of size bytes, or NULL for zeros.
func RegisterSymbol(t *core.Thread, symbol core.Addr, size uint64, init core.Addr) *core.Error {
	if init == 0 || symbol == 0 || size == 0 {
		return DefineSymbol(t.Runtime, symbol, size, nil)
	}
	// Read in pieces, so that a wrong size faults before it uses up memory.
	const piece = 1 << 20
	var value []byte
	for all := core.ArrayOf(t, core.Pointer[byte](init), size); len(all) > 0; all = all[min(piece, len(all)):] {
		value = append(value, all[:min(piece, len(all))]...)
	}
	return DefineSymbol(t.Runtime, symbol, size, value)
}

// DefineVariable makes symbol stand for a variable of a binary, whose address on a device of returns. It does not
// change a registered symbol.
func DefineVariable(rt *core.Runtime, symbol core.Addr, size uint64,
	of func(api string, c *core.Context) (core.Addr, *core.Error)) {
	s := &transferOf(rt).symbols
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[core.Addr]*symbolVariable{}
	}
	if s.byName[symbol] == nil {
		s.byName[symbol] = &symbolVariable{size: size, of: of}
	}
}

// place returns the address of the variable on the device of c, and allocates it there if necessary.
func (v *symbolVariable) place(api string, c *core.Context) (core.Addr, *core.Error) {
	if v.of != nil {
		return v.of(api, c)
	}
	dev := c.Device.Opened.Load()
	if dev == nil { // the device was reset since
		return 0, core.NoCurrentContext(api)
	}
	v.mu.Lock()
	p := v.on[c.Device]
	v.mu.Unlock()
	if p.dev == dev {
		return p.addr, nil
	}
	rounded, ok := memory.Round(v.size, 0)
	if !ok {
		return 0, core.Fail(api, abi.ErrRTMemoryAllocation, "symbol", "a variable of %d bytes is too large", v.size)
	}
	addr, err := dev.Alloc(rounded, driver.PageNormal)
	if err != nil {
		return 0, notLoaded(api, c, err)
	}
	drop := func() { dev.Free(addr) } //nolint:errcheck // ours, allocated above
	// It is not an access of the program: the checker does not see it.
	n := uint64(len(v.init))
	if n > 0 {
		err = c.Runtime.Driver.Run(driver.Op{Kind: driver.OpCopy, Dst: addr, Src: core.AddrOf(v.init), N: n})
		runtime.KeepAlive(v.init)
	}
	if err == nil && n < v.size {
		err = c.Runtime.Driver.Run(driver.Op{Kind: driver.OpFill, Dst: addr + core.Addr(n), Width: 1, N: v.size - n})
	}
	if err != nil {
		drop()
		return 0, notLoaded(api, c, err)
	}
	v.mu.Lock()
	p = v.on[c.Device]
	current := c.Device.Opened.Load() == dev
	if p.dev != dev && current {
		v.on[c.Device] = placedSymbol{dev, addr}
	}
	v.mu.Unlock()
	switch {
	case p.dev == dev: // another thread was faster
		drop()
		return p.addr, nil
	case !current: // the device was reset
		return 0, core.NoCurrentContext(api)
	}
	return addr, nil
}

func notLoaded(api string, c *core.Context, err error) *core.Error {
	e := core.FromDriver(api, "symbol", err)
	e.Text = "the variable cannot be put on device " + core.DeviceName(c.Device)
	return e
}

// findSymbol returns a variable and its address on the device of c.
func findSymbol(t *core.Thread, api string, c *core.Context, symbol core.Addr) (*symbolVariable, core.Addr,
	*core.Error) {
	s := &transferOf(t.Runtime).symbols
	s.mu.RLock()
	v := s.byName[symbol]
	s.mu.RUnlock()
	if v == nil {
		return nil, 0, core.Fail(api, abi.ErrRTInvalidSymbol, "symbol",
			"%#x stands for no variable on devices; ropewayRegisterSymbol makes one", symbol)
	}
	addr, err := v.place(api, c)
	return v, addr, err
}

// GetSymbolAddress is aclrtGetSymbolAddress.
func GetSymbolAddress(t *core.Thread, symbol core.Addr, devPtr *core.Addr) *core.Error {
	c, err := checkGetSymbolAddress(t, symbol, devPtr)
	if err != nil {
		return err
	}
	_, addr, err := findSymbol(t, "aclrtGetSymbolAddress", c, symbol)
	if err == nil {
		*devPtr = addr
	}
	return err
}

// GetSymbolSize is aclrtGetSymbolSize. It also allocates the variable on the device.
func GetSymbolSize(t *core.Thread, symbol core.Addr, size *uint64) *core.Error {
	c, err := checkGetSymbolSize(t, symbol, size)
	if err != nil {
		return err
	}
	v, _, err := findSymbol(t, "aclrtGetSymbolSize", c, symbol)
	if err == nil {
		*size = v.size
	}
	return err
}

// inSymbol returns where offset bytes into a variable are on the device of c, if count bytes are there.
func inSymbol(t *core.Thread, api string, c *core.Context, symbol core.Addr, count, offset uint64) (core.Addr,
	*core.Error) {
	v, addr, err := findSymbol(t, api, c, symbol)
	if err != nil {
		return 0, err
	}
	end, carry := bits.Add64(offset, count, 0)
	if carry != 0 {
		return 0, core.Fail(api, abi.ErrFailure, "offset", "%d and count, %d, do not fit in 64 bits", offset,
			count).Because(core.OutOfBounds, 0)
	}
	if end > v.size {
		return 0, core.Invalid(api, "count", "%d bytes at offset %d go past the end of the variable, which has %d",
			count, offset, v.size).Because(core.OutOfBounds, 0)
	}
	return addr + core.Addr(offset), nil
}

// MemcpyFromSymbol is aclrtMemcpyFromSymbol.
func MemcpyFromSymbol(t *core.Thread, dst core.Addr, dstMax uint64, symbol core.Addr, count, offset uint64,
	kind abi.MemcpyKind) *core.Error {
	const api = "aclrtMemcpyFromSymbol"
	c, done, err := checkMemcpyFromSymbol(t, dst, dstMax, symbol, count, offset, kind)
	if done {
		return err
	}
	src, err := inSymbol(t, api, c, symbol, count, offset)
	if err != nil {
		return err
	}
	return memcpy(t, api, dst, src, count, abi.MemcpyDeviceToHost)
}

// MemcpyFromSymbolAsync is aclrtMemcpyFromSymbolAsync.
func MemcpyFromSymbolAsync(t *core.Thread, dst core.Addr, dstMax uint64, symbol core.Addr, count, offset uint64,
	kind abi.MemcpyKind, stream core.Handle) *core.Error {
	const api = "aclrtMemcpyFromSymbolAsync"
	c, done, err := checkMemcpyFromSymbolAsync(t, dst, dstMax, symbol, count, offset, kind, stream)
	if done {
		return err
	}
	src, err := inSymbol(t, api, c, symbol, count, offset)
	if err != nil {
		return err
	}
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	return memcpyAsync(t, api, c, s, dst, src, count, abi.MemcpyDeviceToHost, stream)
}

// fitsDst refuses more bytes than dstMax has room for.
func fitsDst(_ *core.Thread, api string, dst core.Addr, dstMax, count uint64) *core.Error {
	if count <= dstMax {
		return nil
	}
	return core.Invalid(api, "count", "%d bytes do not fit into dstMax, %d", count,
		dstMax).Because(core.OutOfBounds, 0).Of(dst, count)
}

// MemcpyToSymbol is aclrtMemcpyToSymbol.
func MemcpyToSymbol(t *core.Thread, symbol, src core.Addr, count, offset uint64, kind abi.MemcpyKind) *core.Error {
	const api = "aclrtMemcpyToSymbol"
	c, done, err := checkMemcpyToSymbol(t, symbol, src, count, offset, kind)
	if done {
		return err
	}
	dst, err := inSymbol(t, api, c, symbol, count, offset)
	if err != nil {
		return err
	}
	return memcpy(t, api, dst, src, count, abi.MemcpyHostToDevice)
}

// MemcpyToSymbolAsync is aclrtMemcpyToSymbolAsync.
func MemcpyToSymbolAsync(t *core.Thread, symbol, src core.Addr, count, offset uint64, kind abi.MemcpyKind,
	stream core.Handle) *core.Error {
	const api = "aclrtMemcpyToSymbolAsync"
	c, done, err := checkMemcpyToSymbolAsync(t, symbol, src, count, offset, kind, stream)
	if done {
		return err
	}
	dst, err := inSymbol(t, api, c, symbol, count, offset)
	if err != nil {
		return err
	}
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	return memcpyAsync(t, api, c, s, dst, src, count, abi.MemcpyHostToDevice, stream)
}
