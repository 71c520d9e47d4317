package launch

import (
	"slices"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/kernel"
)

// Kernels of the layer below the API: binaries are loaded from memory, and kernels are launched by a key, an address
// that the program chooses, or by the binary and a number.

// magics are the kinds of binaries, and whether they are read here.
var magics = map[uint32]bool{
	abi.RtDevBinaryMagicElf: true, abi.RtDevBinaryMagicElfAicube: true, abi.RtDevBinaryMagicElfAivec: true,
	abi.RtDevBinaryMagicElfAicpu: false, abi.RtDevBinaryMagicPlain: false, abi.RtDevBinaryMagicPlainAicpu: false,
	abi.RtDevBinaryMagicPlainAivec: false,
}

// DevBinaryRegister is rtDevBinaryRegister.
func DevBinaryRegister(t *core.Thread, bin *abi.DevBinary, hdl *core.Handle) *core.Error {
	if err := checkDevBinaryRegister(t, bin, hdl); err != nil {
		return err
	}
	return registerBinary(t, "rtDevBinaryRegister", bin, hdl)
}

// RegisterAllKernel is rtRegisterAllKernel.
func RegisterAllKernel(t *core.Thread, bin *abi.DevBinary, hdl *core.Handle) *core.Error {
	if err := checkRegisterAllKernel(t, bin, hdl); err != nil {
		return err
	}
	return registerBinary(t, "rtRegisterAllKernel", bin, hdl)
}

// registerBinary loads a binary.
func registerBinary(t *core.Thread, api string, bin *abi.DevBinary, hdl *core.Handle) *core.Error {
	switch reads, known := magics[bin.Magic]; {
	case !known:
		return core.Refused(api, "bin", "its magic is %#x, which is not known", bin.Magic)
	case !reads:
		return core.Refused(api, "bin", "its magic is %#x; code that is plain or for the AI CPU cannot be read",
			bin.Magic)
	case bin.Data == 0 || bin.Length == 0:
		return core.Refused(api, "bin", "it has no bytes")
	}
	if err := tooLong(api, "bin", bin.Length); err != nil {
		return err
	}
	b := newBinary("kernel", core.Copy(t, core.Addr(bin.Data), bin.Length))
	return stateOf(t.Runtime).load(api, "bin", b, bin.Magic, "", hdl)
}

