package conformance

import (
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
)

func proveFunctions() {
	var a, b core.Addr
	prove("aclrtGetFunctionAddr", "not-loadable", func(e *env) *core.Error {
		return failed(e, launch.GetFunctionAddr(e.th, lazy(e.launches(), unloadable), &a, &b))
	})
	behaves("aclrtGetFunctionAddr", func(e *env) {
		e.ok(launch.GetFunctionAddr(e.th, e.kernel("duo"), &a, &b))
		if a == 0 || b == 0 || a == b {
			e.Errorf("a mix kernel is at %#x and %#x", a, b)
		}
		e.ok(launch.GetFunctionAddr(e.th, e.kernel("times"), &a, &b))
		if a == 0 || b != 0 {
			e.Errorf("a kernel for cube cores is at %#x and %#x", a, b)
		}
	})
	behaves("aclrtGetFunctionSize", func(e *env) {
		var aic, aiv uint64
		e.ok(launch.GetFunctionSize(e.stranger(), e.kernel("duo"), &aic, &aiv))
		if aic == 0 || aiv == 0 {
			e.Errorf("a mix kernel has %d and %d bytes", aic, aiv)
		}
	})
	name := make([]byte, 16)
	prove("aclrtGetFunctionName", "maxLen-too-small", func(e *env) *core.Error {
		return launch.GetFunctionName(e.th, e.kernel("times"),
			5, &name[0])
	})
	behaves("aclrtGetFunctionName", func(e *env) {
		e.ok(launch.GetFunctionName(e.th, e.kernel("duo"), 4, &name[0]))
		if string(name[:4]) != "duo\x00" {
			e.Errorf("%q", name)
		}
	})
	prove("aclrtGetFunctionAttribute", "ratio-not-offered", func(e *env) *core.Error {
		var v int64
		for _, p := range []string{"310B", "910"} {
			o := e.on(machine{product: p})
			e.want(launch.GetFunctionAttribute(o.th, o.kernel("duo"), abi.FuncAttrKernelRatio, &v),
				abi.ErrRTFeatureNotSupport)
		}
		o := e.on(machine{product: "310B"})
		return launch.GetFunctionAttribute(o.th, o.kernel("duo"), abi.FuncAttrKernelRatio, &v)
	})
	behaves("aclrtGetFunctionAttribute", func(e *env) {
		v := int64(-1)
		e.ok(launch.GetFunctionAttribute(e.th, e.kernel("duo"), abi.FuncAttrKernelRatio, &v))
		if v != -1<<32 {
			e.Errorf("the ratio of a kernel that has none is %#x: the upper half is not its", v)
		}
		e.ok(launch.GetFunctionAttribute(e.th, e.kernel("duo"), abi.FuncAttrKernelType, &v))
		if v != 3 {
			e.Errorf("type %d, want 3", v)
		}
		e.ok(launch.GetFunctionAttribute(e.th, e.kernel("duo"), abi.FuncAttrKernelSchedMode, &v))
		if v != 0 {
			e.Errorf("scheduling %d, want 0", v)
		}
	})
	behaves("aclrtFunctionGetBinary", func(e *env) {
		bin := e.binary(kernelSource)
		var f, got core.Handle
		e.ok(launch.BinaryGetFunction(e.th, bin, ctext("times"), &f))
		e.ok(launch.FunctionGetBinary(e.stranger(), f, &got))
		if got != bin {
			e.Errorf("%#x, want %#x", got, bin)
		}
	})
	var n, size uint64
	prove("aclrtFunctionGetParamCount", "func-not-live",
		func(e *env) *core.Error { return launch.FunctionGetParamCount(e.launches().th, garbage, &n) })
	prove("aclrtFunctionGetParamInfo", "func-not-live", func(e *env) *core.Error {
		return launch.FunctionGetParamInfo(e.launches().th,
			garbage, 9, &n, &size)
	})
	prove("aclrtFunctionGetAvailDynUbufPerBlock", "func-not-live", func(e *env) *core.Error {
		return launch.FunctionGetAvailDynUbufPerBlock(e.launches().th, garbage, 0, &n)
	})
	prove("aclrtFunctionGetParamCount", "no-parameter-data", func(e *env) *core.Error {
		return launch.FunctionGetParamCount(e.th,
			e.kernel("times"), &n)
	})
	behaves("aclrtFunctionGetParamCount", func(e *env) {
		e.ok(launch.FunctionGetParamCount(e.stranger(), e.kernel("put"), &n))
		if n != 2 {
			e.Errorf("%d, want 2", n)
		}
	})
	prove("aclrtFunctionGetParamInfo", "no-parameter-data", func(e *env) *core.Error {
		return launch.FunctionGetParamInfo(e.th,
			e.kernel("times"), 9, &n, &size)
	})
	prove("aclrtFunctionGetParamInfo", "index-over-parameters", func(e *env) *core.Error {
		return launch.FunctionGetParamInfo(e.th,
			e.kernel("put"), 2, &n, &size)
	})
	behaves("aclrtFunctionGetParamInfo", func(e *env) {
		e.ok(launch.FunctionGetParamInfo(e.th, e.kernel("put"), 1, &n, nil))
		e.ok(launch.FunctionGetParamInfo(e.th, e.kernel("put"), 1, nil, &size))
		if n != 8 || size != 4 {
			e.Errorf("%d bytes at %d", size, n)
		}
	})
	prove("aclrtFunctionGetAvailDynUbufPerBlock", "not-simt", func(e *env) *core.Error {
		n = 9
		err := launch.FunctionGetAvailDynUbufPerBlock(e.th, e.kernel("times"), 0, &n)
		if n != 0 {
			e.Errorf("%d, want 0", n)
		}
		return err
	})
	prove("aclrtFunctionGetAvailDynUbufPerBlock", "compiler-buffer-over-229376",
		func(e *env) *core.Error { return launch.FunctionGetAvailDynUbufPerBlock(e.th, e.kernel("fat"), 0, &n) })
	behaves("aclrtFunctionGetAvailDynUbufPerBlock", func(e *env) {
		e.ok(launch.FunctionGetAvailDynUbufPerBlock(e.th, e.kernel("put"), 0, &n))
		if n != 229376-256 {
			e.Errorf("%d, want %d", n, 229376-256)
		}
	})
	behaves("aclrtGetHardwareSyncAddr", func(e *env) {
		e.ok(launch.GetHardwareSyncAddr(e.th, &a))
		e.ok(launch.GetHardwareSyncAddr(e.th, &b))
		if a == 0 || a != b {
			e.Errorf("%#x, then %#x", a, b)
		}
	})
	var can int32
	prove("aclrtCheckArchCompatibility", "socVersion-empty", func(e *env) *core.Error {
		return launch.CheckArchCompatibility(e.th,
			ctext(""), &can)
	})
	prove("aclrtCheckArchCompatibility", "product-unknown", func(e *env) *core.Error {
		return launch.CheckArchCompatibility(e.th,
			ctext("Ascend1"), &can)
	})
	behaves("aclrtCheckArchCompatibility", func(e *env) {
		for name, want := range map[string]int32{"Ascend910B1": 1, "Ascend910_9391": 1, "Ascend910A": 0,
			"Ascend310P3": 0, "Ascend950PR_9599": 0} {
			e.ok(launch.CheckArchCompatibility(e.stranger(), ctext(name), &can))
			if can != want {
				e.Errorf("%s: %d, want %d", name, can, want)
			}
		}
	})
}

