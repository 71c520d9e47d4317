package drivertest

import (
	"errors"
	"runtime"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// located fails the test unless addr has that place and room.
func (e *env) located(what string, addr uintptr, want driver.Location) {
	e.Helper()
	got := e.d.Locate(addr)
	if got.Place != want.Place || got.Room != want.Room || want.Place == driver.OnDevice && got.Device != want.Device {
		e.Fatalf("%s: Locate(%#x) is %+v, want %+v", what, addr, got, want)
	}
	if d := e.d.Describe(addr); d.Place != got.Place || d.Room != got.Room {
		e.Fatalf("%s: Describe(%#x) is %+v, Locate says %+v", what, addr, d, got)
	}
}

// unknown fails the test unless addr is outside live memory of the driver, or the start of another allocation.
func (e *env) unknown(what string, addr uintptr) {
	e.Helper()
	l, d := e.d.Locate(addr), e.d.Describe(addr)
	switch l.Place {
	case driver.Pageable, driver.Nowhere:
		if l.Room != 0 || d.ID != 0 {
			e.Fatalf("%s: Locate(%#x) is %+v, Describe %+v: room or an id where nothing lives", what, addr, l, d)
		}
	default:
		if d.Start != addr {
			e.Fatalf("%s: %#x is still inside %+v", what, addr, d)
		}
	}
}

// inside checks Locate and Describe for m, an allocation at a place.
func (e *env) inside(what string, m memory, place driver.Place) {
	e.Helper()
	n := uint64(m.n)
	for _, off := range []uint64{0, 1, n / 2, n - 1} {
		if off < n {
			e.located(what, m.addr+uintptr(off), driver.Location{Place: place, Room: n - off})
		}
	}
	d := e.d.Describe(m.addr + uintptr(n/2))
	if d.Start != m.addr || d.Size != n || d.ID == 0 || d.PageSize == 0 {
		e.Fatalf("%s: described as %+v, want start %#x and size %d", what, d, m.addr, n)
	}
	e.unknown(what+", one past the end", m.end())
}

func testDeviceMemory(e *env) {
	ids := map[uint64]bool{}
	var all []memory
	for _, n := range []int{1, 511, 512, 1000, 4096, 32 << 10, 32<<10 + 1, 64 << 10, 1<<20 + 7, 2 << 20, 5 << 20} {
		for range 3 {
			m := e.device(n)
			if m.addr%64 != 0 {
				e.Fatalf("%d bytes at %#x, not a multiple of 64", n, m.addr)
			}
			all = append(all, m)
		}
	}
	for i, m := range all {
		e.inside("device memory", m, driver.OnDevice)
		id := e.d.Describe(m.addr).ID
		if ids[id] {
			e.Fatalf("id %d twice", id)
		}
		ids[id] = true
		for _, o := range all[:i] {
			if m.addr < o.end() && o.addr < m.end() {
				e.Fatalf("%#x+%d and %#x+%d overlap", m.addr, m.n, o.addr, o.n)
			}
		}
	}
	free, total := e.dev.Memory()
	if free > total || total == 0 {
		e.Fatalf("%d of %d bytes free", free, total)
	}
	m := all[len(all)-1]
	e.refused("free of an inner address", e.dev.Free(m.addr+4096), driver.ErrNotAllocated)
	e.refused("free of one past the end", e.dev.Free(m.end()), driver.ErrNotAllocated)
	for _, m := range all {
		testenv.OK(e, e.dev.Free(m.addr))
		e.unknown("freed", m.addr)
		e.unknown("freed", m.addr+uintptr(m.n/2))
		e.refused("second free", e.dev.Free(m.addr), driver.ErrNotAllocated)
	}
	if now, _ := e.dev.Memory(); now <= free {
		e.Fatalf("%d bytes free after everything was freed, %d before", now, free)
	}
	if peak := e.dev.Peak(); peak < total-free {
		e.Fatalf("the peak is %d bytes, but %d were in use", peak, total-free)
	}
	if _, err := e.dev.Alloc(total+1<<30, driver.PageHugeFirst); !errors.Is(err, driver.ErrNoMemory) {
		e.Fatalf("more than all memory: %v", err)
	}
	for _, page := range []driver.Page{driver.PageHugeFirst, driver.PageHugeOnly, driver.PageNormal, driver.Page1G} {
		addr, err := e.dev.Alloc(3<<20, page)
		if errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrNoMemory) {
			continue
		}
		if err != nil {
			e.Fatalf("page kind %d: %v", page, err)
		}
		e.inside("page kind", memory{addr: addr, n: 3 << 20}, driver.OnDevice)
	}
}

