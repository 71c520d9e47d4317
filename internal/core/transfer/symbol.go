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

// A symbol is the address of a host variable that stands for a variable on devices. On real devices a loader makes
// them known; here [Runtime.RegisterSymbol] does, which is ours. The variable gets its memory and its initial value
// on a device when it is first used there, and loses both when the device is reset.

// symbols are the variables that are known.
type symbols struct {
	mu     sync.RWMutex
	byName map[core.Addr]*symbolVariable // guarded by mu
}

// symbolVariable is one variable.
type symbolVariable struct {
	size uint64 // immutable
	init []byte // immutable; its first bytes, the others are 0

	// of, if not nil, finds the variable on the device of a context: it is one of a binary. Immutable.
	of func(api string, c *core.Context) (core.Addr, *core.Error)

	mu sync.Mutex
	on map[*core.Device]placedSymbol // guarded by mu
}

// placedSymbol is where a variable is on a device, as long as that is open.
type placedSymbol struct {
	dev  *core.OpenDevice
	addr core.Addr
}

// DefineSymbol makes symbol stand for a variable of size bytes on every device, which init is the beginning of; what
// follows is 0. To register it again with the same size changes nothing.
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
	// Read piece by piece: a size that is wrong is to fault, and not to take all memory first.
	const piece = 1 << 20
	var value []byte
	for all := core.ArrayOf(t, core.Pointer[byte](init), size); len(all) > 0; all = all[min(piece, len(all)):] {
		value = append(value, all[:min(piece, len(all))]...)
	}
	return DefineSymbol(t.Runtime, symbol, size, value)
}

// DefineVariable makes symbol stand for a variable of a binary, which of finds on a device. A symbol that is known
// already is left alone.
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

// place is where the variable is on the device of c, where it is put if it is not there yet.
func (v *symbolVariable) place(api string, c *core.Context) (core.Addr, *core.Error) {
	if v.of != nil {
		return v.of(api, c)
	}
	dev := c.Device.Opened.Load()
	if dev == nil { // the device was reset meanwhile
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
	// It is no access of the program: a watcher does not see it.
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
	case !current: // and here a reset
		return 0, core.NoCurrentContext(api)
	}
	return addr, nil
}

func notLoaded(api string, c *core.Context, err error) *core.Error {
	e := core.FromDriver(api, "symbol", err)
	e.Text = "the variable cannot be put on device " + core.DeviceName(c.Device)
	return e
}

// findSymbol finds a variable, and puts it on the current device.
func findSymbol(t *core.Thread, api string, symbol core.Addr) (*symbolVariable, core.Addr, *core.Error) {
	c := t.Current()
	if c == nil {
		return nil, 0, core.NoCurrentContext(api)
	}
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
	const api = "aclrtGetSymbolAddress"
	if symbol == 0 {
		return core.IsNull(api, "symbol")
	}
	if devPtr == nil {
		return core.IsNull(api, "devPtr")
	}
	_, addr, err := findSymbol(t, api, symbol)
	if err == nil {
		*devPtr = addr
	}
	return err
}

// GetSymbolSize is aclrtGetSymbolSize. It puts the variable on the device, too.
func GetSymbolSize(t *core.Thread, symbol core.Addr, size *uint64) *core.Error {
	const api = "aclrtGetSymbolSize"
	if symbol == 0 {
		return core.IsNull(api, "symbol")
	}
	if size == nil {
		return core.IsNull(api, "size")
	}
	v, _, err := findSymbol(t, api, symbol)
	if err == nil {
		*size = v.size
	}
	return err
}

// inSymbol is where offset bytes into a variable are on the current device, and how many bytes there are from there
// on. count of them are wanted.
func inSymbol(t *core.Thread, api string, symbol core.Addr, count, offset uint64) (core.Addr, uint64, *core.Error) {
	v, addr, err := findSymbol(t, api, symbol)
	if err != nil {
		return 0, 0, err
	}
	end, carry := bits.Add64(offset, count, 0)
	if carry != 0 {
		return 0, 0, core.Fail(api, abi.ErrFailure, "offset", "%d and count, %d, do not fit in 64 bits", offset,
			count).Because(core.OutOfBounds, 0)
	}
	if end > v.size {
		return 0, 0, core.Invalid(api, "count", "%d bytes at offset %d go past the end of the variable, which has %d",
			count, offset, v.size).Because(core.OutOfBounds, 0)
	}
	return addr + core.Addr(offset), v.size - offset, nil
}

