package soft

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/testenv"
)

// TestVirtualHammer uses mapped memory from many goroutines: memory that stays mapped keeps working while other memory
// is mapped after it, shared or released.
func TestVirtualHammer(t *testing.T) {
	many(t)
	drivertest.Watch(t, 10*time.Minute)
	d := open(t, Options{Devices: 2, Memory: 512 << 20})
	defer d.Close()
	var dev [2]driver.Device
	for i := range dev {
		var err error
		if dev[i], err = d.Open(i); err != nil {
			t.Fatal(err)
		}
		defer dev[i].Close()
	}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Error(err)
		}
	}
	const base, all = 4, 12 // extents that stay mapped, and all of them
	r, err := d.Reserve(all*extent, 0)
	must(err)
	var stays []driver.Memory
	for i := range base {
		m, err := d.Create(0, extent, driver.PageHugeFirst)
		must(err)
		must(d.Map(r+uintptr(i*extent), m))
		stays = append(stays, m)
	}
	rounds := 150
	if testing.Short() {
		rounds = 40
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	repeat := func(f func(i int)) {
		wg.Go(func() {
			for i := 0; i < rounds && !stop.Load(); i++ {
				f(i)
			}
		})
	}
	// Copies inside the extents that stay, and across their borders: each goroutine has a lane of its own in every
	// extent.
	for g := range 3 {
		src, err := d.AllocHost(extent)
		must(err)
		back, err := d.AllocHost(extent)
		must(err)
		sink := &log{make(chan error, 1000)}
		q := dev[g%2].NewQueue(driver.QueueOptions{Events: driver.Events{Failed: sink.TaskFailed}})
		repeat(func(i int) {
			n := []uint64{64, 5000, 100_000, 600_000}[i%4]
			at := r + uintptr((i%(base-1)+1)*extent) - uintptr(n/2)
			if g > 0 { // inside an extent
				at = r + uintptr(i%base*extent+g*700_000-int(n/2))
			}
			if g == 0 && n == 600_000 || g > 0 && n > 100_000 {
				n = 64 // more would reach another lane
			}
			for k := range bytesAt(src, n) {
				bytesAt(src, n)[k] = byte(i + k + g)
			}
			q.Copy(at, src, n, driver.Tag{})
			q.Copy(back, at, n, driver.Tag{})
			q.Wait(0, nil)
			if len(sink.failed) > 0 {
				t.Error(<-sink.failed)
			}
			if !bytes.Equal(bytesAt(src, n), bytesAt(back, n)) {
				t.Errorf("lane %d: %d bytes came back different", g, n)
			}
			if l := d.Locate(at); l.Place != driver.OnDevice || l.Room < n {
				t.Errorf("memory that is mapped is %+v", l)
			}
		})
	}
	// A tail that grows and shrinks, and copies to it: they succeed or fault.
	repeat(func(i int) {
		var tail []driver.Memory
		for k := range 1 + i%4 {
			m, err := d.Create(i%2, extent, driver.PageHugeFirst)
			must(err)
			must(d.Map(r+uintptr((base+k)*extent), m))
			tail = append(tail, m)
		}
		for k, m := range tail {
			must(m.Free())
			must(d.Unmap(r + uintptr((base+k)*extent)))
		}
	})
	tailSink := &log{make(chan error, 1000)}
	tail := dev[1].NewQueue(driver.QueueOptions{Events: driver.Events{Failed: tailSink.TaskFailed}})
	pin, err := d.AllocHost(2 * extent)
	must(err)
	repeat(func(i int) {
		tail.Copy(r+(base+1)*extent, pin, []uint64{64, 8000, extent}[i%3], driver.Tag{})
		tail.Wait(0, nil)
		for len(tailSink.failed) > 0 {
			if err := <-tailSink.failed; !errors.Is(err, driver.ErrFault) {
				t.Error(err)
			}
		}
	})
	// Sharing moves the memory that the copies use.
	repeat(func(i int) {
		s, err := d.Share(stays[i%base])
		if err != nil {
			t.Error(err)
			return
		}
		m, err := d.Import(s)
		must(err)
		must(s.File.Close())
		must(m.Free())
		p, err := dev[0].Alloc(100_000, driver.PageNormal)
		must(err)
		if s, err = d.ShareAt(p); err == nil {
			must(s.File.Close())
		}
		must(err)
		must(dev[0].Free(p))
	})
	// Addresses are reserved and released.
	repeat(func(i int) {
		at, err := d.Reserve(2*extent, 0)
		must(err)
		m, err := d.Create(driver.OnHost, extent, driver.PageNormal)
		must(err)
		must(d.Map(at, m))
		bytesAt(at, 1)[0] = 1
		must(d.Unmap(at))
		must(m.Free())
		must(d.Release(at))
		a, err := d.AllocManaged(extent, 0)
		must(err)
		must(d.Run(driver.Op{Kind: driver.OpFill, Dst: a, N: extent, Width: 1, Value: 3}))
		if bytesAt(a, extent)[i*7919%extent] != 3 {
			t.Error("managed memory holds something else")
		}
		must(d.FreeManaged(a))
	})
	wg.Wait()
	for i, m := range stays {
		must(d.Unmap(r + uintptr(i*extent)))
		must(m.Free())
	}
	must(d.Release(r))
	if n := len(d.virtual.memories) + len(d.virtual.managed); n != 0 {
		t.Errorf("%d memories are left", n)
	}
}

