package core_test

import (
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

func hugeProp() *abi.PhysicalMemProp {
	return &abi.PhysicalMemProp{MemAttr: abi.MemAttrHBMMemHuge,
		Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
}

// TestMapCrowd: threads map and unmap parts of one reservation, retain and free the memory behind them, and copy, at
// once.
func TestMapCrowd(t *testing.T) {
	rt, th := newRuntime(t, "A2")
	const page, threads = 2 << 20, 6
	var c core.Handle
	must(t, th.GetCurrentContext(&c))
	var base core.Addr
	must(t, memory.ReserveMemAddress(th, &base, page*threads, 0, 0, 0))
	var wg sync.WaitGroup
	for i := range core.Addr(threads) {
		wg.Go(func() {
			th, at := rt.ThreadIn(c), base+i*page
			for range 100 {
				var h, again core.Handle
				must(t, memory.MallocPhysical(th, &h, page, hugeProp(), 0))
				must(t, memory.MapMem(th, at, page, 0, h, 0))
				must(t, memory.MemRetainAllocationHandle(th, at+1, &again))
				must(t, memory.FreePhysical(th, h))
				must(t, transfer.Memset(th, at, page, int32(i), page))
				transfer.Memset(th, base, page*threads, 0,
					1) //nolint:errcheck // nothing may be mapped there yet
				must(t, memory.UnmapMem(th, at))
				must(t, memory.FreePhysical(th, again))
			}
		})
	}
	wg.Wait()
	must(t, memory.ReleaseMemAddress(th, base))
	var free, total uint64
	if must(t, memory.GetMemInfo(th, abi.MemAttrHBMMem, &free, &total)); free != total {
		t.Errorf("%d bytes are still taken", total-free)
	}
}

// BenchmarkMap is map and unmap of 2 MiB through the core. BenchmarkMap of the driver below has the system calls to
// compare with.
func BenchmarkMap(b *testing.B) {
	_, th := newRuntime(b, "A2")
	var at core.Addr
	var h core.Handle
	must(b, memory.ReserveMemAddress(th, &at, 64<<20, 0, 0, 0))
	must(b, memory.MallocPhysical(th, &h, 2<<20, hugeProp(), 0))
	b.ReportAllocs()
	for b.Loop() {
		if memory.MapMem(th, at, 2<<20, 0, h, 0) != nil || memory.UnmapMem(th, at) != nil {
			b.Fatal("refused")
		}
	}
}

// slowRelease is a driver that is slow to release addresses.
type slowRelease struct {
	*soft.Driver
	inside, goOn chan struct{}
	fails        bool
}

func (d *slowRelease) Caps() driver.Caps {
	c := d.Driver.Caps()
	c.Map = d
	return c
}

func (d *slowRelease) Release(addr uintptr) error {
	d.inside <- struct{}{}
	<-d.goOn
	if d.fails {
		return driver.ErrBusy
	}
	return d.Driver.Release(addr)
}

// TestReleaseBesides proves that mapping memory does not wait for addresses that another thread releases, that those
// are gone at once, and that they are back if the driver refuses.
func TestReleaseBesides(t *testing.T) {
	p, err := product.Find("A2", "")
	testenv.OK(t, err)
	sd, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	d := &slowRelease{sd, make(chan struct{}), make(chan struct{}), true}
	rt := core.New(core.Options{Driver: d, Product: p})
	th := rt.NewThread(1)
	must(t, th.SetDevice(0))
	const page = 2 << 20
	var leaving, other core.Addr
	var h core.Handle
	must(t, memory.ReserveMemAddress(th, &leaving, page, 0, 0, 0))
	must(t, memory.MallocPhysical(th, &h, page, hugeProp(), 0))
	for _, d.fails = range []bool{true, false} {
		answer := make(chan *core.Error)
		go func() { answer <- memory.ReleaseMemAddress(rt.NewThread(2), leaving) }()
		<-d.inside
		must(t, memory.ReserveMemAddress(th, &other, page, 0, 0, 0))
		must(t, memory.MapMem(th, other, page, 0, h, 0))
		must(t, memory.UnmapMem(th, other))
		if err := memory.MapMem(th, leaving, page, 0, h, 0); err == nil {
			t.Error("mapped to addresses that are being released")
		}
		if err := memory.ReleaseMemAddress(th, leaving); err == nil {
			t.Error("released twice")
		}
		d.goOn <- struct{}{}
		if err := <-answer; (err != nil) != d.fails {
			t.Errorf("the driver refuses: %t; %v", d.fails, err)
		}
		if err := memory.MapMem(th, leaving, page, 0, h, 0); (err == nil) != d.fails {
			t.Errorf("the driver refuses: %t; mapping there: %v", d.fails, err)
		} else if err == nil {
			must(t, memory.UnmapMem(th, leaving))
		}
	}
	must(t, memory.FreePhysical(th, h))
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}
