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
// fails like that of a kernel that traps; if it accesses unmapped memory, like that of a kernel that does so. It is
// not interrupted: a launch that exceeds its time limit ends when the running calls return.
//
// Only the software device runs such kernels.
type Func func(b *Block) error

// Block is one call of a [Func]. It is valid until the function returns.
type Block struct{ of *kernel.Block }

// Index returns the number of the block, from 0.
func (b *Block) Index() int { return int(b.of.Index) }

// Num returns the number of blocks.
func (b *Block) Num() int { return int(b.of.Num) }

// Args returns the argument buffer.
func (b *Block) Args() []byte { return core.Array(core.Pointer[byte](b.of.Args), b.of.Size) }

// Arg returns the i-th argument, from 0: 8 bytes of the buffer. It panics if there is no such argument.
func (b *Block) Arg(i int) uint64 { return binary.LittleEndian.Uint64(b.Args()[8*i:]) }

// Reads reports that the block reads bytes at an address, such as an argument, so that the checker judges it like a
// copy. For a kernel that reports nothing, the checker sees the pages that it accesses if the program has loaded a
// shared object; else it assumes that the kernel writes the memory of its arguments. Without a checker, Reads has no
// effect.
func (b *Block) Reads(address uint64, bytes int) { b.touches(address, bytes, false) }

// Writes is [Block.Reads] for bytes that the block writes. If the block also reads them before that, call Reads too.
func (b *Block) Writes(address uint64, bytes int) { b.touches(address, bytes, true) }

func (b *Block) touches(address uint64, bytes int, write bool) {
	if bytes > 0 {
		b.of.Touch(uintptr(address), uint64(bytes), write)
	}
}

// Slice returns n elements of the memory that the i-th argument of a block points to. Only n bounds it, not the
// allocation, as for a kernel in C.
func Slice[T ropeway.Number](b *Block, i, n int) []T {
	if n < 0 {
		panic(fmt.Sprintf("kernel.Slice: length %d", n))
	}
	return core.Array(core.Pointer[T](core.Addr(b.Arg(i))), uint64(n))
}

// LoadFuncs loads Go functions as a binary, whose kernels have the names in the map.
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
