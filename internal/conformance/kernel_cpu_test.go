package conformance

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/testenv"
)

// cpuSource has functions for the AI CPU.
const cpuSource = `
#include <stdint.h>
#include "ropeway/kernel.h"
struct args { uint32_t *p; uint32_t v; } __attribute__((packed));
uint32_t RunPut(const struct args *a) { __atomic_fetch_add(a->p, a->v, __ATOMIC_SEQ_CST); return 0; }
uint32_t RunLess(const struct args *a) { __atomic_fetch_sub(a->p, a->v, __ATOMIC_SEQ_CST); return 0; }
uint32_t RunRefuse(const struct args *a) { return 3; }
uint32_t RunCrash(const struct args *a) { *(volatile int *)8 = 1; return 0; }
uint32_t RunTrap(const struct args *a) { __builtin_trap(); }
uint32_t RunEndless(const struct args *a) { for (;;) ; }
`

// cpuList is a list of kernels in a shared object.
const cpuList = `{
	"Put": {"opInfo": {"functionName": "RunPut", "kernelSo": "ops.so", "opKernelLib": "CUSTAICPUKernel"}},
	"Group": {"opInfo": {"functionName": "RunPut", "kernelSo": "ops.so", "opKernelLib": "KFCKernel"}},
	"Odd": {"opInfo": {"functionName": "RunPut", "kernelSo": "ops.so", "opKernelLib": "CUSTKFCKernel"}},
	"Bare": {"opInfo": {"functionName": "RunPut", "kernelSo": "ops.so"}},
	"Lost": {"opInfo": {"functionName": "RunPut", "kernelSo": "none.so", "opKernelLib": "AICPUKernel"}},
	"comment": 1}`

// cpuBinary is cpuSource as an AI CPU binary: its bytes.
func cpuBinary(e *env) (h core.Handle) {
	e.Helper()
	image := kerneltest.Compile(e.launches().T, cpuSource)
	e.ok(launch.BinaryLoadFromData(e.th, core.AddrOf(image), uint64(len(image)), loadOptions(e, 3, 2), &h))
	return h
}

// cpuFile is a folder with a list and a shared object, and the path of the list.
func cpuFile(e *env) string {
	e.Helper()
	path := file(e, "ops.so", kerneltest.Compile(e.launches().T, cpuSource))
	path = filepath.Join(filepath.Dir(path), "ops.json")
	testenv.OK(e, os.WriteFile(path, []byte(cpuList), 0o600))
	return path
}

// cpuLoad loads a list.
func cpuLoad(e *env, path string, mode uint32) (h core.Handle, err *core.Error) {
	h = garbage
	err = launch.BinaryLoadFromFile(e.launches().th, ctext(path), loadOptions(e, 3, mode), &h)
	if err != nil && h != 0 {
		e.Errorf("after %v the handle is %#x, not 0", err, h)
	}
	return h, err
}

// cpuFunction is a function that the program names.
func cpuFunction(e *env, name string) (f core.Handle) {
	e.Helper()
	e.ok(launch.RegisterCpuFunc(e.th, cpuBinary(e), ctext(name), ctext("op_"+name), &f))
	return f
}

// cpuListed is a kernel of the list.
func cpuListed(e *env, mode uint32, name string) (f core.Handle) {
	e.Helper()
	h, err := cpuLoad(e, cpuFile(e), mode)
	e.ok(err)
	e.ok(launch.BinaryGetFunction(e.th, h, ctext(name), &f))
	return f
}