func testPinnedMemory(e *env) {
	for _, n := range []int{1, 4096, 100_000, 3 << 20} {
		m := e.pinned(n)
		e.inside("pinned memory", m, driver.Host)
		for i := range m.host { // the host may write all of it
			m.host[i] = byte(i)
		}
		e.refused("free of an inner address", e.d.FreeHost(m.addr+1), driver.ErrNotAllocated)
		e.refused("free as device memory", e.dev.Free(m.addr), driver.ErrNotAllocated)
		testenv.OK(e, e.d.FreeHost(m.addr))
		e.unknown("freed", m.addr)
		e.refused("second free", e.d.FreeHost(m.addr), driver.ErrNotAllocated)
	}
	m := e.device(4096)
	e.refused("free of device memory as pinned", e.d.FreeHost(m.addr), driver.ErrNotAllocated)
}

func testRegisteredMemory(e *env) {
	const n = 3*4096 + 100
	host, alias := e.registered(n)
	e.inside("registered memory", host, driver.Host)
	if alias.addr == 0 {
		e.Fatal("mapped registration has no device address")
	}
	e.inside("device address of registered memory", alias, driver.OnDevice)
	for _, off := range []uintptr{0, 1, n - 1} {
		if a, err := e.d.Mapped(host.addr + off); err != nil || a != alias.addr+off {
			e.Fatalf("Mapped(%d bytes in) is %#x, %v, want %#x", off, a, err, alias.addr+off)
		}
	}
	_, err := e.d.Mapped(host.addr + n)
	e.refused("Mapped past the end", err, driver.ErrNotRegister)

	// Both addresses are the same bytes, in both directions.
	copy(host.host, noise(1, n))
	e.holds("read through the device address", alias.addr, noise(1, n))
	e.write(alias.addr+5, noise(2, 1000))
	if string(host.host[5:1005]) != string(noise(2, 1000)) {
		e.Fatal("written through the device address, not seen by the host")
	}

	for _, r := range []struct{ off, n uintptr }{{0, n}, {0, 1}, {n - 1, 1}, {100, 200}, {n - 1, 4096}} {
		_, err := e.d.Register(host.addr+r.off, uint64(r.n), false, 0)
		e.refused("overlapping registration", err, driver.ErrOverlap)
	}
	big := e.mapped(1 << 20)
	mid := big.addr + 500_000
	if a, err := e.d.Register(mid, 1000, false, 0); err != nil || a != 0 {
		e.Fatalf("registration that is not mapped: %#x, %v", a, err)
	}
	_, err = e.d.Register(big.addr, 1<<20, false, 0)
	e.refused("registration around another", err, driver.ErrOverlap)
	_, err = e.d.Register(big.addr, 500_001, false, 0)
	e.refused("registration into another", err, driver.ErrOverlap)
	if _, err := e.d.Register(big.addr, 500_000, false, 0); err != nil {
		e.Fatalf("registration up to another: %v", err)
	}
	if _, err := e.d.Register(mid+1000, 1000, false, 0); err != nil {
		e.Fatalf("registration right after another: %v", err)
	}
	_, err = e.d.Mapped(mid)
	e.refused("Mapped where nothing is", err, driver.ErrNotRegister)
	e.inside("registered, not mapped", memory{addr: mid, n: 1000}, driver.Host)

	e.refused("unregister inside", e.d.Unregister(mid+1), driver.ErrNotRegister)
	for _, addr := range []uintptr{mid, big.addr, mid + 1000, host.addr} {
		testenv.OK(e, e.d.Unregister(addr))
		e.located("unregistered", addr, driver.Location{Place: driver.Pageable})
		e.refused("second unregister", e.d.Unregister(addr), driver.ErrNotRegister)
	}
	e.unknown("device address of what was unregistered", alias.addr)
	if _, err := e.d.Register(big.addr, 1<<20, true, 0); err != nil {
		e.Fatalf("register again: %v", err)
	}
	testenv.OK(e, e.d.Unregister(big.addr))
}

