package launch

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// function is a kernel of a binary that was looked up.
type function struct {
	handle core.Handle    // immutable
	b      *binary        // immutable
	k      *kernel.Kernel // immutable

	ready atomic.Pointer[resolved] // result of the last resolve
}

// resolved is the code of a function in a module.
type resolved struct {
	dev    *core.OpenDevice
	module driver.Module
	code   [2]uintptr

	plain atomic.Pointer[driver.Launch] // see repeat.go; nil before the first plain launch
}

// findFunction returns the function of a handle.
func findFunction(t *core.Thread, api, arg string, h core.Handle) (*function, *core.Error) {
	if f := stateOf(t.Runtime).functions.Get(h); f != nil {
		return f, nil
	}
	return nil, core.Fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no function, or one whose binary was unloaded",
		uintptr(h)).Because(core.Gone, uintptr(h))
}

// function returns the function of a kernel, which is created once. p is the binary on a device, or nil.
func (b *binary) function(rt *core.Runtime, p *placed, k *kernel.Kernel) *function {
	full := described(p, k)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return nil
	}
	f := b.functions[k]
	if f == nil {
		f = &function{b: b, k: full}
		if f.handle = stateOf(rt).functions.Add(f); f.handle == 0 {
			return nil
		}
		b.functions[k] = f
	}
	return f
}

// codeIn returns the code of the halves in a module.
func (f *function) codeIn(api string, m driver.Module) (code [2]uintptr, err *core.Error) {
	for i, c := range f.k.Code {
		if c.Symbol == "" {
			continue
		}
		at, e := m.Code(c.Symbol)
		if e != nil {
			return code, core.Refused(api, "", "kernel %s: %v", f.k.Name, e)
		}
		code[i] = at
	}
	return code, nil
}

// resolve returns the code of f on the device of c, where a function of its binary was looked up.
func (f *function) resolve(api string, c *core.Context) (*resolved, *core.Error) {
	dev := c.Device.Opened.Load()
	if r := f.ready.Load(); r != nil && r.dev == dev && dev != nil {
		return r, nil
	}
	home, err := f.b.home(stateOf(c.Runtime), api, f.k)
	if err != nil {
		return nil, err
	}
	p, err := home.place(api, c, true)
	if err != nil {
		return nil, err
	}
	code, err := f.codeIn(api, p.module)
	if err != nil {
		return nil, err
	}
	r := &resolved{dev: p.dev, module: p.module, code: code}
	f.ready.Store(r)
	return r, nil
}

// BinaryGetFunction is aclrtBinaryGetFunction. All its failures have the same code.
func BinaryGetFunction(t *core.Thread, handle core.Handle, kernelName *byte, found *core.Handle) *core.Error {
	const api = "aclrtBinaryGetFunction"
	b, err := checkBinaryGetFunction(t, handle, kernelName, found)
	if err != nil {
		return err
	}
	*found = 0
	c := t.Current()
	if c == nil {
		return core.Refused(api, "",
			"this thread has no current context; call aclrtSetDevice in it first").Because(core.NoContext, 0)
	}
	p, err := b.place(api, c, !b.lazy)
	if err != nil {
		err.Code = abi.ErrRTParamInvalid
		return err
	}
	name := core.CString(kernelName)
	k := b.find(p, name)
	if k == nil {
		return core.Refused(api, "kernelName", "%s has no kernel %q", b.subject(), name)
	}
	return b.give(t, api, p, k, found)
}

// give returns the function of a kernel to the program.
func (b *binary) give(t *core.Thread, api string, p *placed, k *kernel.Kernel, found *core.Handle) *core.Error {
	f := b.function(t.Runtime, p, k)
	if f == nil {
		return core.Refused(api, "", "the binary was unloaded meanwhile, or there are no handles left")
	}
	*found = f.handle
	return nil
}

// BinaryGetFunctionByEntry is aclrtBinaryGetFunctionByEntry.
func BinaryGetFunctionByEntry(t *core.Thread, handle core.Handle, funcEntry uint64, found *core.Handle) *core.Error {
	const api = "aclrtBinaryGetFunctionByEntry"
	b, c, err := checkBinaryGetFunctionByEntry(t, handle, funcEntry, found)
	if err != nil {
		return err
	}
	*found = 0
	p, err := b.place(api, c, !b.lazy)
	if err != nil {
		return err
	}
	k := b.table.FindNumber(funcEntry)
	switch {
	case k == nil && b.table.Open:
		return core.Refused(api, "funcEntry", "the kernels of %v are found by their names only", b.table.Format)
	case k == nil || b.old:
		return core.Refused(api, "funcEntry", "no kernel of %s has the number %d", b.subject(), funcEntry)
	}
	return b.give(t, api, p, k, found)
}

// kernels returns the kernels of the binary, sorted by name.
func (b *binary) kernels() []*kernel.Kernel {
	all := b.table.Kernels()
	if b.forCPU() {
		core.Locked(&b.mu, func() { all = slices.AppendSeq(all, maps.Values(b.names)) })
		slices.SortFunc(all, func(a, b *kernel.Kernel) int { return cmp.Compare(a.Name, b.Name) })
	}
	return all
}