func proveCPU() {
	prove("aclrtBinaryLoadFromFile", "no-library", func(e *env) *core.Error {
		path := cpuFile(e)
		so := filepath.Join(filepath.Dir(path), "ops.so")
		testenv.OK(e, os.WriteFile(so, nil, 0o600))
		_, err := cpuLoad(e, path, 1)
		e.want(err, abi.ErrRTParamInvalid)
		testenv.OK(e, os.Remove(so))
		_, err = cpuLoad(e, path, 0)
		e.ok(err) // it is not needed
		_, err = cpuLoad(e, path, 1)
		return err
	})
	prove("aclrtBinaryLoadFromFile", "no-json", func(e *env) *core.Error {
		path := cpuFile(e)
		for _, mode := range []uint32{0, 1} {
			testenv.OK(e, os.WriteFile(path, []byte("no list"), 0o600))
			_, err := cpuLoad(e, path, mode)
			e.want(err, abi.ErrRTParamInvalid)
		}
		testenv.OK(e, os.Remove(path))
		_, err := cpuLoad(e, path, 0)
		return err
	})
	var f core.Handle
	prove("aclrtBinaryGetFunctionByEntry", "cpu-binary", func(e *env) *core.Error {
		return launch.BinaryGetFunctionByEntry(e.stranger(), cpuBinary(e), 0, &f)
	})
	var a, b core.Addr
	var n uint64
	prove("aclrtBinaryGetGlobal", "cpu-binary", func(e *env) *core.Error {
		return launch.BinaryGetGlobal(e.stranger(), cpuBinary(e), ctext("x"), &a, nil)
	})
	prove("aclrtGetFunctionAddr", "cpu-function", func(e *env) *core.Error {
		return launch.GetFunctionAddr(e.stranger(), cpuFunction(e, "RunPut"), &a, &b)
	})
	prove("aclrtGetFunctionSize", "cpu-function", func(e *env) *core.Error {
		var m uint64
		return launch.GetFunctionSize(e.th, cpuFunction(e, "RunPut"), &n, &m)
	})
	prove("aclrtGetFunctionAttribute", "ratio-of-cpu-function", func(e *env) *core.Error {
		var v int64
		f := cpuFunction(e, "RunPut")
		e.ok(launch.GetFunctionAttribute(e.th, f, abi.FuncAttrKernelType, &v))
		if v != 100 {
			e.Errorf("type %d, want 100", v)
		}
		return launch.GetFunctionAttribute(e.th, f, abi.FuncAttrKernelRatio, &v)
	})
	prove("aclrtFunctionGetParamCount", "cpu-function", func(e *env) *core.Error {
		return launch.FunctionGetParamCount(e.th, cpuFunction(e, "RunPut"), &n)
	})
	prove("aclrtFunctionGetParamInfo", "cpu-function", func(e *env) *core.Error {
		return launch.FunctionGetParamInfo(e.th, cpuFunction(e, "RunPut"), 0, &n, nil)
	})
	proveRegisterCPU()
	proveCPULaunches()
}

func proveRegisterCPU() {
	register := func(e *env, th *core.Thread, b core.Handle, function, name string) (core.Handle, *core.Error) {
		f := garbage
		err := launch.RegisterCpuFunc(th, b, ctext(function), ctext(name), &f)
		if err != nil && f != 0 {
			e.Errorf("after %v the handle is %#x, not 0", err, f)
		}
		return f, err
	}
	prove("aclrtRegisterCpuFunc", "not-cpu-binary", func(e *env) *core.Error {
		_, err := register(e, e.stranger(), e.binary(kernelSource), "times", "times")
		return err
	})
	prove("aclrtRegisterCpuFunc", "no-context", func(e *env) *core.Error {
		_, err := register(e, e.stranger(), cpuBinary(e), "none", "put")
		return err
	})
	prove("aclrtRegisterCpuFunc", "not-loadable", func(e *env) *core.Error {
		var h core.Handle
		text := []byte("no object")
		e.ok(launch.BinaryLoadFromData(e.launches().th, core.AddrOf(text), 9, loadOptions(e, 3, 2), &h)) // not read
		if _, err := register(e, e.th, h, "RunPut", "put"); err == nil {
			e.Error("a shared object that is none is on the device")
		}
		_, err := register(e, e.th, cpuBinary(e), "none", "put")
		e.want(err, abi.ErrRTAicpuInfoLoadRspErr)
		return err
	})
	behaves("aclrtRegisterCpuFunc", func(e *env) {
		b := cpuBinary(e)
		_, err := register(e, e.th, b, "none", "put")
		e.want(err, abi.ErrRTAicpuInfoLoadRspErr) // and leaves the name free
		f, err := register(e, e.th, b, "RunPut", "put")
		e.ok(err)
		g, err := register(e, e.th, b, "RunLess", "put")
		e.ok(err)
		var found core.Handle
		e.ok(launch.BinaryGetFunction(e.th, b, ctext("put"), &found))
		if f != g || f != found {
			e.Errorf("one name has the handles %#x, %#x and %#x", f, g, found)
		}
		name := make([]byte, 8)
		e.ok(launch.GetFunctionName(e.th, f, 8, &name[0]))
		if string(name[:4]) != "put\x00" {
			e.Errorf("its name is %q", name)
		}
		var at core.Addr
		var size uint64
		e.ok(launch.BinaryGetDevAddress(e.th, b, &at, &size))
		if at != 0 || size == 0 {
			e.Errorf("%d bytes at %#x, want none of the device's", size, at)
		}
		p := e.words(1, 5)
		args := cpuArgs(p, 3)
		e.ok(launch.LaunchKernelWithHostArgs(e.th, f, 4, 0, nil, core.AddrOf(args), 12, nil, 0))
		if got := e.number(p); got != 17 {
			e.Errorf("4 blocks that add 3 to 5 made %d, want 17: the first function of a name counts", got)
		}
		e.ok(launch.BinaryUnLoad(e.th, b))
		e.want(launch.LaunchKernelWithHostArgs(e.th, f, 4, 0, nil, core.AddrOf(args), 12, nil, 0),
			abi.ErrRTInvalidHandle)
		cpuFailures(e)
	})
}