func testPageableMemory(e *env) {
	b := make([]byte, 1<<20)
	e.located("Go memory", addressOf(b), driver.Location{Place: driver.Pageable})
	e.located("mapped memory", e.mapped(4096).addr, driver.Location{Place: driver.Pageable})
	e.located("nil", 0, driver.Location{Place: driver.Pageable})
	e.located("top of memory", ^uintptr(0), driver.Location{Place: driver.Pageable})
	runtime.KeepAlive(b)
}

func testDevicesApart(e *env) {
	if e.d.Devices() < 2 {
		e.Skip("only one device")
	}
	other, err := e.d.Open(1)
	testenv.OK(e, err)
	defer other.Close()
	a := e.device(1 << 20)
	addr, err := other.Alloc(1<<20, driver.PageHugeFirst)
	testenv.OK(e, err)
	b := memory{addr: addr, n: 1 << 20}
	e.located("device 0", a.addr, driver.Location{Place: driver.OnDevice, Device: 0, Room: 1 << 20})
	e.located("device 1", b.addr, driver.Location{Place: driver.OnDevice, Device: 1, Room: 1 << 20})
	e.refused("free on the wrong device", e.dev.Free(b.addr), driver.ErrNotAllocated)
	e.refused("free on the wrong device", other.Free(a.addr), driver.ErrNotAllocated)

	want := noise(3, 1<<20)
	e.write(a.addr, want)
	q := e.queue()
	q.Copy(b.addr, a.addr, 1<<20, tag(1))
	q.finish()
	e.holds("copied to another device", b.addr, want)
}

func testDeviceClose(e *env) {
	m := e.device(1 << 20)
	p := e.pinned(4096)
	q := e.queue()
	q.Copy(m.addr, p.addr, 4096, tag(1))
	q.finish()
	for range 2 {
		testenv.OK(e, e.dev.Close())
	}
	e.unknown("memory of a closed device", m.addr)
	e.refused("Free by a closed device", e.dev.Free(m.addr), driver.ErrNotAllocated)
	old := e.dev
	e.inside("pinned memory outlives a device", p, driver.Host)
	dev, err := e.d.Open(0)
	if err != nil {
		e.Fatalf("open again: %v", err)
	}
	e.dev = dev
	defer dev.Close()
	if free, total := dev.Memory(); free == 0 || total == 0 {
		e.Fatalf("%d of %d bytes free", free, total)
	}
	e.unknown("memory of a device that was closed", m.addr)
	again := e.device(1 << 20)
	e.refused("Free by a device that was closed", old.Free(again.addr), driver.ErrNotAllocated)
	e.write(again.addr, noise(4, 1<<20))
	e.holds("memory of a device opened again", again.addr, noise(4, 1<<20))
}

func testLocateAllocs(e *env) {
	host, alias := e.registered(4096)
	addrs := []uintptr{e.device(4096).addr + 5, e.pinned(4096).addr, host.addr, alias.addr + 7, 12345, ^uintptr(0)}
	if n := testing.AllocsPerRun(100, func() {
		for _, a := range addrs {
			e.d.Locate(a)
		}
	}); n != 0 {
		e.Fatalf("Locate allocates %v times", n)
	}
}

// testEpoch: the epoch changes whenever memory is removed, so that no cached location outlives its memory.
func testEpoch(e *env) {
	dev, pin := e.device(4096), e.pinned(4096)
	host, _ := e.registered(4096)
	for _, gone := range []struct {
		what string
		make func() error
	}{
		{"Free", func() error { return e.dev.Free(dev.addr) }},
		{"FreeHost", func() error { return e.d.FreeHost(pin.addr) }},
		{"Unregister", func() error { return e.d.Unregister(host.addr) }},
		{"closing the device", func() error { e.device(4096); return e.dev.Close() }},
	} {
		before := e.d.Epoch().Load()
		if err := gone.make(); err != nil {
			e.Fatalf("%s: %v", gone.what, err)
		}
		if e.d.Epoch().Load() == before {
			e.Errorf("%s left the epoch as it was", gone.what)
		}
	}
}
