package conformance

import (
	"os"
	"path/filepath"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/kernel/kerneltest"
)

func init() {
	proveLoads()
	proveOldLoad()
	proveLookups()
	proveFunctions()
	proveCPU()
	proveBuilder()
}

// loadOptions are the options of a load: pairs of a type and a value.
func (e *env) loadOptions(pairs ...uint32) *abi.BinaryLoadOptions {
	list := make([]abi.BinaryLoadOption, len(pairs)/2)
	for i := range list {
		list[i].Type = abi.BinaryLoadOptionType(pairs[2*i])
		*list[i].Value.Magic() = pairs[2*i+1]
	}
	e.Cleanup(func() { _ = list[0] })
	return &abi.BinaryLoadOptions{Options: uintptr(unsafe.Pointer(&list[0])), NumOpt: uint64(len(list))}
}

// file writes a file.
func (e *env) file(name string, data []byte) string {
	e.Helper()
	path := filepath.Join(e.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		e.Fatal(err)
	}
	return path
}

// fromFile loads a file that is there, with options.
func (e *env) fromFile(o *abi.BinaryLoadOptions) *core.Error {
	e.Helper()
	var h core.Handle
	path := e.file("k.so", kerneltest.Compile(e.launches().T, kernelSource))
	return launch.BinaryLoadFromFile(e.th, ctext(path), o, &h)
}

func (e *env) fromData(image []byte, o *abi.BinaryLoadOptions) *core.Error {
	e.Helper()
	var h core.Handle
	return launch.BinaryLoadFromData(e.launches().th, core.AddrOf(image), uint64(len(image)), o, &h)
}

const (
	badMeta = `__attribute__((section(".ascend.meta.k"), used))
		static const unsigned char m[] = {3,0,4,0,3,0,2,0}; void k(void) {}`
	badMerge = `__attribute__((section(".ascend.meta.k"), used))
		static const unsigned char m[] = {1,0,4,0,4,0,0,0}; void k(void) {}`
)

func proveLoads() {
	prove("aclrtBinaryLoadFromFile", 3, func(e *env) *core.Error { return e.fromFile(&abi.BinaryLoadOptions{}) })
	prove("aclrtBinaryLoadFromFile", 4, func(e *env) *core.Error { return e.fromFile(e.loadOptions(1, 0, 1, 2, 2, 0)) })
	prove("aclrtBinaryLoadFromFile", 5, func(e *env) *core.Error {
		return e.fromFile(e.loadOptions(2, 0x43554245, 3,
			9))
	})
	prove("aclrtBinaryLoadFromFile", 6, func(e *env) *core.Error { return e.fromFile(e.loadOptions(3, 2, 9, 9)) })
	prove("aclrtBinaryLoadFromFile", 7, func(e *env) *core.Error { return e.fromFile(e.loadOptions(9, 0, 1, 2)) })
	load := func(e *env, path string) *core.Error {
		h := garbage
		err := launch.BinaryLoadFromFile(e.launches().th, ctext(path), nil, &h)
		if err != nil && h != 0 {
			e.Errorf("after %v the handle is %#x, not 0", err, h)
		}
		return err
	}
	prove("aclrtBinaryLoadFromFile", 8, func(e *env) *core.Error {
		return load(e,
			filepath.Join(e.TempDir(), "none.so"))
	})
	prove("aclrtBinaryLoadFromFile", 9, func(e *env) *core.Error {
		e.want(load(e, e.TempDir()), abi.ErrRTParamInvalid)
		return load(e, e.file("empty.so", nil))
	})
	prove("aclrtBinaryLoadFromFile", 10, func(e *env) *core.Error {
		return load(e,
			e.file("text.so", []byte("no object")))
	})
	prove("aclrtBinaryLoadFromFile", 11, func(e *env) *core.Error {
		path := e.file("k.so", kerneltest.Compile(e.launches().T, kernelSource))
		side := filepath.Join(filepath.Dir(path), "k.json")
		for _, text := range []string{`{"debugOptions": 1}`, `{"debugOptions": "a,printf"}`} {
			if err := os.WriteFile(side, []byte(text), 0o600); err != nil {
				e.Fatal(err)
			}
			e.want(load(e, path), abi.ErrRTParamInvalid)
		}
		if err := os.WriteFile(side, []byte("broken"), 0o600); err != nil {
			e.Fatal(err)
		}
		e.ok(load(e, path))
		os.WriteFile(side, []byte(`{"debugOptions": "printf"}`), 0o600) //nolint:errcheck // as above
		return load(e, path)
	})
	prove("aclrtBinaryLoadFromFile", 12, func(e *env) *core.Error {
		e.want(load(e, e.file("merge.so", kerneltest.Compile(e.launches().T, badMerge))), abi.ErrRTParamInvalid)
		return load(e, e.file("meta.so", kerneltest.Compile(e.T, badMeta)))
	})
	behaves("aclrtBinaryLoadFromFile", func(e *env) {
		path := e.file("k.so", kerneltest.Compile(e.launches().T, kernelSource))
		var a, b core.Handle
		e.ok(launch.BinaryLoadFromFile(e.stranger(), ctext(path), nil, &a)) // without a context
		e.ok(launch.BinaryLoadFromFile(e.th, ctext(path), e.loadOptions(1, 1), &b))
		if a == b {
			e.Error("a file that is loaded twice has one handle")
		}
		if err := os.Remove(path); err != nil {
			e.Fatal(err)
		}
		var f core.Handle
		e.ok(launch.BinaryGetFunction(e.th, a, ctext("times"), &f)) // the file may go
	})

	image := func(e *env) []byte { return kerneltest.Compile(e.launches().T, kernelSource) }
	prove("aclrtBinaryLoadFromData", 4, func(e *env) *core.Error {
		return e.fromData(image(e),
			&abi.BinaryLoadOptions{})
	})
	prove("aclrtBinaryLoadFromData", 5, func(e *env) *core.Error {
		return e.fromData(image(e),
			e.loadOptions(1, 2, 2, 1))
	})
	prove("aclrtBinaryLoadFromData", 6, func(e *env) *core.Error {
		return e.fromData(image(e),
			e.loadOptions(2, 1, 3, 0))
	})
	prove("aclrtBinaryLoadFromData", 7, func(e *env) *core.Error {
		return e.fromData(image(e),
			e.loadOptions(3, 0, 9, 0))
	})
	prove("aclrtBinaryLoadFromData", 8, func(e *env) *core.Error {
		return e.fromData([]byte("text"),
			e.loadOptions(9, 0))
	})
	prove("aclrtBinaryLoadFromData", 9, func(e *env) *core.Error { return e.fromData([]byte("no object"), nil) })
	prove("aclrtBinaryLoadFromData", 10, func(e *env) *core.Error {
		return e.fromData(kerneltest.Compile(e.launches().T,
			badMeta), nil)
	})
	behaves("aclrtBinaryLoadFromData", func(e *env) {
		for magic, want := range map[uint32]int64{0x43554245: 3, 0x41494343: 1, 0x41415246: 2} {
			var h, f core.Handle
			b := image(e)
			e.ok(launch.BinaryLoadFromData(e.th, core.AddrOf(b), uint64(len(b)), e.loadOptions(2, magic), &h))
			e.ok(launch.BinaryGetFunction(e.th, h, ctext("times"), &f))
			var kind int64
			e.ok(launch.GetFunctionAttribute(e.th, f, abi.FuncAttrKernelType, &kind))
			if kind != want {
				e.Errorf("magic %#x: a kernel that does not say has type %d, want %d", magic, kind, want)
			}
		}
	})
}

