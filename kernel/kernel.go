// Package kernel loads kernels and launches them in streams.
//
// On the software device a kernel is a C function of a shared object for this CPU; docs/kernels.md says how to write
// one. The code that runs them is part of the toolkit's libascendcl.so, which is opened when the first kernel is
// loaded: LD_LIBRARY_PATH has to lead to it.
//
//	m, err := kernel.Load(dev, "add.so")
//	add, err := m.Kernel("add")
//	err = add.Launch(stream, 8, x.All(), y.All(), z.All(), uint64(n))
package kernel

import (
	"encoding/binary"
	"fmt"
	"math"

	"ropeway"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/goapi"
	_ "ropeway/internal/kernel/native" // runs shared objects
)

// Module is a loaded binary. Its methods may be called concurrently.
type Module struct {
	t *core.Thread
	h core.Handle
}

// Kernel is a kernel of a module. Its methods may be called concurrently.
type Kernel struct {
	name string
	t    *core.Thread
	h    core.Handle
}

// Load loads a binary from a file, for a device.
func Load(d *ropeway.Device, path string) (*Module, error) {
	t, _ := goapi.Device(d)
	m := &Module{t: t}
	return m.loaded(launch.BinaryLoadFromFile(t, text(path), nil, &m.h))
}

// LoadData loads a binary from memory, which is copied.
func LoadData(d *ropeway.Device, image []byte) (*Module, error) {
	t, _ := goapi.Device(d)
	m := &Module{t: t}
	return m.loaded(launch.BinaryLoadFromData(t, core.AddrOf(image), uint64(len(image)), nil, &m.h))
}

func (m *Module) loaded(err *core.Error) (*Module, error) {
	if err != nil {
		return nil, goapi.Result(m.t, err)
	}
	return m, nil
}

// text is a C string.
func text(s string) *byte { return &append([]byte(s), 0)[0] }

// Kernel finds a kernel by its name.
func (m *Module) Kernel(name string) (*Kernel, error) {
	k := &Kernel{name: name, t: m.t}
	if err := launch.BinaryGetFunction(m.t, m.h, text(name), &k.h); err != nil {
		return nil, goapi.Result(m.t, err)
	}
	return k, nil
}

// Close unloads the binary. Launches that are queued run.
func (m *Module) Close() error { return goapi.Result(m.t, launch.BinaryUnLoad(m.t, m.h)) }

// Name returns the name of the kernel.
func (k *Kernel) Name() string { return k.name }

// Launch queues the kernel with a number of blocks. Each argument takes 8 bytes: a [ropeway.Span] is the address of
// its first byte, numbers and booleans are themselves. Memory that an argument leads to has to stay until the kernel
// has run.
func (k *Kernel) Launch(s *ropeway.Stream, blocks int, args ...any) error {
	const api = "aclrtLaunchKernelWithHostArgs"
	t, stream := goapi.Stream(s)
	if blocks < 1 || blocks > math.MaxUint16 {
		return misuse(api, "numBlocks", fmt.Sprintf("%d is not 1 to %d", blocks, math.MaxUint16))
	}
	buffer := make([]byte, 0, 8*len(args)+8)
	for i, a := range args {
		word, err := k.word(t, api, i, a)
		if err != nil {
			return err
		}
		buffer = binary.LittleEndian.AppendUint64(buffer, word)
	}
	if len(buffer) == 0 {
		buffer = make([]byte, 8) // arguments cannot be empty
	}
	return goapi.Result(t, launch.LaunchKernelWithHostArgs(t, k.h, uint32(blocks), stream, nil, core.AddrOf(buffer),
		uint64(len(buffer)), nil, 0))
}

// word is an argument as the kernel gets it.
func (k *Kernel) word(t *core.Thread, api string, i int, a any) (uint64, error) {
	switch v := a.(type) {
	case ropeway.Span:
		b, off := v.Buffer()
		addr, err := goapi.Addr(t, api, fmt.Sprintf("args[%d]", i), b, off, v.Len())
		return uint64(addr), err
	case int:
		return uint64(v), nil
	case int32:
		return uint64(v), nil
	case int64:
		return uint64(v), nil
	case uint32:
		return uint64(v), nil
	case uint64:
		return v, nil
	case float32:
		return uint64(math.Float32bits(v)), nil
	case float64:
		return math.Float64bits(v), nil
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	}
	return 0, misuse(api, fmt.Sprintf("args[%d]", i), fmt.Sprintf("a %T is no argument of a kernel", a))
}

func misuse(api, arg, text string) error {
	return &ropeway.Error{Code: ropeway.ErrRTParamInvalid, API: api, Arg: arg, Index: -1, Text: text}
}