// knowsKernels refuses a binary whose kernels cannot be read.
func knowsKernels(_ *core.Thread, api string, b *binary) *core.Error {
	if !b.table.Open {
		return nil
	}
	return core.Unsupported(api, "binHandle", "a %v does not say which kernels it has", b.table.Format)
}

// BinaryGetFunctionCount is aclrtBinaryGetFunctionCount.
func BinaryGetFunctionCount(t *core.Thread, handle core.Handle, count *uint32) *core.Error {
	b, err := checkBinaryGetFunctionCount(t, handle, count)
	if err != nil {
		return err
	}
	*count = uint32(len(b.kernels()))
	return nil
}

// BinaryEnumerateFunctions is aclrtBinaryEnumerateFunctions.
func BinaryEnumerateFunctions(t *core.Thread, handle core.Handle, funcHandles *core.Handle,
	numFunctions uint32) *core.Error {
	const api = "aclrtBinaryEnumerateFunctions"
	b, c, err := checkBinaryEnumerateFunctions(t, handle, funcHandles, numFunctions)
	if err != nil {
		return err
	}
	p, err := b.place(api, c, !b.lazy)
	if err != nil {
		return err
	}
	all := b.kernels()
	list := core.Array(funcHandles, uint64(min(int(numFunctions), len(all))))
	for i := range list {
		var f core.Handle
		if err := b.give(t, api, p, all[i], &f); err != nil {
			return err
		}
		list[i] = f
	}
	return nil
}

// RegisterFuncSymbol is rtRegisterFuncSymbol: compiled code registers an address of the program for a kernel.
func RegisterFuncSymbol(t *core.Thread, handle core.Handle, symbol Addr, kernelName *byte,
	reserve Addr) *core.Error {
	const api = "rtRegisterFuncSymbol"
	b, err := checkRegisterFuncSymbol(t, handle, symbol, kernelName, reserve)
	if err != nil {
		return err
	}
	name := core.CString(kernelName)
	k := b.table.Find(name)
	if k == nil && b.table.Open { // the lookup checks whether it exists
		k = b.unlisted(name)
	}
	if k == nil {
		return core.Refused(api, "kernelName", "%s has no kernel %q", b.subject(), name)
	}
	f := b.function(t.Runtime, nil, k)
	if f == nil {
		return core.Refused(api, "binHandle", "the binary was unloaded meanwhile")
	}
	s := stateOf(t.Runtime)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.symbols[symbol] == nil {
		s.symbols[symbol] = f
	}
	return nil
}

// bySymbol returns the function for an address of the program, or nil.
func (s *state) bySymbol(symbol Addr) *function {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.symbols[symbol]
}

// GetFuncBySymbol is aclrtGetFuncBySymbol.
func GetFuncBySymbol(t *core.Thread, symbol Addr, found *core.Handle) *core.Error {
	const api = "aclrtGetFuncBySymbol"
	c, err := checkGetFuncBySymbol(t, symbol, found)
	if err != nil {
		return err
	}
	f := stateOf(t.Runtime).bySymbol(symbol)
	if f == nil {
		return core.Fail(api, abi.ErrRTInvalidDeviceFunction, "symbol", "%#x stands for no kernel", symbol)
	}
	if _, err := f.b.place(api, c, !f.b.lazy); err != nil {
		return err
	}
	*found = f.handle
	return nil
}

// GetFunctionAddr is aclrtGetFunctionAddr.
func GetFunctionAddr(t *core.Thread, handle core.Handle, aicAddr, aivAddr *Addr) *core.Error {
	f, c, err := checkGetFunctionAddr(t, handle, aicAddr, aivAddr)
	if f != nil { // also without a context
		*aicAddr, *aivAddr = 0, 0
	}
	if err != nil {
		return err
	}
	r, err := f.resolve("aclrtGetFunctionAddr", c)
	if err != nil {
		return err
	}
	*aicAddr, *aivAddr = r.code[kernel.CubeHalf], r.code[kernel.VectorHalf]
	return nil
}

// GetFunctionSize is aclrtGetFunctionSize.
func GetFunctionSize(t *core.Thread, handle core.Handle, aicSize, aivSize *uint64) *core.Error {
	f, err := checkGetFunctionSize(t, handle, aicSize, aivSize)
	if err != nil {
		return err
	}
	*aicSize, *aivSize = f.k.Code[kernel.CubeHalf].Size, f.k.Code[kernel.VectorHalf].Size
	return nil
}

// GetFunctionName is aclrtGetFunctionName.
func GetFunctionName(t *core.Thread, handle core.Handle, maxLen uint32, name *byte) *core.Error {
	f, err := checkGetFunctionName(t, handle, maxLen, name)
	if err != nil {
		return err
	}
	if uint64(maxLen) < uint64(len(f.k.Name))+1 {
		return core.Refused("aclrtGetFunctionName", "maxLen", "%d bytes are too few for %q", maxLen, f.k.Name)
	}
	core.PutString(core.Array(name, uint64(maxLen)), f.k.Name)
	return nil
}