func proveBuilder() {
	value := make([]byte, 70<<10)
	at := core.AddrOf(value)
	var p core.Handle
	open := func(e *env) (h core.Handle) {
		e.ok(launch.KernelArgsInit(e.th, e.kernel("times"), &h))
		return h
	}
	final := func(e *env) core.Handle { return built(e, e.kernel("times"), value[:8]) }
	// closed has a placeholder whose buffer was taken.
	closed := func(e *env) (h, hole core.Handle) {
		var room core.Addr
		h = open(e)
		e.ok(launch.KernelArgsAppendPlaceHolder(e.th, h, &hole))
		e.ok(launch.KernelArgsGetPlaceHolderBuffer(e.th, h, hole, 8, &room))
		return h, hole
	}
	full := func(e *env) core.Handle {
		h := open(e)
		for range 128 {
			e.ok(launch.KernelArgsAppend(e.th, h, at, 8, &p))
		}
		return h
	}
	filled := func(e *env, n uint64) core.Handle {
		h := open(e)
		e.ok(launch.KernelArgsAppend(e.th, h, at, n, &p))
		return h
	}
	add := func(e *env, h core.Handle) *core.Error { return launch.KernelArgsAppend(e.th, h, at, 8, &p) }
	prove("aclrtKernelArgsAppend", "finalized", func(e *env) *core.Error { return add(e, final(e)) })
	prove("aclrtKernelArgsAppend", "placeholder-taken", func(e *env) *core.Error {
		h, _ := closed(e)
		return add(e, h)
	})
	prove("aclrtKernelArgsAppend", "too-many-parameters", func(e *env) *core.Error { return add(e, full(e)) })
	prove("aclrtKernelArgsAppend", "parameter-too-large", func(e *env) *core.Error {
		return launch.KernelArgsAppend(e.th, open(e), at,
			65537, &p)
	})
	hole := func(e *env, h core.Handle) *core.Error { return launch.KernelArgsAppendPlaceHolder(e.th, h, &p) }
	prove("aclrtKernelArgsAppendPlaceHolder", "placeholder-taken", func(e *env) *core.Error {
		h, _ := closed(e)
		return hole(e, h)
	})
	prove("aclrtKernelArgsAppendPlaceHolder", "finalized", func(e *env) *core.Error { return hole(e, final(e)) })
	prove("aclrtKernelArgsAppendPlaceHolder", "too-many-parameters", func(e *env) *core.Error {
		return hole(e, full(e))
	})
	prove("aclrtKernelArgsAppendPlaceHolder", "parameter-too-large", func(e *env) *core.Error {
		return hole(e, filled(e, 65536))
	})

	var room core.Addr
	take := func(e *env, h, p core.Handle, n uint64) *core.Error {
		return launch.KernelArgsGetPlaceHolderBuffer(e.th, h, p, n, &room)
	}
	prove("aclrtKernelArgsGetPlaceHolderBuffer", "not-a-parameter", func(e *env) *core.Error {
		return take(e, final(e), garbage, 8)
	})
	prove("aclrtKernelArgsGetPlaceHolderBuffer", "not-a-placeholder", func(e *env) *core.Error {
		h := filled(e, 8)
		e.ok(launch.KernelArgsFinalize(e.th, h))
		return take(e, h, p, 8)
	})
	prove("aclrtKernelArgsGetPlaceHolderBuffer", "finalized", func(e *env) *core.Error {
		h, hole := closed(e)
		e.ok(launch.KernelArgsFinalize(e.th, h))
		return take(e, h, hole, 1<<20)
	})
	prove("aclrtKernelArgsGetPlaceHolderBuffer", "no-room-for-hidden", func(e *env) *core.Error {
		h := filled(e, 65528)
		e.ok(hole(e, h))
		return launch.KernelArgsGetPlaceHolderBuffer(e.stranger(), h, p, 8, &room)
	})
	prove("aclrtKernelArgsGetPlaceHolderBuffer", "no-context", func(e *env) *core.Error {
		h := open(e)
		e.ok(hole(e, h))
		return launch.KernelArgsGetPlaceHolderBuffer(e.stranger(), h, p, 1<<20, &room)
	})
	prove("aclrtKernelArgsGetPlaceHolderBuffer", "data-too-large", func(e *env) *core.Error {
		h,
			hole := closed(e)
		return take(e, h, hole, 65536)
	})

	update := func(e *env, h, p core.Handle, n uint64) *core.Error {
		return launch.KernelArgsParaUpdate(e.th, h, p, at, n)
	}
	prove("aclrtKernelArgsParaUpdate", "not-a-parameter", func(e *env) *core.Error {
		return update(e, final(e), garbage, 8)
	})
	prove("aclrtKernelArgsParaUpdate", "is-placeholder", func(e *env) *core.Error {
		h,
			hole := closed(e)
		return update(e, h, hole, 4)
	})
	prove("aclrtKernelArgsParaUpdate", "paramSize-changed", func(e *env) *core.Error {
		h := filled(e, 8)
		return update(e, h, p, 4)
	})
	prove("aclrtKernelArgsFinalize", "no-room-for-hidden", func(e *env) *core.Error {
		return launch.KernelArgsFinalize(e.stranger(),
			filled(e, 65536))
	})
	behaves("aclrtKernelArgsParaUpdate", func(e *env) {
		target := e.words(1, 4)
		h := filled(e, 8)
		first := p
		v := uint64(target)
		e.ok(launch.KernelArgsAppend(e.th, h, at, 8, &p))
		e.ok(launch.KernelArgsFinalize(e.th, h))
		one := uint64(1)
		e.ok(launch.KernelArgsParaUpdate(e.th, h, first, core.Addr(unsafe.Pointer(&v)), 8))
		e.ok(launch.KernelArgsParaUpdate(e.th, h, p, core.Addr(unsafe.Pointer(&one)), 8))
		e.want(launch.LaunchKernelWithConfig(e.th, e.kernel("times"), 1, 0, nil, h, 0), abi.ErrRTParamInvalid)
		e.ok(launch.KernelArgsFinalize(e.th, h))
		e.ok(launch.LaunchKernelWithConfig(e.th, e.kernel("times"), 1, 0, nil, h, 0))
		if got := e.number(target); got != 12 {
			e.Errorf("%d, want 12", got)
		}
	})
	behaves("aclrtKernelArgsInitByUserMem", func(e *env) {
		f := e.kernel("times")
		var need, handle uint64
		e.ok(launch.KernelArgsGetMemSize(e.stranger(), f, 16, &need))
		e.ok(launch.KernelArgsGetHandleMemSize(e.stranger(), f, &handle))
		if need != 16+64+8*128 || handle != 6240 {
			e.Errorf("%d bytes of arguments, %d of the handle", need, handle)
		}
		room, own := make([]byte, need), make([]byte, handle)
		h := core.Handle(core.AddrOf(own))
		e.ok(launch.KernelArgsInitByUserMem(e.th, f, h, core.AddrOf(room), need))
		target := e.words(1, 5)
		v, one := uint64(target), uint64(1)
		e.ok(launch.KernelArgsAppend(e.th, h, core.Addr(unsafe.Pointer(&v)), 8, &p))
		e.ok(launch.KernelArgsAppend(e.th, h, core.Addr(unsafe.Pointer(&one)), 8, &p))
		e.ok(launch.KernelArgsFinalize(e.th, h))
		e.ok(launch.LaunchKernelWithConfig(e.th, f, 1, 0, nil, h, 0))
		if got := e.number(target); got != 15 {
			e.Errorf("%d, want 15", got)
		}
	})
}
