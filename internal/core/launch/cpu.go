package launch

import (
	"os"
	"path/filepath"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/kernel"
	"ropeway/internal/readfile"
)

// Binaries for the AI CPU. Loading does not read their shared object; a list beside it, or the program by
// aclrtRegisterCpuFunc, names the kernels. On a CPU their functions are called with one argument, the address of the
// arguments, and fail if they do not return 0.

// Ways to load an AI CPU binary: CPU_KERNEL_MODE.
const (
	noCPU     = -1 // not an AI CPU binary
	installed = 0  // a list of kernels, whose shared objects are part of the installation
	listed    = 1  // a list, and the shared object beside it
	given     = 2  // the bytes of a shared object
)

// ofProgram is the opKernelLib of functions that the program registers.
const ofProgram = "CUSTAICPUKernel"

// kernelLibs are the values of opKernelLib that a 950 knows.
var kernelLibs = []string{"AICPUKernel", ofProgram, "TFKernel", "KFCKernel"}

// forCPU reports whether the binary is for the AI CPU.
func (b *binary) forCPU() bool { return b.mode != noCPU }

// loadCPUFile is aclrtBinaryLoadFromFile with a CPU_KERNEL_MODE.
func (s *state) loadCPUFile(api, path string, mode int32, handle *core.Handle) *core.Error {
	b := newBinary(filepath.Base(kernel.SideName(path, ".so")), nil)
	b.mode = mode
	if mode == listed {
		so := kernel.SideName(path, ".so")
		image, err := readfile.Regular(so, mostBytes)
		switch {
		case err != nil:
			return core.Refused(api, "binPath", "%v", err)
		case len(image) == 0:
			return core.Refused(api, "binPath", "%s is empty", so)
		}
		b.image = image
	}
	list := kernel.SideName(path, ".json")
	text, err := readfile.Regular(list, readfile.Text)
	if err != nil {
		return core.Refused(api, "binPath", "%v", err)
	}
	ops, err := kernel.ReadCPUOps(text)
	if err != nil {
		return core.Refused(api, "binPath", "%s: %v", list, err)
	}
	b.folder = filepath.Dir(list)
	return s.addCPU(api, b, ops, handle)
}

// loadCPUData is aclrtBinaryLoadFromData with CPU_KERNEL_MODE 2.
func (s *state) loadCPUData(api string, image []byte, handle *core.Handle) *core.Error {
	b := newBinary("kernel", image)
	b.mode = given
	return s.addCPU(api, b, nil, handle)
}

// addCPU sets the kernels of an AI CPU binary and returns its handle to the program.
func (s *state) addCPU(api string, b *binary, ops map[string]kernel.CPUOp, handle *core.Handle) *core.Error {
	l := s.launcher()
	if l == nil || !l.Runs(kernel.Native) {
		return core.Unsupported(api, "options", "the %s driver has no AI CPU", s.rt.Driver.Name())
	}
	if b.image != nil && !l.Runs(kernel.FormatOf(b.image)) {
		if image, err := s.stand(b.name); err == nil {
			b.image = image
		}
	}
	b.table = kernel.CPUTable(ops, uint64(len(b.image)))
	return s.add(api, b, handle)
}

// stand reads a file of the folder of stand-ins for device code.
func (s *state) stand(name string) ([]byte, error) {
	var folder string
	core.Locked(&s.mu, func() { folder = s.folder })
	if folder == "" {
		return nil, os.ErrNotExist
	}
	return readfile.Regular(filepath.Join(folder, filepath.Base(name)), mostBytes)
}

