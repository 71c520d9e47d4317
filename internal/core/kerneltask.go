package core

import (
	"errors"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// KernelTask is the owner of a launch. It describes the kernel if that fails; package launch implements it.
type KernelTask interface {
	driver.LaunchOwner

	// KernelName returns the name of the kernel.
	KernelName() string

	// FailureCode returns the code of a failure.
	FailureCode(f driver.KernelFailure) abi.Code

	// OnCPU reports whether the kernel runs on a CPU of the device.
	OnCPU() bool

	// Kind returns the kind of kernel, as in prints of models.
	Kind() string

	// Failed returns the information for the program about the failed kernel. It is called before the launch is over.
	Failed() FailedKernel
}

// FailedKernel describes a kernel that failed; the zero value means none.
type FailedKernel struct {
	Function Handle
	Name     string
	Args     Addr
	Size     uint32
	Callback func(info Addr) // of its binary; may be nil
	Dumps    bool            // its launch asked for a dump of its data
}

func kernelTask(err error) KernelTask {
	var k *driver.KernelError
	if !errors.As(err, &k) || k.Launch == nil {
		return nil
	}
	t, _ := k.Launch.Owner().(KernelTask)
	return t
}

// kernelCode returns the code of a kernel that failed.
func kernelCode(k *driver.KernelError) abi.Code {
	if k.Program {
		return abi.ErrRTModelExecute
	}
	if t := kernelTask(k); t != nil {
		return t.FailureCode(k.Failure)
	}
	return abi.ErrRTAicoreException
}

// failedKernel returns the kernel that an error is about, if there is one.
func failedKernel(err error) FailedKernel {
	if t := kernelTask(err); t != nil {
		return t.Failed()
	}
	return FailedKernel{}
}
