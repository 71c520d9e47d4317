package conformance

import (
	"os"
	"path/filepath"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/kernel"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/testenv"
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
func loadOptions(e *env, pairs ...uint32) *abi.BinaryLoadOptions {
	list := make([]abi.BinaryLoadOption, len(pairs)/2)
	for i := range list {
		list[i].Type = abi.BinaryLoadOptionType(pairs[2*i])
		*list[i].Value.Magic() = pairs[2*i+1]
	}
	e.Cleanup(func() { _ = list[0] })
	return &abi.BinaryLoadOptions{Options: uintptr(unsafe.Pointer(&list[0])), NumOpt: uint64(len(list))}
}

// file writes a file.
func file(e *env, name string, data []byte) string {
	e.Helper()
	path := filepath.Join(e.TempDir(), name)
	testenv.OK(e, os.WriteFile(path, data, 0o600))
	return path
}

// fromFile loads a file that is there, with options.
func fromFile(e *env, o *abi.BinaryLoadOptions) *core.Error {
	e.Helper()
	var h core.Handle
	path := file(e, "k.so", kerneltest.Compile(e.launches().T, kernelSource))
	return launch.BinaryLoadFromFile(e.th, ctext(path), o, &h)
}

func fromData(e *env, image []byte, o *abi.BinaryLoadOptions) *core.Error {
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
	prove("aclrtBinaryLoadFromFile", "options-null", func(e *env) *core.Error {
		return fromFile(e, &abi.BinaryLoadOptions{})
	})
	prove("aclrtBinaryLoadFromFile", "lazy-load-value", func(e *env) *core.Error {
		return fromFile(e, loadOptions(e, 1, 0, 1, 2, 2, 0))
	})
	prove("aclrtBinaryLoadFromFile", "magic-given", func(e *env) *core.Error {
		return fromFile(e, loadOptions(e, 2, 0x43554245, 3,
			9))
	})
	prove("aclrtBinaryLoadFromFile", "cpu-mode-value", func(e *env) *core.Error {
		return fromFile(e, loadOptions(e, 3, 2, 9, 9))
	})
	prove("aclrtBinaryLoadFromFile", "option-unknown", func(e *env) *core.Error {
		return fromFile(e, loadOptions(e, 9, 0, 1, 2))
	})
	load := func(e *env, path string) *core.Error {
		h := garbage
		err := launch.BinaryLoadFromFile(e.launches().th, ctext(path), nil, &h)
		if err != nil && h != 0 {
			e.Errorf("after %v the handle is %#x, not 0", err, h)
		}
		return err
	}
	prove("aclrtBinaryLoadFromFile", "no-such-file", func(e *env) *core.Error {
		return load(e,
			filepath.Join(e.TempDir(), "none.so"))
	})
	prove("aclrtBinaryLoadFromFile", "unreadable", func(e *env) *core.Error {
		e.want(load(e, e.TempDir()), abi.ErrRTParamInvalid)
		return load(e, file(e, "empty.so", nil))
	})
	prove("aclrtBinaryLoadFromFile", "not-elf", func(e *env) *core.Error {
		return load(e,
			file(e, "text.so", []byte("no object")))
	})
	prove("aclrtBinaryLoadFromFile", "debug-options", func(e *env) *core.Error {
		path := file(e, "k.so", kerneltest.Compile(e.launches().T, kernelSource))
		side := filepath.Join(filepath.Dir(path), "k.json")
		for _, text := range []string{`{"debugOptions": 1}`, `{"debugOptions": "a,printf"}`} {
			testenv.OK(e, os.WriteFile(side, []byte(text), 0o600))
			e.want(load(e, path), abi.ErrRTParamInvalid)
		}
		testenv.OK(e, os.WriteFile(side, []byte("broken"), 0o600))
		e.ok(load(e, path))
		os.WriteFile(side, []byte(`{"debugOptions": "printf"}`), 0o600) //nolint:errcheck // as above
		return load(e, path)
	})
	prove("aclrtBinaryLoadFromFile", "meta-data", func(e *env) *core.Error {
		e.want(load(e, file(e, "merge.so", kerneltest.Compile(e.launches().T, badMerge))), abi.ErrRTParamInvalid)
		return load(e, file(e, "meta.so", kerneltest.Compile(e.T, badMeta)))
	})
	behaves("aclrtBinaryLoadFromFile", func(e *env) {
		path := file(e, "k.so", kerneltest.Compile(e.launches().T, kernelSource))
		var a, b core.Handle
		e.ok(launch.BinaryLoadFromFile(e.stranger(), ctext(path), nil, &a)) // without a context
		e.ok(launch.BinaryLoadFromFile(e.th, ctext(path), loadOptions(e, 1, 1), &b))
		if a == b {
			e.Error("a file that is loaded twice has one handle")
		}
		testenv.OK(e, os.Remove(path))
		var f core.Handle
		e.ok(launch.BinaryGetFunction(e.th, a, ctext("times"), &f)) // the file may go
	})

	image := func(e *env) []byte { return kerneltest.Compile(e.launches().T, kernelSource) }
	prove("aclrtBinaryLoadFromData", "options-null", func(e *env) *core.Error {
		return fromData(e, image(e),
			&abi.BinaryLoadOptions{})
	})
	prove("aclrtBinaryLoadFromData", "lazy-load-value", func(e *env) *core.Error {
		return fromData(e, image(e),
			loadOptions(e, 1, 2, 2, 1))
	})
	prove("aclrtBinaryLoadFromData", "magic-value", func(e *env) *core.Error {
		return fromData(e, image(e),
			loadOptions(e, 2, 1, 3, 0))
	})
	prove("aclrtBinaryLoadFromData", "cpu-mode-value", func(e *env) *core.Error {
		return fromData(e, image(e),
			loadOptions(e, 3, 0, 9, 0))
	})
	prove("aclrtBinaryLoadFromData", "option-unknown", func(e *env) *core.Error {
		return fromData(e, []byte("text"),
			loadOptions(e, 9, 0))
	})
	prove("aclrtBinaryLoadFromData", "not-elf", func(e *env) *core.Error {
		return fromData(e, []byte("no object"), nil)
	})
	prove("aclrtBinaryLoadFromData", "meta-data", func(e *env) *core.Error {
		return fromData(e, kerneltest.Compile(e.launches().T,
			badMeta), nil)
	})
	behaves("aclrtBinaryLoadFromData", func(e *env) {
		for magic, want := range map[uint32]int64{0x43554245: 3, 0x41494343: 1, 0x41415246: 2} {
			var h, f core.Handle
			b := image(e)
			e.ok(launch.BinaryLoadFromData(e.th, core.AddrOf(b), uint64(len(b)), loadOptions(e, 2, magic), &h))
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
func imageOf(e *env, image []byte) core.Handle {
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
		return launch.BinaryLoad(e.th, imageOf(e, image), &h)
	}
	prove("aclrtBinaryLoad", "data-empty", func(e *env) *core.Error {
		var h core.Handle
		return launch.BinaryLoad(e.stranger(), launch.CreateBinary(e.launches().th, 4096, 0), &h)
	})
	prove("aclrtBinaryLoad", "not-elf", func(e *env) *core.Error {
		e.want(load(e, kerneltest.Compile(e.launches().T, badMeta)), abi.ErrRTParamInvalid)
		return load(e, []byte("no object"))
	})
	prove("aclrtBinaryLoad", "halves-contradict", func(e *env) *core.Error {
		return load(e, kerneltest.Compile(e.launches().T, badMerge))
	})
	old := func(e *env) (h core.Handle) {
		e.ok(launch.BinaryLoad(e.th, imageOf(e, kerneltest.Compile(e.launches().T, kernelSource)), &h))
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
	prove("aclrtBinaryUnLoad", "no-context", func(e *env) *core.Error {
		return launch.BinaryUnLoad(e.stranger(), old(e))
	})
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
	prove("aclrtBinaryGetFunction", "no-kernel", func(e *env) *core.Error {
		b := e.binary(kernelSource)
		e.want(find(e.stranger(), b, "times"), abi.ErrRTParamInvalid)
		e.want(find(e.th, e.binary(unloadable), "times"), abi.ErrRTParamInvalid)
		return find(e.th, b, "duo_mix_aic")
	})
	var f core.Handle
	prove("aclrtBinaryGetFunctionByEntry", "not-loadable", func(e *env) *core.Error {
		return failed(e, launch.BinaryGetFunctionByEntry(e.th, e.binary(unloadable), 7, &f))
	})
	prove("aclrtBinaryGetFunctionByEntry", "no-kernel", func(e *env) *core.Error {
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
	proveLists()
	var addr core.Addr
	var size uint64
	prove("aclrtBinaryGetDevAddress", "not-loadable", func(e *env) *core.Error {
		return failed(e, launch.BinaryGetDevAddress(e.th, e.binary(unloadable), &addr, &size))
	})
	behaves("aclrtBinaryGetDevAddress", func(e *env) {
		e.ok(launch.BinaryGetDevAddress(e.th, e.binary(kernelSource), &addr, &size))
		if addr == 0 || size == 0 {
			e.Errorf("%d bytes at %#x", size, addr)
		}
	})
	prove("aclrtBinaryGetGlobal", "not-loadable", func(e *env) *core.Error {
		return failed(e, launch.BinaryGetGlobal(e.th, e.binary(unloadable), ctext("scale"), &addr, nil))
	})
	prove("aclrtBinaryGetGlobal", "no-variable", func(e *env) *core.Error {
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
	prove("aclrtGetFuncBySymbol", "symbol-unknown", func(e *env) *core.Error {
		return launch.GetFuncBySymbol(e.launches().th, at(0),
			&f)
	})
	prove("aclrtGetFuncBySymbol", "not-loadable", func(e *env) *core.Error {
		e.ok(launch.RegisterFuncSymbol(e.th, e.binary(unloadable), at(1), ctext("times"), 0))
		return failed(e, launch.GetFuncBySymbol(e.th, at(1), &f))
	})
	behaves("aclrtGetFuncBySymbol", func(e *env) {
		b := e.binary(kernelSource)
		e.ok(launch.RegisterFuncSymbol(e.stranger(), b, at(0), ctext("times"), 0))
		e.ok(launch.RegisterFuncSymbol(e.th, b, at(0), ctext("wild"), 0)) // ignored: the first counts
		e.want(launch.RegisterFuncSymbol(e.th, b, at(1), ctext("none"), 0), abi.ErrRTParamInvalid)
		e.want(launch.RegisterFuncSymbol(e.th, garbage, at(1), ctext("times"), 0), abi.ErrRTInvalidHandle)
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

// runsFatbins is a driver that takes fatbins, which do not say which kernels they have.
type runsFatbins struct{ *faulty.Driver }

func (d runsFatbins) Caps() driver.Caps {
	c := d.Driver.Caps()
	c.Launch = d
	return c
}

func (runsFatbins) Runs(kernel.Format) bool { return true }

func (runsFatbins) LoadModule(int, string, []byte) (driver.Module, error) {
	return nil, driver.ErrUnsupported
}

// proveLists proves what counts and lists the kernels of a binary.
func proveLists() {
	fatbin := func(call func(th *core.Thread, b core.Handle) *core.Error) func(e *env) *core.Error {
		return func(e *env) *core.Error {
			image, b := []byte("\x50\xed\x55\xba...."), core.Handle(0)
			th := core.New(core.Options{Driver: runsFatbins{e.launches().faults}, Product: e.rt.Product}).NewThread(1)
			e.ok(launch.BinaryLoadFromData(th, core.AddrOf(image), uint64(len(image)), nil, &b))
			return call(th, b)
		}
	}
	count := func(e *env, b core.Handle) uint32 {
		var n uint32
		e.ok(launch.BinaryGetFunctionCount(e.stranger(), b, &n)) // without a context
		return n
	}
	var list [16]core.Handle
	prove("aclrtBinaryGetFunctionCount", "kernels-unknown", fatbin(func(th *core.Thread, b core.Handle) *core.Error {
		return launch.BinaryGetFunctionCount(th, b, new(uint32))
	}))
	prove("aclrtBinaryEnumerateFunctions", "kernels-unknown", fatbin(func(th *core.Thread, b core.Handle) *core.Error {
		return launch.BinaryEnumerateFunctions(th, b, &list[0], 1)
	}))
	prove("aclrtBinaryEnumerateFunctions", "not-loadable", func(e *env) *core.Error {
		return failed(e, launch.BinaryEnumerateFunctions(e.th, e.binary(unloadable), &list[0], 1))
	})
	behaves("aclrtBinaryGetFunctionCount", func(e *env) {
		is(e, "kernels", count(e, e.binary("void b(void) {}\nvoid a(void) {}\nvoid m_mix_aic(void) {}\n"+
			"void m_mix_aiv(void) {}")), 3) // the halves of a mix kernel are one
		is(e, "kernels of none", count(e, e.binary("int variable;")), 0)
		cpu := cpuBinary(e)
		n := count(e, cpu)
		e.ok(launch.RegisterCpuFunc(e.th, cpu, ctext("RunPut"), ctext("a name of its own"), &list[0]))
		is(e, "kernels with one that was named", count(e, cpu), n+1)
	})
	behaves("aclrtBinaryEnumerateFunctions", func(e *env) {
		b := e.binary("void c(void) {}\nvoid a(void) {}\nvoid b(void) {}")
		for i := range list {
			list[i] = garbage
		}
		e.ok(launch.BinaryEnumerateFunctions(e.th, b, &list[0], 0))
		e.ok(launch.BinaryEnumerateFunctions(e.th, b, &list[0], 2))
		if list[2] != garbage {
			e.Error("more were written than there is room for")
		}
		e.ok(launch.BinaryEnumerateFunctions(e.th, b, &list[0], uint32(len(list))))
		for i, name := range []string{"a", "b", "c"} {
			var f core.Handle
			e.ok(launch.BinaryGetFunction(e.th, b, ctext(name), &f))
			is(e, name, list[i], f)
		}
		if list[3] != garbage {
			e.Error("more were written than there are")
		}
		e.ok(launch.LaunchKernelWithHostArgs(e.th, list[0], 1, 0, nil, core.AddrOf(make([]byte, 8)), 8, nil, 0))
		e.ok(e.th.SynchronizeStream(0))
	})
}