// described is a description of an image, for the older load.
func (e *env) imageOf(image []byte) core.Handle {
	e.Helper()
	h := launch.CreateBinary(e.launches().th, core.AddrOf(image), uint64(len(image)))
	if h == 0 {
		e.Fatal("no description")
	}
	e.Cleanup(func() { _ = image })
	return h
}

func proveOldLoad() {
	load := func(e *env, image []byte) *core.Error {
		var h core.Handle
		return launch.BinaryLoad(e.th, e.imageOf(image), &h)
	}
	prove("aclrtBinaryLoad", 4, func(e *env) *core.Error {
		var h core.Handle
		return launch.BinaryLoad(e.stranger(), launch.CreateBinary(e.launches().th, 4096, 0), &h)
	})
	prove("aclrtBinaryLoad", 6, func(e *env) *core.Error {
		e.want(load(e, kerneltest.Compile(e.launches().T, badMeta)), abi.ErrRTParamInvalid)
		return load(e, []byte("no object"))
	})
	prove("aclrtBinaryLoad", 8, func(e *env) *core.Error {
		return load(e, kerneltest.Compile(e.launches().T, badMerge))
	})
	old := func(e *env) (h core.Handle) {
		e.ok(launch.BinaryLoad(e.th, e.imageOf(kerneltest.Compile(e.launches().T, kernelSource)), &h))
		return h
	}
	behaves("aclrtBinaryLoad", func(e *env) {
		h := old(e)
		var f core.Handle
		e.ok(launch.BinaryGetFunction(e.th, h, ctext("add_7"), &f))
		e.want(launch.BinaryGetFunctionByEntry(e.th, h, 7, &f), abi.ErrRTParamInvalid) // it has no numbers
	})
	behaves("aclrtCreateBinary", func(e *env) {
		if h := launch.CreateBinary(e.th, 0, 8); h != 0 {
			e.Errorf("of NULL it makes %#x", h)
		}
		h := launch.CreateBinary(e.stranger(), 4096, 0)
		e.ok(launch.DestroyBinary(e.th, h))
		e.want(launch.DestroyBinary(e.th, h), abi.ErrInvalidParam)
	})
	prove("aclrtBinaryUnLoad", 3, func(e *env) *core.Error { return launch.BinaryUnLoad(e.stranger(), old(e)) })
	behaves("aclrtBinaryUnLoad", func(e *env) {
		b := e.binary(kernelSource)
		var f core.Handle
		e.ok(launch.BinaryGetFunction(e.th, b, ctext("times"), &f))
		e.ok(launch.BinaryUnLoad(e.stranger(), b))
		e.want(launch.FunctionGetBinary(e.th, f, &b), abi.ErrRTInvalidHandle)
	})
}

