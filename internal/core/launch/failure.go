package launch

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

var _ core.KernelTask = (*pending)(nil)

// failures are the codes of kernels that fail, by how they do: of AI Cores and cube cores, of vector cores, of AI CPUs.
var failures = [3][4]abi.Code{
	{abi.ErrRTAicoreException, abi.ErrRTAicoreTrapException, abi.ErrRTAicoreTimeout, abi.ErrRTDeviceMemError},
	{abi.ErrRTVectorCoreException, abi.ErrRTVectorCoreTrapException, abi.ErrRTVectorCoreTimeout,
		abi.ErrRTDeviceMemError},
	{abi.ErrRTAicpuException, abi.ErrRTInternalError, abi.ErrRTAicpuTimeout, abi.ErrRTDeviceMemError},
}

// Code implements core.KernelTask.
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

// Failed implements core.KernelTask.
func (p *pending) Failed() core.FailedKernel {
	k := core.FailedKernel{Function: p.f.handle, Args: p.Args, Size: uint32(p.Size), Name: p.f.k.Name}
	b := p.f.b
	core.Locked(&b.mu, func() {
		if call, data := b.callback, b.data; call != nil {
			k.Callback = func(info core.Addr) { call(info, data) }
		}
	})
	return k
}