func cpuArgs(p core.Addr, v uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, uint64(p)), v)
}

// onCPU is a rule that a kernel of the list breaks on some products, and not on others.
func onCPU(kernel string, where, elsewhere []string) launchRule {
	return func(e *env, f launchForm) (err *core.Error) {
		for _, product := range append(elsewhere, where...) {
			o := e.on(machine{product: product}).launches()
			a := goodLaunch(o)
			a.f = cpuListed(o, 1, kernel)
			a.builder = built(o, a.f, a.bytes())
			if err = f.call(o, a); err != nil {
				continue
			}
			if got := o.number(core.Addr(a.target)); got != 1 {
				e.Errorf("on %s the kernel made %d of 0, want 1", product, got)
			}
		}
		return err
	}
}

func proveCPULaunches() {
	group := onCPU("Group", []string{"310B", "910"}, []string{"A2"})
	odd := onCPU("Odd", []string{"950"}, []string{"A2"})
	prove("aclrtLaunchKernelV2", "cpu-lib-not-offered", formV2.by(group))
	prove("aclrtLaunchKernelV2", "cpu-lib-950", formV2.by(odd))
	prove("aclrtLaunchKernelWithConfig", "cpu-lib-not-offered", formConfig.by(group))
	prove("aclrtLaunchKernelWithConfig", "cpu-lib-950", formConfig.by(odd))
	prove("aclrtLaunchKernelWithHostArgs", "cpu-lib-not-offered", formHost.by(group))
	prove("aclrtLaunchKernelWithHostArgs", "cpu-lib-950", formHost.by(func(e *env, f launchForm) *core.Error {
		odd(e, f)
		return onCPU("Bare", []string{"950"}, []string{"A3"})(e, f)
	}))
	prove("aclrtLaunchKernelWithConfig", "arguments-empty", func(e *env) *core.Error {
		var h core.Handle
		fn := cpuFunction(e, "RunPut")
		e.ok(launch.KernelArgsInit(e.th, fn, &h))
		e.ok(launch.KernelArgsFinalize(e.th, h))
		return launch.LaunchKernelWithConfig(e.th, fn, 1, 0, nil, h, 0)
	})
	prove("aclrtLaunchKernelWithArgsArray", "cpu-function", func(e *env) *core.Error {
		a := goodLaunch(e.launches())
		a.f = cpuFunction(e, "RunPut")
		return formArray.call(e, a)
	})
}

// cpuFailures are how functions for the AI CPU fail, and the codes of that.
func cpuFailures(e *env) {
	for name, want := range map[string]abi.Code{
		"RunRefuse": abi.ErrRTAicpuException, "RunCrash": abi.ErrRTAicpuException, "RunTrap": abi.ErrRTTSError,
		"RunEndless": abi.ErrRTAicpuTimeout} {
		f := cpuFunction(e, name)
		args := cpuArgs(0, 0)
		var cfg *abi.LaunchKernelCfg
		if name == "RunEndless" {
			cfg = launchAttrs(e, 8, 20000)
		}
		e.ok(launch.LaunchKernelWithHostArgs(e.th, f, 1, 0, cfg, core.AddrOf(args), 12, nil, 0))
		if err := e.th.SynchronizeStream(0); err == nil || !errors.Is(err, want) {
			e.Errorf("%s: %v, want %d", name, err, want)
		}
	}
	for _, mode := range []uint32{0, 1} {
		f, p := cpuListed(e, mode, "Put"), e.words(1, 1)
		args := cpuArgs(p, 2)
		e.ok(launch.LaunchKernelWithHostArgs(e.th, f, 3, 0, nil, core.AddrOf(args), 12, nil, 0))
		if got := e.number(p); got != 7 {
			e.Errorf("mode %d: %d, want 7", mode, got)
		}
	}
	lost, args := cpuListed(e, 0, "Lost"), cpuArgs(0, 0)
	e.want(launch.LaunchKernelWithHostArgs(e.th, lost, 1, 0, nil, core.AddrOf(args), 12, nil, 0), abi.ErrRTParamInvalid)
}
