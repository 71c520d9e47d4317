package core

import (
	"errors"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// KernelTask is the owner of a launch: what package launch knows of a kernel that fails.
type KernelTask interface {
	driver.LaunchOwner

	// KernelName is the name of the kernel.
	KernelName() string

	// FailureCode is the code of a failure.
	FailureCode(f driver.KernelFailure) abi.Code

	// OnCPU reports whether the kernel runs on a CPU of the device.
	OnCPU() bool

	// Kind is the kind of kernel, as prints of models spell it.
	Kind() string

	// Failed is what the program can find out about the kernel. It is called before the launch is over.
	Failed() FailedKernel
}

// FailedKernel is a kernel that failed; the zero value is none.
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

// kernelCode is the code of a kernel that failed.
func kernelCode(k *driver.KernelError) abi.Code {
	if k.Program {
		return abi.ErrRTModelExecute
	}
	if t := kernelTask(k); t != nil {
		return t.FailureCode(k.Failure)
	}
	return abi.ErrRTAicoreException
}

// failedKernel is the kernel that an error is about, if it is about one.
func failedKernel(err error) FailedKernel {
	if t := kernelTask(err); t != nil {
		return t.Failed()
	}
	return FailedKernel{}
}