// TestVirtualLeaves proves that memory that is created, mapped and freed leaks neither files nor addresses nor
// mappings.
func TestVirtualLeaves(t *testing.T) {
	before := leftovers(t)
	d := open(t, Options{Devices: 1, Memory: 256 << 20})
	dev, err := d.Open(0)
	testenv.OK(t, err)
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	round := func(finish bool) {
		r, err := d.Reserve(16*extent, 0)
		must(err)
		var all []driver.Memory
		for i, device := range []int{0, driver.OnHost, 0} {
			m, err := d.Create(device, 2*extent, driver.PageHugeFirst)
			must(err)
			must(d.Map(r+uintptr(2*i*extent), m))
			if i < 2 {
				s, err := d.Share(m)
				must(err)
				in, err := d.Import(s)
				must(err)
				must(s.File.Close())
				must(d.Map(r+uintptr((6+2*i)*extent), in))
				all = append(all, in)
			}
			all = append(all, m)
		}
		p, err := dev.Alloc(100, driver.PageNormal)
		must(err)
		s, err := d.ShareAt(p)
		must(err)
		must(s.File.Close())
		g, err := d.AllocManaged(extent, 0)
		must(err)
		if !finish {
			return
		}
		must(d.FreeManaged(g))
		must(dev.Free(p))
		for _, m := range all {
			must(m.Free())
		}
		for _, i := range []int{0, 2, 4, 6, 8} {
			must(d.Unmap(r + uintptr(i*extent)))
		}
		must(d.Release(r))
	}
	for range 3 {
		round(true)
	}
	some, bytes := leftovers(t), virtualBytes(t)
	for range 50 {
		round(true)
	}
	if now := leftovers(t); now != some {
		t.Errorf("%+v are left behind, %+v before", now, some)
	}
	// threads of the runtime take some; a leak takes at least 64 MiB a round
	if grown := virtualBytes(t) - bytes; grown > 200<<20 {
		t.Errorf("%d bytes of address space are left behind", grown)
	}
	round(false) // closing the driver frees the rest
	must(dev.Close())
	must(d.Close())
	if now := leftovers(t); now != before {
		t.Errorf("after Close %+v are left behind, %+v before", now, before)
	}
}

