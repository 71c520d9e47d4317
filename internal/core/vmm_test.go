package core_test

import (
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
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

// slowRelease is a driver that takes its time to give addresses back.
type slowRelease struct {
	*soft.Driver
	inside, goOn chan struct{}
	fails        bool
}

func (d *slowRelease) Release(addr uintptr) error {
	d.inside <- struct{}{}
	<-d.goOn
	if d.fails {
		return driver.ErrBusy
	}
	return d.Driver.Release(addr)
}

// TestReleaseBesides proves that nobody who maps memory waits for addresses that another thread gives back, that those are gone at once,
// and that they are back where the driver refuses.
func TestReleaseBesides(t *testing.T) {
	p, err := product.Find("A2", "")
	if err != nil {
		t.Fatal(err)
	}
	sd, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	d := &slowRelease{sd, make(chan struct{}), make(chan struct{}), true}
	rt := core.New(core.Options{Driver: d, Product: p})
	th := rt.NewThread(1)
	must(t, th.SetDevice(0))
	const page = 2 << 20
	var leaving, other core.Addr
	var h core.Handle
	must(t, th.ReserveMemAddress(&leaving, page, 0, 0, 0))
	must(t, th.MallocPhysical(&h, page, hugeProp(), 0))
	for _, d.fails = range []bool{true, false} {
		answer := make(chan *core.Error)
		go func() { answer <- rt.NewThread(2).ReleaseMemAddress(leaving) }()
		<-d.inside
		must(t, th.ReserveMemAddress(&other, page, 0, 0, 0))
		must(t, th.MapMem(other, page, 0, h, 0))
		must(t, th.UnmapMem(other))
		if err := th.MapMem(leaving, page, 0, h, 0); err == nil {
			t.Error("mapped to addresses that are being given back")
		}
		if err := th.ReleaseMemAddress(leaving); err == nil {
			t.Error("given back twice")
		}
		d.goOn <- struct{}{}
		if err := <-answer; (err != nil) != d.fails {
			t.Errorf("the driver refuses: %t; %v", d.fails, err)
		}
		if err := th.MapMem(leaving, page, 0, h, 0); (err == nil) != d.fails {
			t.Errorf("the driver refuses: %t; mapping there: %v", d.fails, err)
		} else if err == nil {
			must(t, th.UnmapMem(leaving))
		}
	}
	must(t, th.FreePhysical(h))
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}
