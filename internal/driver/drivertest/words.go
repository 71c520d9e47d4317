package drivertest

import (
	"encoding/binary"
	"sync"

	"ropeway/internal/driver"
)

// testManaged: one address for the host and the device.
func testManaged(e *env) {
	m := offered(e, e.d.Caps().Managed)
	const n = 4 << 20
	addr, err := m.AllocManaged(n, 0)
	e.ok("alloc", err)
	at := memory{addr: addr, n: n, host: hostBytes(addr, n)}
	e.inside("managed memory", at, driver.Managed)
	if l := e.d.Locate(addr + 5); l.Device != 0 {
		e.Fatalf("on device %d", l.Device)
	}
	copy(at.host, noise(1, n))
	q, dev := e.queue(), e.device(n)
	q.Copy(dev.addr, addr, n, tag(1))
	q.finish()
	e.holds("written by the host", dev.addr, noise(1, n))
	e.write(dev.addr, noise(2, n))
	q.Copy(addr, dev.addr, n, tag(2))
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: addr + 100, N: 50, Width: 1, Value: canary})
	q.finish()
	want := noise(2, n)
	copy(want[100:], painted(50, canary))
	if string(at.host) != string(want) {
		e.Fatal("the host does not see what the device wrote")
	}
	second, err := m.AllocManaged(96<<20, e.d.Devices()-1)
	e.ok("alloc", err)
	e.inside("large managed memory", memory{addr: second, n: 96 << 20}, driver.Managed)
	if l := e.d.Locate(second); int(l.Device) != e.d.Devices()-1 {
		e.Fatalf("on device %d, want %d", l.Device, e.d.Devices()-1)
	}
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: second, N: 96 << 20, Width: 1, Value: 9})
	q.finish()
	if b := hostBytes(second, 96<<20); b[0] != 9 || b[96<<20-1] != 9 {
		e.Fatal("the host does not see what the device wrote")
	}
	e.refused("free of an inner address", m.FreeManaged(addr+2<<20), driver.ErrNotAllocated)
	before := e.d.Epoch().Load()
	e.ok("free", m.FreeManaged(addr))
	if e.d.Epoch().Load() == before {
		e.Error("FreeManaged left the epoch as it was")
	}
	e.unknown("freed", addr)
	e.refused("second free", m.FreeManaged(addr), driver.ErrNotAllocated)
	e.ok("free", m.FreeManaged(second))
}

// testWords: single words of device memory.
func testWords(e *env) {
	w := offered(e, e.d.Caps().Words)
	dev := e.device(4096)
	cells := []uintptr{dev.addr, dev.addr + 8, dev.addr + 4088}
	if m := e.d.Caps().Map; m != nil {
		r, mem := e.reserve(m, grain(m)), e.create(m, 0, grain(m))
		e.ok("map", m.Map(r.addr, mem))
		cells = append(cells, r.addr+16)
		_, err := w.Load(r.addr + uintptr(r.n))
		e.refused("load past a reservation", err, driver.ErrFault)
		defer func() {
			e.ok("unmap", m.Unmap(r.addr))
			_, err := w.Load(r.addr + 16)
			e.refused("load of what was unmapped", err, driver.ErrFault)
			e.ok("free", mem.Free())
			e.ok("release", m.Release(r.addr))
		}()
	}
	for i, c := range cells {
		v := 0x0102030405060708 * uint64(i+1)
		e.ok("store", w.Store(c, v))
		if got, err := w.Load(c); err != nil || got != v {
			e.Fatalf("loaded %#x, %v, want %#x", got, err, v)
		}
		if got := binary.LittleEndian.Uint64(e.read(c, 8)); got != v {
			e.Fatalf("a copy finds %#x, want %#x", got, v)
		}
		e.write(c, binary.LittleEndian.AppendUint64(nil, ^v))
		if got, err := w.Load(c); err != nil || got != ^v {
			e.Fatalf("loaded %#x, %v after a copy wrote %#x", got, err, ^v)
		}
	}
	for _, bad := range []uintptr{dev.addr + 4, dev.addr + 1, 0, 8, ^uintptr(7)} {
		_, err := w.Load(bad)
		e.refused("load of a bad address", err, driver.ErrFault)
		e.refused("store to a bad address", w.Store(bad, 1), driver.ErrFault)
	}
	// Words are never torn.
	cell := dev.addr + 64
	e.ok("store", w.Store(cell, 0))
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for range 2000 {
				if err := w.Store(cell, -uint64(i)); err != nil {
					e.Error(err)
				}
			}
		})
	}
	for range 2000 {
		if v, err := w.Load(cell); err != nil || v != 0 && v != ^uint64(0) {
			e.Errorf("half a word: %#x, %v", v, err)
			break
		}
	}
	wg.Wait()
	e.ok("free", e.dev.Free(dev.addr))
	_, err := w.Load(dev.addr)
	e.refused("load of what was freed", err, driver.ErrFault)
}

// testView: the host can use memory of the device.
func testView(e *env) {
	v := offered(e, e.d.Caps().View)
	dev, pin := e.device(1<<20), e.pinned(4096)
	e.write(dev.addr, noise(1, 1<<20))
	b, err := v.View(dev.addr+100, 1<<20-100)
	e.ok("view", err)
	if string(b) != string(noise(1, 1<<20)[100:]) {
		e.Fatal("the view holds something else")
	}
	copy(b, noise(2, 5000))
	e.holds("written through the view", dev.addr+100, noise(2, 5000))
	if b, err = v.View(pin.addr, 4096); err != nil || len(b) != 4096 {
		e.Fatalf("view of pinned memory: %d bytes, %v", len(b), err)
	}
	_, err = v.View(dev.addr+1, 1<<20)
	e.refused("view past the end", err, driver.ErrFault)
	kept, err := v.View(dev.addr, 1<<20)
	e.ok("view", err)
	own := make([]byte, 4096)
	if !v.Stays(dev.addr) || !v.Stays(pin.addr) || v.Stays(addressOf(own)) {
		e.Error("memory of the driver stays, that of the program may go")
	}
	e.ok("free", e.dev.Free(dev.addr))
	_, err = v.View(dev.addr, 1)
	e.refused("view of what was freed", err, driver.ErrFault)
	for i := range kept { // any content, but no fault
		own[i%len(own)] ^= kept[i]
	}
}
