package drivertest

import (
	"bytes"
	"errors"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// offered returns a capability of the driver, and skips the test if the driver does not have it.
func offered[T comparable](e *env, capability T) T {
	e.Helper()
	var none T
	if capability == none {
		e.Skipf("%s does not offer this", e.d.Name())
	}
	return capability
}

// grain returns the granularity of device memory.
func grain(m driver.Mapper) int { return int(m.Granularity(0, driver.PageHugeFirst)) }

// reserve reserves n bytes of addresses.
func (e *env) reserve(m driver.Mapper, n int) memory {
	e.Helper()
	addr, err := m.Reserve(uint64(n), 0)
	testenv.OK(e, err)
	return memory{addr: addr, n: n}
}

// create creates memory on a device or the host.
func (e *env) create(m driver.Mapper, device, n int) driver.Memory {
	e.Helper()
	mem, err := m.Create(device, uint64(n), driver.PageHugeFirst)
	if device == driver.OnHost && errors.Is(err, driver.ErrUnsupported) {
		e.Skipf("%s makes no memory on the host: %v", e.d.Name(), err)
	}
	testenv.OK(e, err)
	if mem.Size() != uint64(n) || mem.Device() != device || mem.Page() != driver.PageHugeFirst {
		e.Fatalf("memory of %d bytes on %d with pages %d, want %d on %d", mem.Size(), mem.Device(), mem.Page(), n,
			device)
	}
	return mem
}

// ok fails the test if err is not nil.
func (e *env) ok(what string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

// vacant fails the test unless addr is in a reservation and nothing is mapped there.
func (e *env) vacant(what string, addr uintptr) {
	e.Helper()
	e.located(what, addr, driver.Location{Place: driver.Nowhere})
	if d := e.d.Describe(addr); d.ID != 0 || d.Size != 0 {
		e.Fatalf("%s: a hole is described as %+v", what, d)
	}
}

func testReserve(e *env) {
	m := offered(e, e.d.Caps().Map)
	g := grain(m)
	r := e.reserve(m, 4*g)
	if r.addr%(2<<20) != 0 {
		e.Fatalf("reserved at %#x, which is no multiple of 2 MiB", r.addr)
	}
	for _, off := range []uintptr{0, uintptr(g), uintptr(4*g - 1)} {
		e.vacant("reserved", r.addr+off)
	}
	e.refused("release of an inner address", m.Release(r.addr+uintptr(g)), driver.ErrNotAllocated)
	_, err := m.Reserve(uint64(g), r.addr+uintptr(g))
	e.refused("what is reserved already", err, driver.ErrFault)
	e.ok("release", m.Release(r.addr))
	e.located("released", r.addr, driver.Location{Place: driver.Pageable})
	e.refused("second release", m.Release(r.addr), driver.ErrNotAllocated)

	// An address that was free a moment ago; another thread may have taken it since.
	again, err := m.Reserve(uint64(2*g), r.addr)
	if err != nil {
		e.refused("a place that may have been taken", err, driver.ErrFault)
		return
	}
	if again != r.addr {
		e.Fatalf("reserved at %#x, want %#x", again, r.addr)
	}
	e.vacant("reserved at a place of choice", again)
	e.ok("release", m.Release(again))
	page := e.mapped(2 * g)
	at := (page.addr + uintptr(g) - 1) &^ uintptr(g-1)
	_, err = m.Reserve(uint64(g), at)
	e.refused("where the program has memory", err, driver.ErrFault)
}

func testMapping(e *env) {
	m := offered(e, e.d.Caps().Map)
	g := grain(m)
	r := e.reserve(m, 8*g)
	mem := e.create(m, 0, 2*g)
	at := memory{addr: r.addr + uintptr(2*g), n: 2 * g}
	e.ok("map", m.Map(at.addr, mem))
	e.inside("mapped memory", at, driver.OnDevice)
	e.vacant("before it", at.addr-1)
	e.vacant("behind it", at.end())
	want := noise(1, 2*g)
	e.write(at.addr, want)
	e.holds("mapped memory", at.addr, want)

	// A second address of the same bytes.
	other := memory{addr: r.addr + uintptr(6*g), n: 2 * g}
	e.ok("map again", m.Map(other.addr, mem))
	e.inside("the second address", other, driver.OnDevice)
	e.holds("the second address", other.addr, want)
	e.write(other.addr+5, noise(2, 1000))
	copy(want[5:], noise(2, 1000))
	e.holds("written through the second address", at.addr, want)

	for what, addr := range map[string]uintptr{
		"before the reservation": r.addr - uintptr(g), "over its end": r.end() - uintptr(g),
		"the heap": addressOf(want) &^ uintptr(g-1),
	} {
		e.refused("map "+what, m.Map(addr, mem), driver.ErrFault)
	}
	for _, addr := range []uintptr{at.addr, at.addr + uintptr(g), at.addr - uintptr(g)} {
		e.refused("map over a mapping", m.Map(addr, mem), driver.ErrBusy)
	}
	e.refused("release with mappings", m.Release(r.addr), driver.ErrBusy)
	e.refused("unmap of an inner address", m.Unmap(at.addr+uintptr(g)), driver.ErrNotAllocated)
	e.refused("unmap of a hole", m.Unmap(r.addr), driver.ErrNotAllocated)
	e.refused("free as an allocation", e.dev.Free(at.addr), driver.ErrNotAllocated)

	before := e.d.Epoch().Load()
	e.ok("unmap", m.Unmap(at.addr))
	if e.d.Epoch().Load() == before {
		e.Error("Unmap left the epoch as it was")
	}
	e.vacant("unmapped", at.addr)
	e.refused("second unmap", m.Unmap(at.addr), driver.ErrNotAllocated)
	e.holds("the address that is left", other.addr, want)
	e.ok("map where something was", m.Map(at.addr, mem))
	e.holds("mapped again", at.addr, want)
	e.ok("unmap", m.Unmap(at.addr))
	e.ok("unmap", m.Unmap(other.addr))
	e.ok("free", mem.Free())
	e.refused("second free", mem.Free(), driver.ErrNotAllocated)
	e.refused("map of what was freed", m.Map(at.addr, mem), driver.ErrNotAllocated)
	e.ok("release", m.Release(r.addr))
}

// testGrowth: adjacent mappings are one range, even after mappings are added or removed in the middle.
func testGrowth(e *env) {
	m := offered(e, e.d.Caps().Map)
	g := grain(m)
	const parts = 5
	r := e.reserve(m, (parts+1)*g)
	all := memory{addr: r.addr, n: parts * g}
	want := noise(3, parts*g)
	q := e.queue()
	src := e.pinned(g)
	var held []driver.Memory
	for i := range parts {
		mem := e.create(m, 0, g)
		held = append(held, mem)
		at := r.addr + uintptr(i*g)
		// Copies continue in existing mappings while more are added.
		for k := range 20 {
			if i > 0 {
				q.Copy(r.addr+uintptr(k), src.addr, uint64(g-k), tag(k))
			}
		}
		e.ok("map", m.Map(at, mem))
		e.inside("what has grown", memory{addr: r.addr, n: (i + 1) * g}, driver.OnDevice)
		q.finish()
	}
	e.write(all.addr, want)
	e.holds("over all borders", all.addr, want)

	// Every operation across a border.
	border := r.addr + uintptr(2*g)
	flat := e.device(2 * g)
	for _, n := range []int{2, 64, 4096, 100_000, 2 * g} {
		q.Copy(flat.addr, border-uintptr(n/2), uint64(n), tag(n))
		q.finish()
		e.holds("copied from a border", flat.addr, want[2*g-n/2:2*g-n/2+n])
	}
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: border - 400, N: 200, Width: 4, Value: 0x01020304})
	q.finish()
	copy(want[2*g-400:], bytes.Repeat([]byte{4, 3, 2, 1}, 200))
	e.holds("filled over a border", all.addr, want)
	segs := driver.NewSegments()
	for i := range 100 {
		segs.Add(flat.addr+uintptr(i*700), border-35_000+uintptr(i*700), 700)
	}
	q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
	q.finish()
	e.holds("a batch over a border", flat.addr, want[2*g-35_000:2*g+35_000])
	q.Submit(driver.Op{Kind: driver.OpCopy2D, Dst: flat.addr, Src: border - 50_000, N: 1000, Height: 100,
		DstPitch: 1000, SrcPitch: 1000})
	q.finish()
	e.holds("rows over a border", flat.addr, want[2*g-50_000:2*g+50_000])

	// A hole in the middle makes two ranges.
	middle := r.addr + uintptr(2*g)
	e.ok("unmap", m.Unmap(middle))
	e.vacant("the middle", middle+5)
	left, right := memory{addr: r.addr, n: 2 * g}, memory{addr: r.addr + uintptr(3*g), n: 2 * g}
	e.inside("left of it", left, driver.OnDevice)
	e.inside("right of it", right, driver.OnDevice)
	if a, b := e.d.Describe(left.addr).ID, e.d.Describe(right.addr).ID; a == b {
		e.Fatalf("both have the id %d", a)
	}
	q.Copy(flat.addr, left.end()-10, 20, tag(7))
	q.fails("a copy into the hole", tag(7), driver.ErrFault)
	q.Copy(middle+8, flat.addr, 2<<20-8, tag(8))
	q.fails("a large copy into the hole", tag(8), driver.ErrFault)
	e.refused("Run into the hole", e.d.Run(driver.Op{Kind: driver.OpCopy, Dst: middle, Src: flat.addr, N: 10}),
		driver.ErrFault)
	e.ok("map", m.Map(middle, held[2]))
	e.inside("closed again", all, driver.OnDevice)
	e.holds("closed again", all.addr, want)
	for i, mem := range held {
		e.ok("free", mem.Free())
		e.ok("unmap", m.Unmap(r.addr+uintptr(i*g)))
	}
	e.ok("release", m.Release(r.addr))
}

