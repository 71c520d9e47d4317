//go:build linux

package arena

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkAllocFree(b *testing.B) {
	for _, size := range []uint64{512, 4096, 32 << 10, 64 << 10, 1 << 20, 2 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("size=%d/pages=cached", size), func(b *testing.B) {
			a := open(b, Options{Capacity: 4 << 30})
			alloc(b, a, 512) // so that the slab stays
			for b.Loop() {
				cycle(b, a, size)
			}
		})
	}
	for _, size := range []uint64{64 << 10, 2 << 20, 64 << 20} {
		for _, huge := range []bool{false, true} {
			b.Run(fmt.Sprintf("size=%d/pages=new/huge=%v", size, huge), func(b *testing.B) {
				a := open(b, Options{Capacity: 4 << 30, CacheLimit: 1})
				if !huge {
					a.skipHuge.Store(1 << 30)
				}
				for b.Loop() {
					cycle(b, a, size)
				}
			})
		}
	}
}

// cycle allocates and frees, without the helpers' own cost.
func cycle(b *testing.B, a *Arena, size uint64) {
	p, err := a.Alloc(size, AllocOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if err := a.Free(p); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAllocFreeAmong makes allocations beside 100,000 live ones in random order of life.
func BenchmarkAllocFreeAmong(b *testing.B) {
	for _, live := range []int{1, 1000, 100000} {
		b.Run(fmt.Sprintf("size=4096/live=%d", live), func(b *testing.B) {
			a := open(b, Options{Capacity: 4 << 30})
			ps := make([]uintptr, live)
			for i := range ps {
				ps[i] = alloc(b, a, 4096)
			}
			rnd := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				i := rnd.IntN(live)
				a.Free(ps[i])
				ps[i], _ = a.Alloc(4096, AllocOptions{})
			}
		})
	}
}

var sink uint64

// lookups calls f with an arena and random addresses inside its live allocations,
// for several sizes and numbers of them.
func lookups(b *testing.B, f func(b *testing.B, a *Arena, probes *[1 << 14]uintptr)) {
	for _, size := range []uint64{512, 8 << 10, 40 << 10, 2 << 20} {
		for _, live := range []int{1, 1000, 100000} {
			if size == 2<<20 && live > 30000 {
				live = 30000
			}
			b.Run(fmt.Sprintf("size=%d/live=%d", size, live), func(b *testing.B) {
				a := open(b, Options{Capacity: 64 << 30, populateMax: 1 << 10})
				ps := make([]uintptr, live)
				for i := range ps {
					ps[i] = alloc(b, a, size)
				}
				rnd := rand.New(rand.NewPCG(1, 1))
				probes := new([1 << 14]uintptr)
				for i := range probes {
					probes[i] = ps[rnd.IntN(live)] + uintptr(rnd.Uint64N(size))
				}
				f(b, a, probes)
			})
		}
	}
}

func BenchmarkRoom(b *testing.B) {
	lookups(b, func(b *testing.B, a *Arena, probes *[1 << 14]uintptr) {
		i := 0
		for b.Loop() {
			sink += a.Room(probes[i%len(probes)])
			i++
		}
	})
}

// BenchmarkEmpty is what the loop of BenchmarkRoom costs without Room.
func BenchmarkEmpty(b *testing.B) {
	probes := new([1 << 14]uintptr)
	i := 0
	for b.Loop() {
		sink += uint64(probes[i%len(probes)])
		i++
	}
}

func BenchmarkFind(b *testing.B) {
	lookups(b, func(b *testing.B, a *Arena, probes *[1 << 14]uintptr) {
		i := 0
		for b.Loop() {
			r, _ := a.Find(probes[i%len(probes)])
			sink += r.ID
			i++
		}
	})
}
