package core_test

import (
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

func hugeProp() *abi.PhysicalMemProp {
	return &abi.PhysicalMemProp{MemAttr: abi.MemAttrHBMMemHuge, Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
}

// TestMapCrowd: threads map and unmap parts of one reservation, retain and free the memory behind them, and copy, at once.
func TestMapCrowd(t *testing.T) {
	rt, th := newRuntime(t, "A2")
	const page, threads = 2 << 20, 6
	var c core.Handle
	must(t, th.GetCurrentContext(&c))
	var base core.Addr
	must(t, th.ReserveMemAddress(&base, page*threads, 0, 0, 0))
	var wg sync.WaitGroup
	for i := range core.Addr(threads) {
		wg.Go(func() {
			th, at := rt.ThreadIn(c), base+i*page
			for range 100 {
				var h, again core.Handle
				must(t, th.MallocPhysical(&h, page, hugeProp(), 0))
				must(t, th.MapMem(at, page, 0, h, 0))
				must(t, th.MemRetainAllocationHandle(at+1, &again))
				must(t, th.FreePhysical(h))
				must(t, th.Memset(at, page, int32(i), page))
				th.Memset(base, page*threads, 0, 1) //nolint:errcheck // whoever is first there may have nothing mapped
				must(t, th.UnmapMem(at))
				must(t, th.FreePhysical(again))
			}
		})
	}
	wg.Wait()
	must(t, th.ReleaseMemAddress(base))
	var free, total uint64
	if must(t, th.GetMemInfo(abi.MemAttrHBMMem, &free, &total)); free != total {
		t.Errorf("%d bytes are still taken", total-free)
	}
}

// BenchmarkMap is map and unmap of 2 MiB through the core. BenchmarkMap of the driver below has the system calls to compare with.
func BenchmarkMap(b *testing.B) {
	_, th := newRuntime(b, "A2")
	var at core.Addr
	var h core.Handle
	must(b, th.ReserveMemAddress(&at, 64<<20, 0, 0, 0))
	must(b, th.MallocPhysical(&h, 2<<20, hugeProp(), 0))
	b.ReportAllocs()
	for b.Loop() {
		if th.MapMem(at, 2<<20, 0, h, 0) != nil || th.UnmapMem(at) != nil {
			b.Fatal("refused")
		}
	}
}
