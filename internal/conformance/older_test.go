package conformance

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/older"
	"ropeway/internal/kernel/kerneltest"
)

// The layer below the API.

// keys are addresses that stand for kernels.
var keys [4]byte

func keyAt(i int) core.Addr { return core.Addr(unsafe.Pointer(&keys[i])) }

// imageIn is a binary in memory, as the layer below the API is given it.
func imageIn(magic uint32, data []byte) *abi.DevBinary {
	return &abi.DevBinary{Magic: magic, Data: uintptr(core.AddrOf(data)), Length: uint64(len(data))}
}

// numberedSource has kernels whose names end with their numbers.
const numberedSource = `
#include <stdint.h>
void put_7(uint32_t *p, uint64_t v) { __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
void put_8(uint32_t *p, uint64_t v) { __atomic_fetch_add(p, 256 * v, __ATOMIC_SEQ_CST); }
`

// registeredAs is a binary of the layer below the API.
func (e *env) registeredAs(source string) (h core.Handle) {
	e.Helper()
	bin := imageIn(abi.RtDevBinaryMagicElfAivec, kerneltest.Compile(e.launches().T, source))
	e.ok(launch.DevBinaryRegister(e.th, bin, &h))
	return h
}

// keyed gives the kernel put the key 0.
func (e *env) keyed() core.Addr {
	e.Helper()
	h := e.registeredAs(kernelSource)
	e.ok(launch.FunctionRegister(e.th, h, keyAt(0), ctext("anything"), ctext("put"), 0))
	return keyAt(0)
}

// putArgs are arguments of put: where, and what to add.
func putArgs(p core.Addr, v uint32) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(p)), uint64(v))
}

// extendedArgs describes argument bytes.
func extendedArgs(b []byte) *abi.ArgsEx {
	return &abi.ArgsEx{Args: uintptr(core.AddrOf(b)), ArgsSize: uint32(len(b))}
}

// extendedForm is a launch with extended arguments.
type extendedForm func(e *env, th *core.Thread, a *abi.ArgsEx, s core.Handle, c *abi.TaskCfgInfo) *core.Error

func byKey(e *env, th *core.Thread, a *abi.ArgsEx, s core.Handle, c *abi.TaskCfgInfo) *core.Error {
	return launch.KernelLaunchWithFlagV2(th, keyAt(0), 3, a, 0, s, 0, c)
}

func byNumber(e *env, th *core.Thread, a *abi.ArgsEx, s core.Handle, c *abi.TaskCfgInfo) *core.Error {
	return launch.KernelLaunchWithHandleV2(th, e.registeredAs(numberedSource), 7, 3, a, 0, s, c)
}

func init() {
	proveOlderDevices()
	proveOlderKernels()
	prove("rtKernelLaunchWithFlagV2", "no-kernel", func(e *env) *core.Error {
		return byKey(e, e.launches().th, extendedArgs(putArgs(8, 1)), 0, nil)
	})
	prove("rtKernelLaunchWithHandleV2", "no-such-number", func(e *env) *core.Error {
		h := e.registeredAs(numberedSource)
		return launch.KernelLaunchWithHandleV2(e.th, h, 9, 3, extendedArgs(putArgs(8, 1)), 0, 0, nil)
	})
	for function, form := range map[string]extendedForm{
		"rtKernelLaunchWithFlagV2": byKey, "rtKernelLaunchWithHandleV2": byNumber,
	} {
		proveExtended(function, form)
	}
	proveOlderCPU()
}

