package kernel

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"ropeway"
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/goapi"
)

// Config configures a launch of a kernel. Zero fields have no effect.
type Config struct {
	Blocks int // number of blocks, 1 to 65535; 0 for a SIMT kernel

	// Grid and Threads are the blocks of a SIMT kernel and the threads of a block, in x, y and z.
	Grid, Threads [3]int

	Shared  int           // bytes that the threads of a block of a SIMT kernel share, besides those that it declares
	Timeout time.Duration // limit after which the kernel is ended, in microseconds
	AtOnce  bool          // all blocks run at the same time, so that they may wait for each other
}

// LaunchWith is [Kernel.Launch] with a configuration.
func (k *Kernel) LaunchWith(s *ropeway.Stream, c Config, args ...any) error {
	simt := c.Grid != [3]int{} || c.Threads != [3]int{}
	api := "aclrtLaunchKernelWithHostArgs"
	if simt {
		api = "aclrtLaunchSIMTKernelWithHostArgs"
	}
	if arg, text := c.wrong(simt); text != "" {
		return misuse(api, arg, text)
	}
	t, stream := goapi.Stream(s)
	buffer, err := k.buffer(t, api, make([]byte, roomBytes), args)
	if err != nil {
		return err
	}
	attributes := c.attributes(simt)
	var config *abi.LaunchKernelCfg
	if n := len(attributes); n > 0 {
		config = &abi.LaunchKernelCfg{Attrs: core.AddressOf(&attributes[0]), NumAttrs: uint64(n)}
	}
	var failed *core.Error
	at, size := core.AddrOf(buffer), uint64(len(buffer))
	if simt {
		failed = launch.LaunchSIMTKernelWithHostArgs(t, core.Addr(k.h), dim(c.Grid), dim(c.Threads), uint64(c.Shared),
			stream, config, at, size, nil, 0)
	} else {
		failed = launch.LaunchKernelWithHostArgs(t, k.h, uint32(c.Blocks), stream, config, at, size, nil, 0)
	}
	runtime.KeepAlive(buffer)
	runtime.KeepAlive(attributes)
	return goapi.Result(t, failed)
}

// wrong returns a value that the C functions cannot take, and the reason.
func (c *Config) wrong(simt bool) (arg, text string) {
	few := func(n int) bool { return n < 0 || n > math.MaxUint32 }
	switch {
	case !simt && (c.Blocks < 1 || c.Blocks > math.MaxUint16):
		return "numBlocks", fmt.Sprintf("%d is not 1 to %d", c.Blocks, math.MaxUint16)
	case simt && c.Blocks != 0:
		return "gridDim", "Blocks is set, and so is Grid or Threads"
	case slices.ContainsFunc(c.Grid[:], few):
		return "gridDim", fmt.Sprintf("%v is not of numbers of 32 bits", c.Grid)
	case slices.ContainsFunc(c.Threads[:], few):
		return "blockDim", fmt.Sprintf("%v is not of numbers of 32 bits", c.Threads)
	case few(c.Shared):
		return "dynUbufSize", fmt.Sprintf("%d is not of 32 bits", c.Shared)
	case c.Timeout < 0 || c.Timeout%time.Microsecond != 0:
		return "cfg", fmt.Sprintf("a time of %v is negative, or not in microseconds", c.Timeout)
	}
	return "", ""
}

func dim(n [3]int) abi.Dim3 { return abi.Dim3{X: uint32(n[0]), Y: uint32(n[1]), Z: uint32(n[2])} }

// attributes returns the rest of the configuration. Shared memory is a parameter of its own for SIMT kernels.
func (c *Config) attributes(simt bool) (list []abi.LaunchKernelAttr) {
	add := func(id abi.LaunchKernelAttrId) *abi.LaunchKernelAttrValue {
		list = append(list, abi.LaunchKernelAttr{ID: id})
		return &list[len(list)-1].Value
	}
	if c.Timeout > 0 {
		us := uint64(c.Timeout / time.Microsecond)
		*add(abi.LaunchKernelAttrTimeoutUs).TimeoutUs() = abi.TimeoutUs{
			TimeoutLow: uint32(us), TimeoutHigh: uint32(us >> 32)}
	}
	if c.AtOnce {
		*add(abi.LaunchKernelAttrSchemMode).SchemMode() = 1
	}
	if c.Shared > 0 && !simt {
		*add(abi.LaunchKernelAttrDynUbufSize).DynUBufSize() = uint32(c.Shared)
	}
	return list
}