// FunctionRegister is rtFunctionRegister.
func FunctionRegister(t *core.Thread, binHandle core.Handle, stubFunc Addr, stubName, kernelInfoExt *byte,
	funcMode uint32) *core.Error {
	const api = "rtFunctionRegister"
	b, err := checkFunctionRegister(t, binHandle, stubFunc, stubName, kernelInfoExt, funcMode)
	if err != nil {
		return err
	}
	s := stateOf(t.Runtime)
	if s.byKey(stubFunc) != nil {
		return keyTaken(api, stubFunc)
	}
	k, err := b.chosen(api, kernelInfoExt)
	if err != nil {
		return err
	}
	f := b.function(t.Runtime, nil, k)
	if f == nil {
		return core.Refused(api, "binHandle", "the binary was unloaded meanwhile")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[stubFunc] != nil {
		return keyTaken(api, stubFunc)
	}
	s.keys[stubFunc] = f
	return nil
}

func keyTaken(api string, key Addr) *core.Error {
	return core.Fail(api, abi.ErrRTKernelDuplicate, "stubFunc", "%#x is the key of a kernel already", key).NotRecorded()
}

// chosen returns the kernel of a name, which may end with that of a half, or the first kernel without a name.
func (b *binary) chosen(api string, name *byte) (*kernel.Kernel, *core.Error) {
	text := ""
	if name != nil {
		text = core.CString(name)
	}
	all := b.table.Kernels()
	switch {
	case b.table.Open && text != "": // the launch finds out whether it exists
		return b.unlisted(text), nil
	case len(all) == 0:
		return nil, core.Fail(api, abi.ErrRTInternalError, "binHandle", "%s has no kernel", b.subject())
	case text == "":
		return all[0], nil
	}
	for _, half := range []string{"", "_mix_aic", "_mix_aiv"} {
		if k := b.table.Find(strings.TrimSuffix(text, half)); k != nil {
			return k, nil
		}
	}
	return nil, core.Fail(api, abi.ErrRTInternalError, "kernelInfoExt", "%s has no kernel %q", b.subject(), text)
}

// byKey returns the kernel of a key, or nil.
func (s *state) byKey(key Addr) *function {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}

// keyed puts the kernel of a key on the device of the request.
func (r *request) keyed(key Addr) *core.Error {
	if r.f = stateOf(r.c.Runtime).byKey(key); r.f == nil {
		return core.Fail(r.api, abi.ErrRTInternalError, "stubFunc", "%#x is the key of no kernel", key)
	}
	_, err := r.f.b.place(r.api, r.c, !r.f.b.lazy)
	return err
}

// KernelLaunch is rtKernelLaunch.
func KernelLaunch(t *core.Thread, stubFunc Addr, numBlocks uint32, args Addr, argsSize uint32, smDesc Addr,
	stm core.Handle) *core.Error {
	s, c, err := checkKernelLaunch(t, stubFunc, numBlocks, args, argsSize, smDesc, stm)
	if err != nil {
		return err
	}
	r := &request{api: "rtKernelLaunch", c: c, blocks: numBlocks, plain: true}
	if err := r.keyed(stubFunc); err != nil {
		return err
	}
	if s, as := r.f.repeatable(c, s); as != nil {
		return repeatCopied(t, r.f, s, as, numBlocks, core.ArrayOf(t, core.Pointer[byte](args), uint64(argsSize)))
	}
	if err := r.with(t, nil, false, s); err != nil {
		return err
	}
	return r.withArgs(t, args, uint64(argsSize), nil, s.IsBound())
}

// withArgs queues a launch with arguments in host memory, which are copied, or in device memory, which stay there.
func (r *request) withArgs(t *core.Thread, args Addr, size uint64, list []kernel.Placeholder, there bool) *core.Error {
	if there {
		return r.onDevice(t, args, size)
	}
	return r.copied(t, core.ArrayOf(t, core.Pointer[byte](args), size), list, 0)
}

// KernelLaunchWithFlagV2 is rtKernelLaunchWithFlagV2. flags is about dumps, which are not made.
func KernelLaunchWithFlagV2(t *core.Thread, stubFunc Addr, numBlocks uint32, argsInfo *abi.ArgsEx, smDesc Addr,
	stm core.Handle, flags uint32, cfgInfo *abi.TaskCfgInfo) *core.Error {
	s, err := checkKernelLaunchWithFlagV2(t, stubFunc, numBlocks, argsInfo, smDesc, stm, flags, cfgInfo)
	if err != nil {
		return err
	}
	r := &request{api: "rtKernelLaunchWithFlagV2", blocks: numBlocks}
	return r.extended(t, s, argsInfo, cfgInfo, func() *core.Error { return r.keyed(stubFunc) })
}

// KernelLaunchWithHandleV2 is rtKernelLaunchWithHandleV2.
func KernelLaunchWithHandleV2(t *core.Thread, hdl core.Handle, tilingKey uint64, numBlocks uint32,
	argsInfo *abi.ArgsEx, smDesc Addr, stm core.Handle, cfgInfo *abi.TaskCfgInfo) *core.Error {
	const api = "rtKernelLaunchWithHandleV2"
	b, s, err := checkKernelLaunchWithHandleV2(t, hdl, tilingKey, numBlocks, argsInfo, smDesc, stm, cfgInfo)
	if err != nil {
		return err
	}
	r := &request{api: api, blocks: blocksOf(numBlocks)}
	return r.extended(t, s, argsInfo, cfgInfo, func() *core.Error {
		p, err := b.place(api, r.c, !b.lazy)
		if err != nil {
			return err
		}
		k := b.table.FindNumber(tilingKey)
		if k == nil {
			return core.Fail(api, abi.ErrRTInternalError, "tilingKey", "no kernel of %s has the number %d", b.subject(),
				tilingKey)
		}
		if r.f = b.function(t.Runtime, p, k); r.f == nil {
			return core.Refused(api, "hdl", "the binary was unloaded meanwhile")
		}
		return nil
	})
}

// extended checks the arguments and the configuration of a launch, finds its kernel, and queues it.
func (r *request) extended(t *core.Thread, s *core.Stream, args *abi.ArgsEx, cfg *abi.TaskCfgInfo,
	find func() *core.Error) *core.Error {
	list, err := hostInputs(t, r.api, args)
	if err != nil {
		return err
	}
	if cfg != nil && cfg.SchemMode > 2 {
		return core.Refused(r.api, "cfgInfo", "its schemMode is %d, not 0 to 2", cfg.SchemMode)
	}
	if r.c = t.Current(); r.c == nil {
		return core.NoCurrentContext(r.api)
	}
	if s, err = r.c.On(r.api, s); err != nil {
		return err
	}
	if err := find(); err != nil {
		return err
	}
	if err := r.with(t, nil, false, s); err != nil {
		return err
	}
	if cfg != nil {
		r.config.batch = r.config.batch || cfg.SchemMode == 1
		r.config.limited = cfg.NeverTimeout != 0
		if t.Product("950") {
			r.config.dynamic, r.config.sized = cfg.LocalMemorySize, "cfgInfo"
		}
	}
	return r.withArgs(t, core.Addr(args.Args), uint64(args.ArgsSize), list, args.IsNoNeedH2DCopy != 0)
}

// hostInputs returns where addresses of bytes in the arguments belong in the arguments.
func hostInputs(t *core.Thread, api string, a *abi.ArgsEx) ([]kernel.Placeholder, *core.Error) {
	switch {
	case a.Args == 0 || a.ArgsSize == 0:
		return nil, core.Refused(api, "argsInfo", "it has no arguments")
	case a.IsNoNeedH2DCopy != 0:
		return nil, nil
	case a.HostInputInfoNum > 0 && a.HostInputInfoPtr == 0:
		return nil, core.Refused(api, "argsInfo", "it has %d host inputs and no list of them", a.HostInputInfoNum)
	}
	inputs := slices.Clone(core.ArrayOf(t, core.Pointer[abi.HostInputInfo](core.Addr(a.HostInputInfoPtr)),
		uint64(a.HostInputInfoNum)))
	if a.HasTiling != 0 {
		inputs = append(inputs, abi.HostInputInfo{AddrOffset: a.TilingAddrOffset, DataOffset: a.TilingDataOffset})
	}
	var list []kernel.Placeholder
	for _, in := range inputs {
		if in.AddrOffset >= a.ArgsSize || in.DataOffset >= a.ArgsSize {
			return nil, core.Refused(api, "argsInfo", "offsets %d and %d are not both inside the %d bytes of arguments",
				in.AddrOffset, in.DataOffset, a.ArgsSize)
		}
		list = append(list, kernel.Placeholder{Addr: in.AddrOffset, Data: in.DataOffset})
	}
	return list, nil
}

// RtsLaunchCpuKernel is rtsLaunchCpuKernel.
func RtsLaunchCpuKernel(t *core.Thread, funcHandle core.Handle, numBlocks uint32, stm core.Handle,
	cfg *abi.LaunchKernelCfg, argsInfo *abi.CpuKernelArgs) *core.Error {
	const api = "rtsLaunchCpuKernel"
	f, s, err := checkRtsLaunchCpuKernel(t, funcHandle, numBlocks, stm, cfg, argsInfo)
	if err != nil {
		return err
	}
	base := &argsInfo.BaseArgs
	switch {
	case base.Args == 0 || base.ArgsSize == 0:
		return core.Refused(api, "argsInfo", "it has no arguments")
	case numBlocks == 0:
		return core.Refused(api, "numBlocks", "is 0")
	}
	r := &request{api: api, f: f, blocks: numBlocks}
	if err := r.with(t, cfg, false, s); err != nil {
		return err
	}
	return r.withArgs(t, core.Addr(base.Args), uint64(base.ArgsSize), nil, base.IsNoNeedH2DCopy)
}

// forCPU refuses a function that is not one of the AI CPU.
func forCPU(_ *core.Thread, api string, f *function) *core.Error {
	if f.k.Type == kernel.AICPU {
		return nil
	}
	return core.Refused(api, "funcHandle", "%s is no function of the AI CPU", f.k.Name)
}
