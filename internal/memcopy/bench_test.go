package memcopy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

const benchMax = 256 << 20

// benchMemory returns two ranges of benchMax bytes that are in memory, mapped
// once and kept: their first touch costs more than a benchmark.
var benchMemory = sync.OnceValue(func() [2][]byte {
	var m [2][]byte
	for i := range m {
		var err error
		m[i], err = syscall.Mmap(-1, 0, benchMax, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			panic(err)
		}
		paint(m[i], byte(i+1))
	}
	return m
})

// forBenchKernels runs f with each kernel that the CPU has.
func forBenchKernels(b *testing.B, size int, f func(b *testing.B)) {
	for _, name := range kernelNames() {
		b.Run(fmt.Sprintf("size=%d/kernel=%s", size, name), func(b *testing.B) {
			setKernel(b, name)
			b.SetBytes(int64(size))
			f(b)
		})
	}
}

// BenchmarkCopy copies the same memory again and again: hot up to the cache.
func BenchmarkCopy(b *testing.B) {
	m := benchMemory()
	dst, src := addrOf(m[0]), addrOf(m[1])
	for size := 64; size <= benchMax; size *= 4 {
		b.Run(fmt.Sprintf("size=%d/kernel=go", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				copy(m[0][:size], m[1][:size])
			}
		})
		forBenchKernels(b, size, func(b *testing.B) {
			for b.Loop() {
				Copy(dst, src, uintptr(size))
			}
		})
	}
}

// BenchmarkCopyStream walks through memory, so that nothing it reads is hot.
func BenchmarkCopyStream(b *testing.B) {
	m := benchMemory()
	dst, src := addrOf(m[0]), addrOf(m[1])
	for size := 1 << 10; size <= 4<<20; size *= 8 {
		b.Run(fmt.Sprintf("size=%d/kernel=go", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			off := 0
			for b.Loop() {
				copy(m[0][off:off+size], m[1][off:off+size])
				off = (off + size) % benchMax
			}
		})
		forBenchKernels(b, size, func(b *testing.B) {
			off := uintptr(0)
			for b.Loop() {
				CopyStream(dst+off, src+off, uintptr(size))
				off = (off + uintptr(size)) % benchMax
			}
		})
	}
}

// BenchmarkChunks has two goroutines claim chunks of one large copy.
func BenchmarkChunks(b *testing.B) {
	const chunk = 512 << 10
	m := benchMemory()
	dst, src := addrOf(m[0]), addrOf(m[1])
	run := func(b *testing.B, workers int, f func(dst, src, n uintptr)) {
		for b.Loop() {
			var next atomic.Uintptr
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for {
						off := next.Add(chunk) - chunk
						if off >= benchMax {
							return
						}
						f(dst+off, src+off, chunk)
					}
				})
			}
			wg.Wait()
		}
	}
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			b.Run(fmt.Sprintf("size=%d/kernel=go", benchMax), func(b *testing.B) {
				b.SetBytes(benchMax)
				run(b, workers, move)
			})
			forBenchKernels(b, benchMax, func(b *testing.B) { run(b, workers, CopyStream) })
		})
	}
}

func BenchmarkFill8(b *testing.B) {
	m := benchMemory()
	dst := addrOf(m[0])
	for size := 64; size <= benchMax; size *= 8 {
		b.Run(fmt.Sprintf("size=%d/kernel=go-clear", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				clear(m[0][:size])
			}
		})
		forBenchKernels(b, size, func(b *testing.B) {
			for b.Loop() {
				Fill8(dst, 0x5A, uintptr(size))
			}
		})
	}
}

func BenchmarkProbe(b *testing.B) {
	dst := addrOf(benchMemory()[0])
	for size := pageBytes; size <= 16<<20; size *= 64 {
		b.Run(fmt.Sprintf("size=%d/kind=read", size), func(b *testing.B) {
			for b.Loop() {
				ProbeRead(dst, uintptr(size))
			}
		})
		b.Run(fmt.Sprintf("size=%d/kind=write", size), func(b *testing.B) {
			for b.Loop() {
				ProbeWrite(dst, uintptr(size))
			}
		})
	}
}
