package cuda

import (
	"encoding/binary"
	"fmt"

	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/memcopy"
)

// fakeNames are the kernels; a handle is the place in the list, and 1.
var fakeNames = []string{kernels.Gather, kernels.Descriptor, kernels.Offset, kernels.Move, kernels.Few}

func (f *fake) Multiprocessors(int) (int, libcuda.Result) { return 4, libcuda.Success }

func (f *fake) ModuleFunction(module uintptr, name string) (uintptr, libcuda.Result) {
	if module != 1 {
		return f.userKernel(module, name)
	}
	for i, n := range fakeNames {
		if n == name && n != f.noKernel {
			return uintptr(i + 1), libcuda.Success
		}
	}
	return 0, 500
}

// LaunchKernel puts a kernel on a stream. What it takes is read from its parameters here, as CUDA copies them.
func (f *fake) LaunchKernel(kernel uintptr, blocks, threads int, params []byte, stream uintptr) libcuda.Result {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(params[i:]) }
	half := func(i int) uint32 { return binary.LittleEndian.Uint32(params[i:]) }
	s, _ := f.stream(stream)
	gpu := s.gpu
	var run func()
	name := fakeNames[kernel-1]
	f.noteBlocks(name, blocks)
	switch name {
	case kernels.Gather:
		table, count, tag := uintptr(word(0)), int(half(8)), kernels.Tag(half(16))<<58
		run = func() {
			for i := range count {
				dst, src, n := awaitEntry(table, i, tag).Unpack()
				f.reach(gpu, dst, src, n)
			}
		}
	case kernels.Few:
		p := fewOf(params)
		run = func() {
			for i := range p.Count {
				i = p.Count - 1 - i // an order that nobody expects
				f.reach(gpu, uintptr(p.Dst[i]), uintptr(p.Src[i]), uint64(p.Bytes[i]))
			}
		}
	case kernels.Descriptor:
		at, length, src, dst := uintptr(word(0)), half(8), half(12), half(16)
		current, found, report := uintptr(word(24)), uintptr(word(32)), uintptr(word(40))
		run = func() {
			b := bytesAt(at, 64)
			c := kernels.Found{
				Dst: binary.LittleEndian.Uint64(b[dst:]), Src: binary.LittleEndian.Uint64(b[src:]),
				Bytes: uint64(binary.LittleEndian.Uint32(b[length:])),
			}
			fakeJudge(c, current, found, report)
		}
	case kernels.Offset:
		dstCell, srcCell, dst, src, n := uintptr(word(0)), uintptr(word(8)), word(16), word(24), word(32)
		current, found, report := uintptr(word(40)), uintptr(word(48)), uintptr(word(56))
		run = func() {
			c := kernels.Found{Dst: fakeWord(dstCell) + dst, Src: fakeWord(srcCell) + src, Bytes: n}
			fakeJudge(c, current, found, report)
		}
	case kernels.Move:
		found := uintptr(word(0))
		run = func() {
			b := bytesAt(found, 32)
			if kernels.Status(binary.LittleEndian.Uint32(b[24:])) == kernels.Good {
				f.reach(gpu, uintptr(fakeWord(found)), uintptr(fakeWord(found+8)), fakeWord(found+16))
			}
		}
	}
	if want := map[bool]int{true: kernels.ReadThreads, false: kernels.Threads}[kernel == 2 ||
		kernel == 3]; threads != want {
		panic(fmt.Sprintf("BUG: %s has %d threads", name, threads))
	}
	return f.put(stream, fakeOrder{kind: 'k', kernel: run})
}

func (f *fake) noteBlocks(name string, blocks int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blocks == nil {
		f.blocks = map[string]int{}
	}
	f.blocks[name] = max(f.blocks[name], blocks)
}

func fakeWord(at uintptr) uint64 { return binary.LittleEndian.Uint64(bytesAt(at, 8)) }

// fakeJudge is what settle does in copy.cu.
func fakeJudge(c kernels.Found, current, found, report uintptr) {
	table := uintptr(fakeWord(current))
	live := rangesAt(table+8, int(fakeWord(table)))
	in := func(addr, n uint64) bool {
		for _, r := range live {
			if addr >= r.Start && addr < r.End && n <= r.End-addr {
				return true
			}
		}
		return false
	}
	switch {
	case !in(c.Src, c.Bytes):
		c.Status = kernels.BadSource
	case !in(c.Dst, c.Bytes):
		c.Status = kernels.BadDestination
	}
	b := bytesAt(found, 32)
	for i, v := range [...]uint64{c.Dst, c.Src, c.Bytes, uint64(c.Status)} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	gpu.WordAt(report).Store(uint32(c.Status))
}

// reach copies as a kernel does: what is not there breaks the GPU.
func (f *fake) reach(gpu int, dst, src uintptr, n uint64) {
	if f.careful && !(f.reachable(gpu, dst, n) && f.reachable(gpu, src, n)) {
		f.breakGPU(gpu, libcuda.IllegalAddress)
		return
	}
	memcopy.Copy(dst, src, uintptr(n))
}

// reachable reports whether a kernel on a GPU can use what is at addr: its own memory, or host memory that is pinned.
func (f *fake) reachable(gpu int, addr uintptr, n uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, m := range f.memory {
		if (m.host || m.gpu == gpu) && addr >= at && uint64(addr-at)+n <= m.n {
			return true
		}
	}
	for at, r := range f.ranges {
		if addr >= at && uint64(addr-at)+n <= r.n {
			return true
		}
	}
	return false
}