func proveLookups() {
	find := func(th *core.Thread, b core.Handle, name string) *core.Error {
		f := garbage
		err := launch.BinaryGetFunction(th, b, ctext(name), &f)
		if err != nil && f != 0 {
			panic("the handle is not NULL")
		}
		return err
	}
	prove("aclrtBinaryGetFunction", 5, func(e *env) *core.Error {
		b := e.binary(kernelSource)
		e.want(find(e.stranger(), b, "times"), abi.ErrRTParamInvalid)
		e.want(find(e.th, e.binary(unloadable), "times"), abi.ErrRTParamInvalid)
		return find(e.th, b, "duo_mix_aic")
	})
	var f core.Handle
	prove("aclrtBinaryGetFunctionByEntry", 6, func(e *env) *core.Error {
		return failed(e, launch.BinaryGetFunctionByEntry(e.th, e.binary(unloadable), 7, &f))
	})
	prove("aclrtBinaryGetFunctionByEntry", 7, func(e *env) *core.Error {
		f := garbage
		err := launch.BinaryGetFunctionByEntry(e.th, e.binary(kernelSource), 77, &f)
		if f != 0 {
			e.Errorf("the handle is %#x", f)
		}
		return err
	})
	behaves("aclrtBinaryGetFunctionByEntry", func(e *env) {
		b := e.binary(kernelSource)
		var g core.Handle
		e.ok(launch.BinaryGetFunctionByEntry(e.th, b, 7, &f))
		e.ok(launch.BinaryGetFunction(e.th, b, ctext("add_7"), &g))
		if f != g {
			e.Error("a kernel has two handles")
		}
	})
	var addr core.Addr
	var size uint64
	prove("aclrtBinaryGetDevAddress", 5, func(e *env) *core.Error {
		return failed(e, launch.BinaryGetDevAddress(e.th, e.binary(unloadable), &addr, &size))
	})
	behaves("aclrtBinaryGetDevAddress", func(e *env) {
		e.ok(launch.BinaryGetDevAddress(e.th, e.binary(kernelSource), &addr, &size))
		if addr == 0 || size == 0 {
			e.Errorf("%d bytes at %#x", size, addr)
		}
	})
	prove("aclrtBinaryGetGlobal", 7, func(e *env) *core.Error {
		return failed(e, launch.BinaryGetGlobal(e.th, e.binary(unloadable), ctext("scale"), &addr, nil))
	})
	prove("aclrtBinaryGetGlobal", 8, func(e *env) *core.Error {
		return launch.BinaryGetGlobal(e.th, e.binary(kernelSource), ctext("times"), &addr, nil)
	})
	behaves("aclrtBinaryGetGlobal", func(e *env) {
		b := e.binary(kernelSource)
		e.ok(launch.BinaryGetGlobal(e.th, b, ctext("scale"), nil, &size))
		e.ok(launch.BinaryGetGlobal(e.th, b, ctext("scale"), &addr, nil))
		if size != 4 || e.number(addr) != 3 {
			e.Errorf("%d bytes, %d", size, e.number(addr))
		}
	})
	var symbol [2]byte
	at := func(i int) core.Addr { return core.Addr(unsafe.Pointer(&symbol[i])) }
	prove("aclrtGetFuncBySymbol", 4, func(e *env) *core.Error {
		return launch.GetFuncBySymbol(e.launches().th, at(0),
			&f)
	})
	prove("aclrtGetFuncBySymbol", 5, func(e *env) *core.Error {
		e.ok(launch.RegisterFuncSymbol(e.th, e.binary(unloadable), at(1), ctext("times")))
		return failed(e, launch.GetFuncBySymbol(e.th, at(1), &f))
	})
	behaves("aclrtGetFuncBySymbol", func(e *env) {
		b := e.binary(kernelSource)
		e.ok(launch.RegisterFuncSymbol(e.stranger(), b, at(0), ctext("times")))
		e.ok(launch.RegisterFuncSymbol(e.th, b, at(0), ctext("wild"))) // ignored: the first counts
		e.want(launch.RegisterFuncSymbol(e.th, b, at(1), ctext("none")), abi.ErrRTParamInvalid)
		e.want(launch.RegisterFuncSymbol(e.th, garbage, at(1), ctext("times")), abi.ErrRTInvalidHandle)
		e.ok(launch.GetFuncBySymbol(e.th, at(0), &f))
		name := make([]byte, 16)
		e.ok(launch.GetFunctionName(e.th, f, 16, &name[0]))
		if string(name[:6]) != "times\x00" {
			e.Errorf("it is %q", name)
		}
	})
}

// failed is err, which must not be nil.
func failed(e *env, err *core.Error) *core.Error {
	e.Helper()
	if err == nil {
		e.Fatal("it does not fail")
	}
	return err
}
