package soft

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/memcopy"
)

// BenchmarkProtect closes and opens memory that the program has touched, as the checker does for each copy.
func BenchmarkProtect(b *testing.B) {
	for _, size := range []uint64{4 << 10, 1 << 20, 1 << 30} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			d := open(b, Options{Devices: 1, Memory: 4 << 30, Guard: true})
			defer d.Close()
			p, err := d.AllocHost(size)
			if errors.Is(err, driver.ErrNoMemory) {
				b.Skip(err)
			}
			must(b, err)
			must(b, d.Run(driver.Op{Kind: driver.OpFill, Dst: p, N: size, Width: 1, Value: 1}))
			memcopy.ProbeWrite(p, uintptr(size))
			lo, hi := d.Closable(p, size)
			for b.Loop() {
				must(b, d.Protect(lo, hi, driver.NoAccess))
				must(b, d.Protect(lo, hi, driver.ReadWrite))
			}
		})
	}
}

// BenchmarkRegisterGuard moves private memory into a file and back.
func BenchmarkRegisterGuard(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			d := guardian(b)
			mem := mmap(b, -1, size, readWrite, unix.MAP_PRIVATE)
			for i := range mem {
				mem[i] = 1
			}
			b.SetBytes(int64(2 * size))
			for b.Loop() {
				_, err := d.Register(addressOf(mem), uint64(size), false, 0)
				must(b, err)
				must(b, d.Unregister(addressOf(mem)))
			}
		})
	}
}

func BenchmarkSum(b *testing.B) {
	for _, size := range []uint64{64, 4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			d := guardian(b)
			p, err := d.AllocHost(size)
			must(b, err)
			b.SetBytes(int64(size))
			for b.Loop() {
				d.Sum(p, size)
			}
		})
	}
}

// BenchmarkAllocHostGuard measures the cost of fresh addresses: new pages for each allocation, opened and closed.
func BenchmarkAllocHostGuard(b *testing.B) {
	for _, size := range []uint64{4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			d := guardian(b)
			for b.Loop() {
				p, err := d.AllocHost(size)
				must(b, err)
				must(b, d.FreeHost(p))
			}
		})
	}
}