// home returns the binary with the code of a kernel: b, or a shared object of the installation, which is in the folder
// of stand-ins, or beside the list.
func (b *binary) home(s *state, api string, k *kernel.Kernel) (*binary, *core.Error) {
	if b.mode != installed {
		return b, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.parts[k.So]; h != nil {
		return h, nil
	}
	image, err := s.stand(k.So)
	if err != nil {
		image, err = readfile.Regular(filepath.Join(b.folder, filepath.Base(k.So)), mostBytes)
	}
	if err != nil {
		return nil, core.Refused(api, "", "kernel %s is in %q, which is neither in the folder of ROPEWAY_KERNELS nor "+
			"beside its list: %v", k.Name, k.So, err)
	}
	h := newBinary(filepath.Base(k.So), image)
	if b.parts == nil {
		b.parts = map[string]*binary{}
	}
	b.parts[k.So] = h
	return h, nil
}

// RegisterCpuFunc is aclrtRegisterCpuFunc. A registered name keeps its function.
func RegisterCpuFunc(t *core.Thread, handle core.Handle, funcName, kernelName *byte, found *core.Handle) *core.Error {
	const api = "aclrtRegisterCpuFunc"
	b, err := checkRegisterCpuFunc(t, handle, funcName, kernelName, found)
	if found != nil && b != nil {
		*found = 0
	}
	if err != nil {
		return err
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	p, err := b.place(api, c, b.mode != installed)
	if err != nil {
		return err
	}
	k := b.named(core.CString(kernelName), core.CString(funcName))
	if p.module != nil {
		if _, e := p.module.Code(k.Code[0].Symbol); e != nil {
			b.forget(k)
			return core.Fail(api, abi.ErrRTAicpuInfoLoadRspErr, "funcName", "%v", e)
		}
	}
	return b.give(t, api, p, k, found)
}

// named returns the kernel with a name, and creates it from a function if there is none.
func (b *binary) named(name, function string) *kernel.Kernel {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.table.Find(name)
	if k == nil {
		k = b.names[name]
	}
	if k == nil {
		k = kernel.CPUKernel(name, kernel.CPUOp{Function: function, So: b.name, Lib: ofProgram})
		b.names[name] = k
	}
	return k
}

// forget removes a name without a function.
func (b *binary) forget(k *kernel.Kernel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.names[k.Name] == k {
		delete(b.names, k.Name)
	}
}

// onlyCPU refuses a binary that is not for the AI CPU.
func onlyCPU(_ *core.Thread, api string, b *binary) *core.Error {
	if b.forCPU() {
		return nil
	}
	return core.Refused(api, "handle", "the binary is none for the AI CPU; load it with CPU_KERNEL_MODE")
}

// notCPU refuses an AI CPU binary, whose kernels have no numbers.
func notCPU(_ *core.Thread, api string, b *binary) *core.Error {
	if !b.forCPU() {
		return nil
	}
	return core.Refused(api, "binHandle", "the binary is one for the AI CPU, whose kernels have no numbers")
}

// noCPUVariables refuses an AI CPU binary, whose variables the program cannot use.
func noCPUVariables(_ *core.Thread, api string, b *binary) *core.Error {
	if !b.forCPU() {
		return nil
	}
	return core.Unsupported(api, "binHandle", "the binary is one for the AI CPU").NotRecorded()
}

// noCPUCode refuses a function of an AI CPU binary, whose code is not in device memory.
func noCPUCode(_ *core.Thread, api string, f *function) *core.Error {
	if f.k.Type != kernel.AICPU {
		return nil
	}
	return core.Refused(api, "funcHandle", "%s runs on the AI CPU", f.k.Name)
}

// noCPUParams refuses a function of an AI CPU binary, which has no list of parameters.
func noCPUParams(api string, f *function) *core.Error {
	if f.k.Type != kernel.AICPU {
		return nil
	}
	return core.Unsupported(api, "func", "%s runs on the AI CPU", f.k.Name).NotRecorded()
}

// runsOnCPU checks the rules of launches for AI CPU functions.
func (r *request) runsOnCPU(t *core.Thread) *core.Error {
	k := r.f.k
	if k.Type != kernel.AICPU {
		return nil
	}
	switch {
	case t.Product("950") && !slices.Contains(kernelLibs, k.Lib):
		return core.Fail(r.api, abi.ErrRTInternalError, "",
			"the opKernelLib of %s is %q, which this product cannot run", k.Name, k.Lib)
	case t.Product("310B", "910") && k.Lib == "KFCKernel":
		return core.Unsupported(r.api, "", "%s has no KFCKernel, which %s is", t.Runtime.Product.Name,
			k.Name).NotRecorded()
	}
	return nil
}