// testMapDeferredFree: freed memory stays until it is unmapped.
func testMapDeferredFree(e *env) {
	m := offered(e, e.d.Caps().Map)
	g := grain(m)
	before, _ := e.dev.Memory()
	r := e.reserve(m, 4*g)
	mem := e.create(m, 0, g)
	e.ok("map", m.Map(r.addr, mem))
	e.ok("map", m.Map(r.addr+uintptr(2*g), mem))
	e.write(r.addr, noise(4, g))
	e.ok("free", mem.Free())
	e.refused("second free", mem.Free(), driver.ErrNotAllocated)
	fill := func() { // other memory that might get the pages
		for range 8 {
			o := e.create(m, 0, g)
			e.ok("map", m.Map(r.addr+uintptr(g), o))
			e.write(r.addr+uintptr(g), painted(g, canary))
			e.ok("unmap", m.Unmap(r.addr+uintptr(g)))
			e.ok("free", o.Free())
		}
	}
	fill()
	e.holds("freed and mapped twice", r.addr, noise(4, g))
	e.ok("unmap", m.Unmap(r.addr))
	fill()
	e.holds("freed and mapped once", r.addr+uintptr(2*g), noise(4, g))
	if now, _ := e.dev.Memory(); now+uint64(g) > before {
		e.Fatalf("%d bytes free while %d are mapped, %d without", now, g, before)
	}
	e.ok("unmap", m.Unmap(r.addr+uintptr(2*g)))
	if now, _ := e.dev.Memory(); now != before {
		e.Fatalf("%d bytes free, want %d as in the beginning", now, before)
	}
	e.ok("release", m.Release(r.addr))
}