func proveOlderDevices() {
	prove("rtGetDeviceInfo", "device-unknown", func(e *env) *core.Error {
		v := int64(-1)
		e.want(older.GetDeviceInfo(e.th, 99, 0, 19, &v), abi.ErrRTParamInvalid)
		err := older.GetDeviceInfo(e.th, 4, 0, 18, &v)
		is(e, "the value stays", v, -1)
		return err
	})
	prove("rtGetDeviceInfo", "pair-unknown", func(e *env) *core.Error {
		var v int64
		e.want(older.GetDeviceInfo(e.th, 0, 1, 18, &v), abi.ErrRTParamInvalid)
		return older.GetDeviceInfo(e.th, 0, 0, 20, &v)
	})
	prove("rtGetDeviceInfo", "not-offered", func(e *env) *core.Error {
		var v int64
		return e.blames("attr", older.GetDeviceInfo(e.th, 0, 0, 26, &v))
	})
	behaves("rtGetDeviceInfo", func(e *env) {
		o := e.on(machine{product: "A3"})
		for info, want := range map[int32]int64{18: 1, 19: 0, 26: int64(o.rt.SuperPodID(1)), 27: 0, 29: 0, 30: 0} {
			v := int64(-1)
			o.ok(older.GetDeviceInfo(o.th, 1, 0, info, &v))
			is(e, "the value", v, want)
		}
	})
	prove("rtGetSocVersion", "maxLen-too-small", func(e *env) *core.Error {
		name := make([]byte, 12)
		e.ok(older.GetSocVersion(e.stranger(), &name[0], 12))
		is(e, "the name", string(name), "Ascend910B1\x00")
		return older.GetSocVersion(e.th, &name[0], 11)
	})
	for function, call := range map[string]func(th *core.Thread, device, peer uint32) *core.Error{
		"rtEnableP2P": func(th *core.Thread, device, peer uint32) *core.Error {
			return memory.EnableP2P(th, device, peer, 0)
		},
		"rtDisableP2P": memory.DisableP2P,
	} {
		prove(function, "no-access", func(e *env) *core.Error { return call(e.on(machine{product: "310B"}).th, 0, 1) })
		prove(function, "no-device", func(e *env) *core.Error {
			e.want(call(e.th, 4, 1), abi.ErrRTInvalidDeviceid)
			return call(e.th, 0, 4000000000)
		})
		prove(function, "itself", func(e *env) *core.Error { return call(e.th, 1, 1) })
	}
	prove("rtIpcCloseMemory", "no-sharing", func(e *env) *core.Error {
		return onAll(e, noIPC, abi.ErrRTFeatureNotSupport,
			func(e *env) *core.Error { return memory.IpcCloseMemory(e.stranger(), 8) })
	})
	prove("rtIpcCloseMemory", "no-import", func(e *env) *core.Error {
		return memory.IpcCloseMemory(e.th, e.device(64))
	})
	behaves("rtMalloc", func(e *env) {
		for kind := range uint32(18) { // all policies
			var p core.Addr
			if kind = 2 | 1<<kind; kind&0x30000 == 0 {
				e.ok(older.Malloc(e.th, &p, 100, kind, 0))
				e.ok(older.Free(e.th, p))
			}
		}
		err := older.Free(e.th, e.pageable(64))
		e.want(err, abi.ErrRTParamInvalid)
		if !strings.Contains(err.Error(), "rtFree") {
			e.Errorf("%v names another function", err)
		}
	})
	behaves("rtGetTaskIdAndStreamID", func(e *env) {
		var task, stream, want uint32
		var id int32
		th := e.stranger()
		e.ok(th.GetTaskIdAndStreamID(&task, &stream))
		is(e, "before", task+stream, 0)
		s := e.stream()
		e.block(s)()
		e.ok(e.th.StreamGetId(s, &id))
		e.ok(e.th.GetThreadLastTaskId(&want))
		e.ok(e.th.GetTaskIdAndStreamID(&task, &stream))
		is(e, "the task", task, want)
		is(e, "the stream", stream, uint32(id))
	})
}

