package launch_test

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/memory"
	"ropeway/internal/kernel/kerneltest"
)

// BenchmarkLaunch is what a program pays for a launch of no blocks, in the two forms that are used most.
func BenchmarkLaunch(b *testing.B) {
	kerneltest.Support(b)
	_, th := coretest.NewProcess(b, 64<<20)
	image := kerneltest.Compile(b, source)
	var bin, f, s core.Handle
	coretest.OK(b, launch.BinaryLoadFromData(th, core.AddrOf(image), uint64(len(image)), nil, &bin))
	coretest.OK(b, launch.BinaryGetFunction(th, bin, text("times"), &f))
	coretest.OK(b, th.CreateStream(&s))
	var args core.Addr
	coretest.OK(b, memory.Malloc(th, &args, 16, abi.MemMallocHugeFirst))
	const none = 1 << 16 // blocks: the device sees the low 16 bits
	given := host(0, 0)
	for name, call := range map[string]func() *core.Error{
		"device": func() *core.Error { return launch.LaunchKernel(th, f, none, args, 16, s) },
		"host": func() *core.Error {
			return launch.LaunchKernelWithHostArgs(th, f, none, s, nil, core.AddrOf(given), 16, nil, 0)
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if call() != nil {
					b.Fatal("refused")
				}
			}
			coretest.OK(b, th.SynchronizeStream(s))
		})
	}
}
