package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/kernel"
)

// Binaries for the AI CPU. Their shared object is not read when it is loaded; which kernels there are says a list
// beside it, or the program, by aclrtRegisterCpuFunc. On a CPU their functions are called with one argument, the
// address of the arguments, and fail if they return anything but 0.

// How an AI CPU binary is loaded: CPU_KERNEL_MODE.
const (
	noCPU     = -1 // it is none
	installed = 0  // a list of kernels, whose shared objects are part of the installation
	listed    = 1  // a list, and the shared object beside it
	given     = 2  // the bytes of a shared object
)

// ofProgram is the opKernelLib of functions that the program names.
const ofProgram = "CUSTAICPUKernel"

// kernelLibs are the values of opKernelLib that a 950 knows.
var kernelLibs = []string{"AICPUKernel", ofProgram, "TFKernel", "KFCKernel"}

// forCPU reports whether the binary is one for the AI CPU.
func (b *binary) forCPU() bool { return b.mode != noCPU }

// loadCPUFile is aclrtBinaryLoadFromFile with a CPU_KERNEL_MODE.
func (s *state) loadCPUFile(api, path string, mode int32, handle *core.Handle) *core.Error {
	b := newBinary(filepath.Base(kernel.SideName(path, ".so")), nil)
	b.mode = mode
	if mode == listed {
		so := kernel.SideName(path, ".so")
		image, err := os.ReadFile(so)
		switch {
		case err != nil:
			return core.Refused(api, "binPath", "%v", err)
		case len(image) == 0:
			return core.Refused(api, "binPath", "%s is empty", so)
		}
		b.image = image
	}
	list := kernel.SideName(path, ".json")
	text, err := os.ReadFile(list)
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
	b := newBinary("kernel", bytes.Clone(image))
	b.mode = given
	return s.addCPU(api, b, nil, handle)
}

// addCPU gives an AI CPU binary its kernels and its handle.
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

// stand is a file of the folder with what stands in for code of devices.
func (s *state) stand(name string) ([]byte, error) {
	var folder string
	core.Locked(&s.mu, func() { folder = s.folder })
	if folder == "" {
		return nil, os.ErrNotExist
	}
	return os.ReadFile(filepath.Join(folder, filepath.Base(name)))
}

// home is the binary with the code of a kernel: b, or a shared object of the installation, which is in the folder with
// what stands in for code of devices, or beside the list.
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
		image, err = os.ReadFile(filepath.Join(b.folder, filepath.Base(k.So)))
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

// RegisterCpuFunc is aclrtRegisterCpuFunc. A name that is known keeps its function.
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

// named is the kernel of a name, made of a function if there is none yet.
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

// forget takes a name away that has no function.
func (b *binary) forget(k *kernel.Kernel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.names[k.Name] == k {
		delete(b.names, k.Name)
	}
}

// onlyCPU refuses a binary that is none for the AI CPU.
func onlyCPU(_ *core.Thread, api string, b *binary) *core.Error {
	if b.forCPU() {
		return nil
	}
	return core.Refused(api, "handle", "the binary is none for the AI CPU; load it with CPU_KERNEL_MODE")
}

// notCPU refuses an AI CPU binary, which has no numbers.
func notCPU(_ *core.Thread, api string, b *binary) *core.Error {
	if !b.forCPU() {
		return nil
	}
	return core.Refused(api, "binHandle", "the binary is one for the AI CPU, whose kernels have no numbers")
}

// noCPUVariables refuses an AI CPU binary, whose variables are not the program's.
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

// runsOnCPU are the rules of launches about what an AI CPU function is part of.
func (r *request) runsOnCPU(t *core.Thread) *core.Error {
	k := r.f.k
	if k.Type != kernel.AICPU {
		return nil
	}
	switch {
	case t.Product("950") && !slices.Contains(kernelLibs, k.Lib):
		return core.Fail(r.api, abi.ErrRTInternalError, "",
			"the opKernelLib of %s is %q, which this product cannot run", k.Name, k.Lib)
	case t.Product("310B", "910", "IPV350") && k.Lib == "KFCKernel":
		return core.Unsupported(r.api, "", "%s has no KFCKernel, which %s is", t.Runtime.Product.Name,
			k.Name).NotRecorded()
	}
	return nil
}
