// Package kernel loads kernels and launches them in streams.
//
// On the software device a kernel is a C function of a shared object for this CPU; docs/kernels.md explains how to
// write one. The code that runs them is part of the toolkit's libascendcl.so, which is opened when the first kernel is
// loaded: LD_LIBRARY_PATH must contain its directory. For tests, [LoadFuncs] makes kernels of Go functions, which
// needs no library.
//
//	m, err := kernel.Load(dev, "add.so")
//	add, err := m.Kernel("add")
//	err = add.Launch(stream, 8, x.All(), y.All(), z.All(), uint64(n))
package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"ropeway"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/goapi"
	_ "ropeway/internal/kernel/native" // runs shared objects
)

// Module is a loaded binary. Its methods may be called concurrently.
type Module struct {
	d *ropeway.Device
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
	m := &Module{d: d, t: t}
	return m.loaded(launch.BinaryLoadFromFile(t, text(path), nil, &m.h))
}

// LoadData loads a binary from memory, which is copied.
func LoadData(d *ropeway.Device, image []byte) (*Module, error) {
	t, _ := goapi.Device(d)
	m := &Module{d: d, t: t}
	return m.loaded(launch.BinaryLoadFromData(t, core.AddrOf(image), uint64(len(image)), nil, &m.h))
}

func (m *Module) loaded(err *core.Error) (*Module, error) {
	if err != nil {
		return nil, goapi.Result(m.t, err)
	}
	return m, nil
}

// text returns s as a C string.
func text(s string) *byte { return &append([]byte(s), 0)[0] }

// Kernel finds a kernel by its name.
func (m *Module) Kernel(name string) (*Kernel, error) {
	k := &Kernel{name: name, t: m.t}
	if err := launch.BinaryGetFunction(m.t, m.h, text(name), &k.h); err != nil {
		return nil, goapi.Result(m.t, err)
	}
	return k, nil
}

// Variable finds a variable of the binary, by its name, as memory of the device. Kernels see bytes copied to it.
// Closing the buffer has no effect: the variable is freed with the module.
func (m *Module) Variable(name string) (*ropeway.Buffer, error) {
	var at core.Addr
	var n uint64
	if err := launch.BinaryGetGlobal(m.t, m.h, text(name), &at, &n); err != nil {
		return nil, goapi.Result(m.t, err)
	}
	return goapi.Memory(m.d, at, int(n)).(*ropeway.Buffer), nil
}

// Close unloads the binary. Queued launches still run.
func (m *Module) Close() error { return goapi.Result(m.t, launch.BinaryUnLoad(m.t, m.h)) }

// Name returns the name of the kernel.
func (k *Kernel) Name() string { return k.name }

// Launch queues the kernel with a number of blocks. Each argument takes 8 bytes: a [ropeway.Span], a
// [ropeway.Buffer] and a [ropeway.Array] are the address of their first byte; numbers and booleans, also of types
// defined by the program, are passed by value. Memory that an argument points to must stay allocated until the kernel
// has run.
func (k *Kernel) Launch(s *ropeway.Stream, blocks int, args ...any) error {
	const api = "aclrtLaunchKernelWithHostArgs"
	t, stream := goapi.Stream(s)
	if blocks < 1 || blocks > math.MaxUint16 {
		return misuse(api, "numBlocks", fmt.Sprintf("%d is not 1 to %d", blocks, math.MaxUint16))
	}
	var room [roomBytes]byte // on the stack, if it is large enough
	buffer, err := k.buffer(t, api, room[:], args)
	if err != nil {
		return err
	}
	return goapi.Result(t, launch.LaunchKernelWithBytes(t, k.h, uint32(blocks), stream, buffer))
}

// roomBytes is room for the arguments of most launches.
const roomBytes = 32 * 8

// buffer returns the argument buffer for the kernel, in room if it fits. It is never empty.
func (k *Kernel) buffer(t *core.Thread, api string, room []byte, args []any) ([]byte, error) {
	buffer := room[:0]
	for i, a := range args {
		word, err := k.word(t, api, i, a)
		if err != nil {
			return nil, err
		}
		buffer = binary.LittleEndian.AppendUint64(buffer, word)
	}
	if len(buffer) == 0 {
		buffer = room[:8]
	}
	return buffer, nil
}

// names has the names of the first arguments in errors; later ones are formatted.
var names = [...]string{"args[0]", "args[1]", "args[2]", "args[3]", "args[4]", "args[5]", "args[6]", "args[7]"}

func address(t *core.Thread, api string, i int, s ropeway.Span) (uint64, error) {
	var name string
	if i < len(names) {
		name = names[i]
	} else {
		name = fmt.Sprintf("args[%d]", i)
	}
	b, off := s.Buffer()
	addr, err := goapi.Addr(t, api, name, b, off, s.Len())
	return uint64(addr), err
}

// word returns an argument as a word for the kernel.
func (k *Kernel) word(t *core.Thread, api string, i int, a any) (uint64, error) {
	switch v := a.(type) {
	case ropeway.Span:
		return address(t, api, i, v)
	case interface{ All() ropeway.Span }:
		return address(t, api, i, v.All())
	}
	switch v := reflect.ValueOf(a); v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return uint64(v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return v.Uint(), nil
	case reflect.Float32:
		return uint64(math.Float32bits(float32(v.Float()))), nil
	case reflect.Float64:
		return math.Float64bits(v.Float()), nil
	case reflect.Bool:
		if v.Bool() {
			return 1, nil
		}
		return 0, nil
	default:
	}
	return 0, misuse(api, fmt.Sprintf("args[%d]", i), fmt.Sprintf("a %T is no argument of a kernel", a))
}

func misuse(api, arg, text string) error {
	return &ropeway.Error{Code: ropeway.ErrRTParamInvalid, API: api, Arg: arg, Index: -1, Text: text}
}
