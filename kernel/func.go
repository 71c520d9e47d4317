package kernel

import (
	"encoding/binary"
	"fmt"

	"ropeway"
	"ropeway/internal/core"
	"ropeway/internal/kernel"
)

// Func is a Go function as a kernel, for tests of programs that launch kernels: it needs no compiler and no toolkit.
// It is called once for each block, on several goroutines at a time. If it returns an error or panics, the launch
// fails as one of a kernel that traps; if it touches memory that is not there, as one of a kernel that does. It is not
// interrupted: a launch whose time is up ends when the calls that run return.
//
// Only the software device runs such kernels.
type Func func(b *Block) error

// Block is one call of a [Func]. It is good until the function returns.
type Block struct{ of *kernel.Block }

// Index is the number of the block, from 0.
func (b *Block) Index() int { return int(b.of.Index) }

// Num returns the number of blocks.
func (b *Block) Num() int { return int(b.of.Num) }

// Args is the argument buffer.
func (b *Block) Args() []byte { return core.Array(core.Pointer[byte](b.of.Args), b.of.Size) }

// Arg returns the i-th argument, from 0: 8 bytes of the buffer. It panics if there is no such argument.
func (b *Block) Arg(i int) uint64 { return binary.LittleEndian.Uint64(b.Args()[8*i:]) }

// Reads says that the block reads bytes at an address, such as an argument, so that the checker judges it as it judges
// copies. Of a kernel that says nothing, the checker knows the pages that it touches if the program has loaded a shared
// object, and else nothing: then what its arguments lead to counts as written. Where nothing is checked, it does
// nothing.
func (b *Block) Reads(address uint64, bytes int) { b.touches(address, bytes, false) }

// Writes is [Block.Reads] for bytes that the block writes. Bytes that it reads before that, it reads, too.
func (b *Block) Writes(address uint64, bytes int) { b.touches(address, bytes, true) }

func (b *Block) touches(address uint64, bytes int, write bool) {
	if bytes > 0 {
		b.of.Touch(uintptr(address), uint64(bytes), write)
	}
}

// Slice is n elements of the memory that the i-th argument of a block leads to. It has no bounds but
// n: the function sees what a kernel in C sees.
func Slice[T ropeway.Number](b *Block, i, n int) []T {
	if n < 0 {
		panic(fmt.Sprintf("kernel.Slice: length %d", n))
	}
	return core.Array(core.Pointer[T](core.Addr(b.Arg(i))), uint64(n))
}

// LoadFuncs loads Go functions as a binary, in which they are kernels by their names.
func LoadFuncs(d *ropeway.Device, funcs map[string]Func) (*Module, error) {
	list := map[string]kernel.Func{}
	for name, f := range funcs {
		if f != nil {
			list[name] = func(b *kernel.Block) error { return f(&Block{b}) }
		} else {
			list[name] = nil
		}
	}
	image := kernel.Functions(list)
	m, err := LoadData(d, image)
	if err != nil {
		kernel.Forget(image)
	}
	return m, err
}