func proveOlderKernels() {
	for function, call := range map[string]func(*core.Thread, *abi.DevBinary, *core.Handle) *core.Error{
		"rtDevBinaryRegister": launch.DevBinaryRegister, "rtRegisterAllKernel": launch.RegisterAllKernel,
	} {
		unknown := map[bool]string{true: "magic-unknown", false: "magic-not-elf"}[function == "rtDevBinaryRegister"]
		prove(function, unknown, func(e *env) *core.Error {
			var h core.Handle
			image := kerneltest.Compile(e.launches().T, kernelSource)
			return call(e.th, imageIn(0x12345678, image), &h)
		})
		prove(function, "not-read", func(e *env) *core.Error {
			var h core.Handle
			e.want(call(e.launches().th, imageIn(abi.RtDevBinaryMagicElf, nil), &h), abi.ErrRTParamInvalid)
			e.want(call(e.th, imageIn(abi.RtDevBinaryMagicPlain, []byte("code")), &h), abi.ErrRTParamInvalid)
			return call(e.th, imageIn(abi.RtDevBinaryMagicElf, []byte("no binary")), &h)
		})
	}
	prove("rtFunctionRegister", "key-taken", func(e *env) *core.Error {
		key, h := e.keyed(), e.registeredAs(kernelSource)
		return launch.FunctionRegister(e.th, h, key, ctext("other"), ctext("none"), 0)
	})
	prove("rtFunctionRegister", "no-kernels", func(e *env) *core.Error {
		h := e.registeredAs("static int nothing;")
		return launch.FunctionRegister(e.th, h, keyAt(1), ctext("put"), nil, 0)
	})
	prove("rtFunctionRegister", "no-such-kernel", func(e *env) *core.Error {
		h := e.registeredAs(kernelSource)
		e.ok(launch.FunctionRegister(e.th, h, keyAt(1), ctext("duo"), ctext("duo_mix_aic"), 0))
		return launch.FunctionRegister(e.th, h, keyAt(2), ctext("put"), ctext("puts"), 0)
	})
	behaves("rtFunctionRegister", func(e *env) {
		h := e.registeredAs(numberedSource)
		e.ok(launch.FunctionRegister(e.th, h, keyAt(0), ctext("first"), ctext(""), 0)) // the first kernel
		p := e.words(1, 0)
		args := putArgs(p, 1)
		e.ok(launch.KernelLaunch(e.th, keyAt(0), 1, core.AddrOf(args), 16, 0, 0))
		is(e, "the first ran", e.number(p), 1)
		e.ok(older.DevBinaryUnRegister(e.stranger(), h))
		e.want(launch.KernelLaunch(e.th, keyAt(0), 1, core.AddrOf(args), 16, 0, 0), abi.ErrRTInternalError)
		e.keyed() // the key is free again
	})
	prove("rtKernelLaunch", "no-kernel", func(e *env) *core.Error {
		args := putArgs(8, 1)
		return launch.KernelLaunch(e.launches().th, keyAt(3), 1, core.AddrOf(args), 16, 0, 0)
	})
	behaves("rtKernelLaunch", func(e *env) {
		key, p, s := e.keyed(), e.words(1, 0), e.stream()
		for range 3 { // the second time it is repeated
			args := putArgs(p, 5)
			e.ok(launch.KernelLaunch(e.th, key, 2, core.AddrOf(args), 16, 0, s))
			clear(args) // they were copied
		}
		is(e, "the sum", e.number(p), 30)
	})
	prove("rtRegisterFuncSymbol", "no-such-kernel", func(e *env) *core.Error {
		return launch.RegisterFuncSymbol(e.th, e.binary(kernelSource), keyAt(0), ctext("none"), 0)
	})
	prove("rtRegisterVariable", "no-such-variable", func(e *env) *core.Error {
		return launch.RegisterVariable(e.th, e.binary(kernelSource), keyAt(0), ctext("none"), 4, 0, 0)
	})
}