// testMapHost: the program can access mapped memory on the host.
func testMapHost(e *env) {
	m := offered(e, e.d.Caps().Map)
	g := int(m.Granularity(driver.OnHost, driver.PageHugeFirst))
	r := e.reserve(m, 4*g)
	mem := e.create(m, driver.OnHost, g)
	e.ok("map", m.Map(r.addr, mem))
	at := memory{addr: r.addr, n: g}
	e.inside("host memory", at, driver.Host)
	host := hostBytes(r.addr, g)
	copy(host, noise(5, g))
	q, dev := e.queue(), e.device(g)
	q.Copy(dev.addr, r.addr, uint64(g), tag(1))
	q.finish()
	e.holds("written by the program", dev.addr, noise(5, g))
	e.write(dev.addr, noise(6, g))
	q.Copy(r.addr, dev.addr, uint64(g), tag(2))
	q.finish()
	if !bytes.Equal(host, noise(6, g)) {
		e.Fatal("the program does not see what the device wrote")
	}
	onDevice := e.create(m, 0, grain(m))
	e.ok("map", m.Map(r.addr+uintptr(g), onDevice))
	e.located("device memory behind it", r.addr+uintptr(g-1), driver.Location{Place: driver.Host, Room: 1})
	e.ok("unmap", m.Unmap(r.addr))
	e.vacant("unmapped", r.addr)
	e.ok("map", m.Map(r.addr, mem))
	if !bytes.Equal(hostBytes(r.addr, g), noise(6, g)) {
		e.Fatal("mapped again, it holds something else")
	}
	e.ok("free", mem.Free())
	e.ok("free", onDevice.Free())
	e.ok("unmap", m.Unmap(r.addr))
	e.ok("unmap", m.Unmap(r.addr+uintptr(g)))
	e.ok("release", m.Release(r.addr))
}