// MemcpyFromSymbol is aclrtMemcpyFromSymbol.
func MemcpyFromSymbol(t *core.Thread, dst core.Addr, dstMax uint64, symbol core.Addr, count, offset uint64,
	kind abi.MemcpyKind) *core.Error {
	const api = "aclrtMemcpyFromSymbol"
	if count == 0 {
		return nil
	}
	src, err := fromSymbol(t, api, dst, dstMax, symbol, count, offset, kind)
	if err != nil {
		return err
	}
	return memcpy(t, api, dst, dstMax, src, count, abi.MemcpyDeviceToHost)
}

// MemcpyFromSymbolAsync is aclrtMemcpyFromSymbolAsync.
func MemcpyFromSymbolAsync(t *core.Thread, dst core.Addr, dstMax uint64, symbol core.Addr, count, offset uint64,
	kind abi.MemcpyKind, stream core.Handle) *core.Error {
	const api = "aclrtMemcpyFromSymbolAsync"
	if count == 0 {
		return nil
	}
	src, err := fromSymbol(t, api, dst, dstMax, symbol, count, offset, kind)
	if err != nil {
		return err
	}
	return memcpyAsync(t, api, dst, dstMax, src, count, abi.MemcpyDeviceToHost, stream)
}

// fromSymbol checks a copy out of a variable and says where it begins.
func fromSymbol(t *core.Thread, api string, dst core.Addr, dstMax uint64, symbol core.Addr, count, offset uint64,
	kind abi.MemcpyKind) (core.Addr, *core.Error) {
	switch {
	case symbol == 0:
		return 0, core.IsNull(api, "symbol")
	case dst == 0:
		return 0, core.IsNull(api, "dst")
	case count > dstMax:
		return 0, core.Invalid(api, "count", "%d bytes do not fit into dstMax, %d", count,
			dstMax).Because(core.OutOfBounds, 0).Of(dst, count)
	case kind != abi.MemcpyDeviceToHost && kind != abi.MemcpyDefault:
		return 0, core.Invalid(api, "kind", "%v is neither ACL_MEMCPY_DEVICE_TO_HOST nor ACL_MEMCPY_DEFAULT", kind)
	}
	src, _, err := inSymbol(t, api, symbol, count, offset)
	return src, err
}

// MemcpyToSymbol is aclrtMemcpyToSymbol.
func MemcpyToSymbol(t *core.Thread, symbol, src core.Addr, count, offset uint64, kind abi.MemcpyKind) *core.Error {
	const api = "aclrtMemcpyToSymbol"
	if count == 0 {
		return nil
	}
	dst, room, err := toSymbol(t, api, symbol, src, count, offset, kind)
	if err != nil {
		return err
	}
	return memcpy(t, api, dst, room, src, count, abi.MemcpyHostToDevice)
}

// MemcpyToSymbolAsync is aclrtMemcpyToSymbolAsync.
func MemcpyToSymbolAsync(t *core.Thread, symbol, src core.Addr, count, offset uint64, kind abi.MemcpyKind,
	stream core.Handle) *core.Error {
	const api = "aclrtMemcpyToSymbolAsync"
	if count == 0 {
		return nil
	}
	dst, room, err := toSymbol(t, api, symbol, src, count, offset, kind)
	if err != nil {
		return err
	}
	return memcpyAsync(t, api, dst, room, src, count, abi.MemcpyHostToDevice, stream)
}

// toSymbol checks a copy into a variable and says where it ends up.
func toSymbol(t *core.Thread, api string, symbol, src core.Addr, count, offset uint64, kind abi.MemcpyKind) (core.Addr,
	uint64, *core.Error) {
	switch {
	case symbol == 0:
		return 0, 0, core.IsNull(api, "symbol")
	case src == 0:
		return 0, 0, core.IsNull(api, "src")
	case kind != abi.MemcpyHostToDevice && kind != abi.MemcpyDefault:
		return 0, 0, core.Invalid(api, "kind", "%v is neither ACL_MEMCPY_HOST_TO_DEVICE nor ACL_MEMCPY_DEFAULT", kind)
	}
	return inSymbol(t, api, symbol, count, offset)
}