// proveExtended proves the rules of a launch with extended arguments, and that it puts.
func proveExtended(function string, call extendedForm) {
	prepared := func(e *env) *env { e.keyed(); return e }
	prove(function, "args-wrong", func(e *env) *core.Error {
		prepared(e)
		b := putArgs(8, 1)
		none, empty, outside, listless := extendedArgs(b), extendedArgs(b), extendedArgs(b), extendedArgs(b)
		none.Args, empty.ArgsSize, listless.HostInputInfoNum = 0, 0, 1
		outside.HasTiling, outside.TilingDataOffset = 1, 16
		for _, a := range []*abi.ArgsEx{none, empty, outside} {
			e.want(call(e, e.th, a, 0, nil), abi.ErrRTParamInvalid)
		}
		return call(e, e.th, listless, 0, &abi.TaskCfgInfo{SchemMode: 3})
	})
	prove(function, "schemMode-over-2", func(e *env) *core.Error {
		return call(prepared(e), e.th, extendedArgs(putArgs(8, 1)), 0, &abi.TaskCfgInfo{SchemMode: 3})
	})
	prove(function, "no-context", func(e *env) *core.Error {
		s := e.stream()
		return call(prepared(e), e.stranger(), extendedArgs(putArgs(8, 1)), s, nil)
	})
	prove(function, "stream-elsewhere", func(e *env) *core.Error {
		return call(prepared(e), e.th, extendedArgs(putArgs(8, 1)), e.foreign(), nil)
	})
	behaves(function, func(e *env) {
		prepared(e)
		p := e.words(1, 0)
		e.ok(call(e, e.th, extendedArgs(putArgs(p, 2)), 0, &abi.TaskCfgInfo{SchemMode: 2, NeverTimeout: 1}))
		is(e, "three blocks", e.number(p), 6)
		there := e.device(16)
		e.write(there, putArgs(p, 3))
		e.ok(call(e, e.th, &abi.ArgsEx{Args: uintptr(there), ArgsSize: 16, IsNoNeedH2DCopy: 1}, 0, nil))
		is(e, "with arguments on the device", e.number(p), 15)
		inputs := []abi.HostInputInfo{{AddrOffset: 0, DataOffset: 16}} // put adds to bytes of the arguments
		b := append(putArgs(0, 1), 0, 0, 0, 0, 0, 0, 0, 0)
		a := extendedArgs(b)
		a.HostInputInfoPtr, a.HostInputInfoNum = uintptr(core.AddressOf(&inputs[0])), 1
		e.ok(call(e, e.th, a, 0, nil))
		e.ok(e.th.SynchronizeDevice())
		is(e, "an address is in the arguments", binary.LittleEndian.Uint64(b) != 0, true)
	})
}

func proveOlderCPU() {
	const function = "rtsLaunchCpuKernel"
	launched := func(e *env, th *core.Thread, f core.Handle, blocks uint32, cfg *abi.LaunchKernelCfg,
		args []byte) *core.Error {
		base := abi.AicpuArgsEx{Args: uintptr(core.AddrOf(args)), ArgsSize: uint32(len(args))}
		return launch.RtsLaunchCpuKernel(th, f, blocks, 0, cfg, &abi.CpuKernelArgs{BaseArgs: base})
	}
	prove(function, "not-for-the-CPU", func(e *env) *core.Error {
		return launched(e, e.th, e.kernel("put"), 1, nil, putArgs(8, 1))
	})
	prove(function, "args-missing", func(e *env) *core.Error {
		return launched(e, e.th, cpuFunction(e, "RunPut"), 0, nil, nil)
	})
	prove(function, "numBlocks-0", func(e *env) *core.Error {
		return launched(e, e.th, cpuFunction(e, "RunPut"), 0, launchAttrs(e, 10, 0), putArgs(8, 1))
	})
	prove(function, "cfg-wrong", func(e *env) *core.Error {
		return launched(e, e.stranger(), cpuFunction(e, "RunPut"), 1, launchAttrs(e, 10, 0), putArgs(8, 1))
	})
	prove(function, "no-context", func(e *env) *core.Error {
		return launched(e, e.stranger(), cpuFunction(e, "RunPut"), 1, nil, putArgs(8, 1))
	})
	behaves(function, func(e *env) {
		f, p := cpuFunction(e, "RunPut"), e.words(1, 0)
		e.ok(launched(e, e.th, f, 2, nil, putArgs(p, 7)))
		is(e, "the sum", e.number(p), 14)
	})
}