// GetFunctionAttribute is aclrtGetFunctionAttribute. The ratio is written to the low 4 bytes only.
func GetFunctionAttribute(t *core.Thread, handle core.Handle, attrType abi.FuncAttribute,
	attrValue *int64) *core.Error {
	f, err := checkGetFunctionAttribute(t, handle, attrType, attrValue)
	if err != nil {
		return err
	}
	switch attrType {
	case abi.FuncAttrKernelType:
		*attrValue = int64(f.k.Type)
	case abi.FuncAttrKernelRatio:
		if t.Product("310B", "910") {
			return core.Unsupported("aclrtGetFunctionAttribute", "attrType", "%s has no ratio of cores",
				t.Runtime.Product.Name)
		}
		if f.k.Type == kernel.AICPU {
			return core.Refused("aclrtGetFunctionAttribute", "attrType",
				"%s runs on the AI CPU, which is one kind of core", f.k.Name)
		}
		r := f.ratio()
		low := uint64(r[kernel.VectorHalf]) | uint64(r[kernel.CubeHalf])<<16
		*attrValue = int64(uint64(*attrValue)&^0xFFFFFFFF | low)
	case abi.FuncAttrKernelSchedMode:
		*attrValue = 0
		if f.k.Batch {
			*attrValue = 1
		}
	}
	return nil
}

// ratio returns the numbers of cube and vector cores per block of a mix kernel, else 0.
func (f *function) ratio() [2]uint16 {
	if f.k.Type != kernel.Mix {
		return [2]uint16{}
	}
	return f.k.Ratio
}

// FunctionGetBinary is aclrtFunctionGetBinary.
func FunctionGetBinary(t *core.Thread, handle core.Handle, binHandle *core.Handle) *core.Error {
	f, err := checkFunctionGetBinary(t, handle, binHandle)
	if err != nil {
		return err
	}
	*binHandle = f.b.handle
	return nil
}

// FunctionGetParamCount is aclrtFunctionGetParamCount.
func FunctionGetParamCount(t *core.Thread, handle core.Handle, paramCount *uint64) *core.Error {
	const api = "aclrtFunctionGetParamCount"
	if err := checkFunctionGetParamCount(t, handle, paramCount); err != nil {
		return err
	}
	f, err := findFunction(t, api, "func", handle)
	if err == nil {
		err = noCPUParams(api, f)
	}
	if err != nil {
		return err
	}
	if !f.k.HasParams {
		return noParams(api, f)
	}
	*paramCount = uint64(len(f.k.Params))
	return nil
}

func noParams(api string, f *function) *core.Error {
	return core.Refused(api, "func", "the binary does not say which parameters %s has: it has no meta data", f.k.Name)
}

// FunctionGetParamInfo is aclrtFunctionGetParamInfo.
func FunctionGetParamInfo(t *core.Thread, handle core.Handle, paramIndex uint64, paramOffset,
	paramSize *uint64) *core.Error {
	const api = "aclrtFunctionGetParamInfo"
	if err := checkFunctionGetParamInfo(t, handle, paramIndex, paramOffset, paramSize); err != nil {
		return err
	}
	f, err := findFunction(t, api, "func", handle)
	if err == nil {
		err = noCPUParams(api, f)
	}
	switch {
	case err != nil:
		return err
	case !f.k.HasParams:
		return noParams(api, f)
	case paramIndex >= uint64(len(f.k.Params)):
		return core.Refused(api, "paramIndex", "%s has %d parameters, not more than %d", f.k.Name, len(f.k.Params),
			paramIndex)
	}
	p := f.k.Params[paramIndex]
	if paramOffset != nil {
		*paramOffset = uint64(p.Offset)
	}
	if paramSize != nil {
		*paramSize = uint64(p.Size)
	}
	return nil
}

// simtUB is the unified buffer that SIMT kernels may use, in bytes.
const simtUB = 229376

// FunctionGetAvailDynUbufPerBlock is aclrtFunctionGetAvailDynUbufPerBlock.
func FunctionGetAvailDynUbufPerBlock(t *core.Thread, handle core.Handle, flags uint32,
	dynamicUbufSize *uint64) *core.Error {
	const api = "aclrtFunctionGetAvailDynUbufPerBlock"
	if err := checkFunctionGetAvailDynUbufPerBlock(t, handle, flags, dynamicUbufSize); err != nil {
		return err
	}
	f, err := findFunction(t, api, "func", handle)
	switch {
	case err != nil:
		return err
	case !f.simt():
		*dynamicUbufSize = 0
		return nil
	case f.k.UB > simtUB:
		return core.Refused(api, "func", "the compiler uses %d bytes of unified buffer, more than %d", f.k.UB, simtUB)
	}
	*dynamicUbufSize = simtUB - uint64(f.k.UB)
	return nil
}

// simt reports whether the kernel is a SIMT kernel.
func (f *function) simt() bool { return f.k.Vector == kernel.SIMT || f.k.Vector == kernel.Both }