// TestManagedPlace proves at which addresses managed memory lies, and that it lies elsewhere if they are in use.
func TestManagedPlace(t *testing.T) {
	d := open(t, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	if err := arena.ReserveAt(managedAt, extent); err != nil {
		t.Skipf("the addresses are taken here: %v", err)
	}
	testenv.OK(t, arena.Unreserve(managedAt, extent))
	alloc := func(n uint64) uintptr {
		t.Helper()
		a, err := d.AllocManaged(n, 0)
		testenv.OK(t, err)
		return a
	}
	a, b, c := alloc(extent), alloc(3*extent), alloc(extent)
	if a != managedAt || b != a+extent || c != b+3*extent {
		t.Errorf("at %#x, %#x and %#x", a, b, c)
	}
	testenv.OK(t, d.FreeManaged(b))
	if x, y := alloc(2*extent), alloc(extent); x != b || y != b+2*extent {
		t.Errorf("freed addresses are not used again: %#x and %#x", x, y)
	}
	// The program has mapped something at the next address.
	next := c + extent
	_, _, e := unix.Syscall6(unix.SYS_MMAP, next, extent, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
	if e != 0 {
		t.Skip(e)
	}
	defer arena.Unreserve(next, extent) //nolint:errcheck // the test is over
	if x := alloc(extent); x == next || x < managedAt {
		t.Errorf("at %#x, where something else is", x)
	}
	if _, err := d.AllocManaged(4<<40, 0); !errors.Is(err, driver.ErrNoMemory) {
		t.Errorf("more than there can be: %v", err)
	}
	if _, err := d.AllocManaged(5, 0); err == nil {
		t.Error("5 bytes")
	}
}

// TestVirtualRefuses proves that calls which the core never makes do no harm.
func TestVirtualRefuses(t *testing.T) {
	d, other := open(t, Options{Devices: 1, Memory: 256 << 20}), open(t, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	defer other.Close()
	for _, bad := range []struct {
		n  uint64
		at uintptr
	}{{0, 0}, {4096, 0}, {extent, 4096}, {extent, 1 << 60}, {1 << 62, 0}} {
		if _, err := d.Reserve(bad.n, bad.at); err == nil {
			t.Errorf("%d bytes at %#x were reserved", bad.n, bad.at)
		}
	}
	if _, err := d.Create(0, extent, driver.PageNormal); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("memory of a device that is not open: %v", err)
	}
	for _, device := range []int{-2, 1} {
		if _, err := d.Create(device, extent, driver.PageNormal); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("memory of device %d: %v", device, err)
		}
	}
	if _, err := d.Create(driver.OnHost, extent+4096, driver.PageNormal); err == nil {
		t.Error("a size that is no multiple")
	}
	if _, err := d.Create(driver.OnHost, extent, driver.Page1G); err == nil {
		t.Error("2 MiB with pages of 1 GiB")
	}
	m, err := other.Create(driver.OnHost, extent, driver.PageNormal)
	testenv.OK(t, err)
	r, err := d.Reserve(extent, 0)
	testenv.OK(t, err)
	if err := d.Map(r, m); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("memory of another driver was mapped: %v", err)
	}
	if _, err := d.Share(m); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("memory of another driver was shared: %v", err)
	}
	pin, err := d.AllocHost(4096)
	testenv.OK(t, err)
	if _, err := d.ShareAt(pin); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("pinned memory was shared: %v", err)
	}
	g, err := d.AllocManaged(extent, 0)
	testenv.OK(t, err)
	if _, err := d.ShareAt(g); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("managed memory was shared: %v", err)
	}
	rc := open(t, Options{Devices: 1, Memory: 256 << 20, Open: true})
	defer rc.Close()
	dev, err := rc.Open(0)
	testenv.OK(t, err)
	defer dev.Close()
	p, err := dev.Alloc(extent, driver.PageNormal)
	testenv.OK(t, err)
	if _, err := rc.ShareAt(p); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("memory that the program may be writing to was shared: %v", err)
	}
	runtime.KeepAlive(m)
}