// testMapDeviceClose: mapped memory of a closed device is gone, and can still be unmapped.
func testMapDeviceClose(e *env) {
	m := offered(e, e.d.Caps().Map)
	g := grain(m)
	r := e.reserve(m, 8*g)
	var mem [4]driver.Memory
	for i := range mem {
		mem[i] = e.create(m, 0, g)
	}
	host := e.create(m, driver.OnHost, int(m.Granularity(driver.OnHost, driver.PageHugeFirst)))
	e.ok("map", m.Map(r.addr, mem[0]))
	e.ok("map", m.Map(r.addr+uintptr(g), mem[1]))
	e.ok("map", m.Map(r.addr+uintptr(2*g), mem[2]))
	e.ok("map", m.Map(r.addr+uintptr(4*g), host))
	e.ok("free", mem[1].Free())
	before := e.d.Epoch().Load()
	e.ok("close", e.dev.Close())
	if e.d.Epoch().Load() == before {
		e.Error("closing the device left the epoch as it was")
	}
	for i := range 3 {
		e.vacant("memory of a closed device", r.addr+uintptr(i*g))
	}
	e.inside("memory on the host", memory{addr: r.addr + uintptr(4*g), n: int(host.Size())}, driver.Host)
	if _, err := m.Create(0, uint64(g), driver.PageHugeFirst); err == nil {
		e.Fatal("memory was created on a closed device")
	}
	dev, err := e.d.Open(0)
	e.ok("open again", err)
	e.dev = dev
	e.Cleanup(func() { dev.Close() })
	if m.Map(r.addr+uintptr(6*g), mem[0]) == nil {
		e.Fatal("memory of a closed device was mapped")
	}
	e.ok("unmap", m.Unmap(r.addr))
	e.ok("unmap", m.Unmap(r.addr+uintptr(g)))
	e.refused("second unmap", m.Unmap(r.addr), driver.ErrNotAllocated)
	e.ok("free", mem[0].Free())
	e.ok("free of what was not mapped", mem[3].Free())
	e.refused("second free", mem[1].Free(), driver.ErrNotAllocated)
	fresh := e.create(m, 0, g)
	e.ok("map over what is gone", m.Map(r.addr+uintptr(2*g), fresh))
	e.write(r.addr+uintptr(2*g), noise(7, g))
	e.holds("new memory", r.addr+uintptr(2*g), noise(7, g))
	e.ok("unmap", m.Unmap(r.addr+uintptr(2*g)))
	e.ok("unmap", m.Unmap(r.addr+uintptr(4*g)))
	e.ok("free", fresh.Free())
	e.ok("free", host.Free())
	e.ok("release", m.Release(r.addr))
}

// testMapPages: pages of every kind, sizes that get their pages on use, and no memory.
func testMapPages(e *env) {
	m := offered(e, e.d.Caps().Map)
	for _, page := range []driver.Page{driver.PageHugeFirst, driver.PageHugeOnly, driver.PageNormal} {
		g := m.Granularity(0, page)
		mem, err := m.Create(0, 3*g, page)
		e.ok("create", err)
		if mem.Page() != page {
			e.Fatalf("pages of kind %d, want %d", mem.Page(), page)
		}
		e.ok("free", mem.Free())
	}
	g := grain(m)
	const large = 96 << 20
	r := e.reserve(m, large)
	mem := e.create(m, 0, large)
	e.ok("map", m.Map(r.addr, mem))
	q := e.queue()
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: r.addr, N: large / 4, Width: 4, Value: 7})
	q.Copy(r.addr+uintptr(g)-100, r.addr+uintptr(5*g)+3, 50<<20, tag(1))
	q.finish()
	e.holds("large memory", r.addr+large-1<<20, bytes.Repeat([]byte{7, 0, 0, 0}, 1<<18))
	_, total := e.dev.Memory()
	if _, err := m.Create(0, (total/uint64(g)+8)*uint64(g), driver.PageHugeFirst); err == nil {
		e.Fatal("more than all memory was created")
	}
	e.ok("free", mem.Free())
	e.ok("unmap", m.Unmap(r.addr))
	e.ok("release", m.Release(r.addr))
	addr := r.addr
	if n := testing.AllocsPerRun(100, func() { e.d.Locate(addr) }); n != 0 {
		e.Fatalf("Locate allocates %v times", n)
	}
}
