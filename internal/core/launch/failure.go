package launch

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

var _ core.KernelTask = (*pending)(nil)

// failures are the codes of failed kernels by KernelFailure: of AI Cores and cube cores, of vector cores, of AI CPUs.
var failures = [3][4]abi.Code{
	{abi.ErrRTAicoreException, abi.ErrRTAicoreTrapException, abi.ErrRTAicoreTimeout, abi.ErrRTDeviceMemError},
	{abi.ErrRTVectorCoreException, abi.ErrRTVectorCoreTrapException, abi.ErrRTVectorCoreTimeout,
		abi.ErrRTDeviceMemError},
	{abi.ErrRTAicpuException, abi.ErrRTTSError, abi.ErrRTAicpuTimeout, abi.ErrRTDeviceMemError},
}

// KernelName implements core.KernelTask.
func (p *pending) KernelName() string { return p.f.k.Name }

// FailureCode implements core.KernelTask.
func (p *pending) FailureCode(f driver.KernelFailure) abi.Code {
	row := 0
	switch p.class {
	case kernel.Vector:
		row = 1
	case kernel.AICPU:
		row = 2
	}
	return failures[row][f]
}

// OnCPU implements core.KernelTask.
func (p *pending) OnCPU() bool { return p.class == kernel.AICPU }

// Kind implements core.KernelTask.
func (p *pending) Kind() string {
	switch {
	case p.class == kernel.AICPU:
		return "KERNEL_AICPU"
	case p.Code[0] != 0 && p.Code[1] != 0:
		return "KERNEL_MIX_AIC"
	case p.class == kernel.Vector:
		return "KERNEL_AIVEC"
	}
	return "KERNEL_AICORE"
}

// Failed implements core.KernelTask.
func (p *pending) Failed() core.FailedKernel {
	k := core.FailedKernel{Function: p.f.handle, Args: p.Args, Size: uint32(p.Size), Name: p.f.k.Name, Dumps: p.dumps}
	b := p.f.b
	core.Locked(&b.mu, func() {
		if call, data := b.callback, b.data; call != nil {
			k.Callback = func(info core.Addr) { call(info, data) }
		}
	})
	return k
}
