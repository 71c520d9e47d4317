package drivertest

import (
	"bytes"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// hole makes one page inside m inaccessible.
func (e *env) hole(m memory, page int) {
	e.Helper()
	testenv.OK(e, unix.Mprotect(hostBytes(m.addr+uintptr(page*4096), 4096), unix.PROT_NONE))
}

// Run refuses memory that is not mapped, and then has written nothing.
func testRunFaults(e *env) {
	const n = 1 << 20
	good, dev := e.pinned(n), e.device(n)
	was := noise(1, n)
	torn := e.mapped(n)
	e.hole(torn, 128)
	readonly := e.mapped(n)
	testenv.OK(e, unix.Mprotect(hostBytes(readonly.addr+n/2, 4096), unix.PROT_READ))
	ordinary := e.mapped(n)
	if err := e.d.Run(driver.Op{Kind: driver.OpCopy, Dst: ordinary.addr, Src: dev.addr, N: n}); err != nil {
		// first use, so that the driver allocates its own memory now: later it might get the addresses that the test
		// unmaps
		e.Fatal(err)
	}
	gone := e.remote(n)
	testenv.OK(e, drop(gone))
	freed := e.device(n)
	testenv.OK(e, e.dev.Free(freed.addr))
	type bad struct {
		name string
		addr uintptr
		read bool // may be read
		n    uint64
	}
	var all []bad
	for _, n := range []uint64{1, 8192, 64<<10 + 1, n} {
		all = append(all,
			bad{"nil", 0, false, n}, bad{"near nil", 8, false, n}, bad{"end of the first page", 4095, false, n},
			bad{"top of memory", ^uintptr(0) - uintptr(n) - 16, false, n}, bad{"past the top of memory",
				^uintptr(0) - uintptr(n)/2, false, n},
			bad{"not canonical", 1 << 63, false, n}, bad{"kernel", 0xffff_8000_0000_0000, false, n},
			bad{"unmapped", gone.addr, false, n}, bad{"freed", freed.addr, false, n},
			bad{"past the end of device memory", dev.end() - uintptr(n) + 1, false, n},
			bad{"past the end of pinned memory", good.end() - uintptr(n) + 1, false, n})
	}
	all = append(all, bad{"page missing", torn.addr, false, n},
		bad{"page missing at the end", torn.addr, false, 128*4096 + 1},
		bad{"page missing at the start", torn.addr + 129*4096 - 1, false, 4096}, bad{"read only", readonly.addr, true,
			n},
		bad{"far past the end", dev.addr, false, 1 << 60})

	for _, b := range all {
		ops := map[string]driver.Op{
			"copy to":   {Kind: driver.OpCopy, Dst: b.addr, Src: dev.addr, N: b.n},
			"copy from": {Kind: driver.OpCopy, Dst: dev.addr, Src: b.addr, N: b.n},
			"fill":      {Kind: driver.OpFill, Dst: b.addr, N: b.n, Width: 1},
		}
		if b.n >= 4 && b.n <= n {
			ops["2-D to"] = driver.Op{Kind: driver.OpCopy2D, Dst: b.addr, Src: dev.addr, N: b.n / 4, Height: 4,
				DstPitch: b.n / 4, SrcPitch: b.n / 4}
			ops["2-D from"] = driver.Op{Kind: driver.OpCopy2D, Dst: dev.addr, Src: b.addr, N: b.n / 4, Height: 4,
				DstPitch: b.n / 4, SrcPitch: b.n / 4}
			if b.n%4 != 0 {
				delete(ops, "2-D to")
				delete(ops, "2-D from")
			}
			for _, name := range []string{"batch to", "batch from"} {
				segs := driver.NewSegments()
				if name == "batch to" {
					segs.Add(good.addr, dev.addr, 100) // valid, but must not be written
					segs.Add(b.addr, dev.addr, b.n)
				} else {
					segs.Add(good.addr, dev.addr, 100)
					segs.Add(dev.addr, b.addr, b.n)
				}
				ops[name] = driver.Op{Kind: driver.OpBatch, Segs: segs}
			}
		}
		for name, op := range ops {
			if b.read && (name == "copy from" || name == "2-D from" || name == "batch from") {
				continue
			}
			copy(good.host, was)
			e.write(dev.addr, was)
			what := fmt.Sprintf("%s %s (%#x, %d bytes)", name, b.name, b.addr, b.n)
			e.refused(what, e.d.Run(op), driver.ErrFault)
			e.holds(what, dev.addr, was)
			if !bytes.Equal(good.host, was) {
				e.Fatalf("%s: pinned memory was written", what)
			}
		}
	}
	for i, b := range torn.host[:128*4096] {
		if b != 0 {
			e.Fatalf("byte %d before the missing page was written", i)
		}
	}
	// A 2-D copy whose rows would extend from one allocation into the next.
	side := e.device(n)
	e.write(side.addr, was)
	pitch := uint64(side.addr-dev.addr) / 4
	if side.addr > dev.addr && pitch < 16<<20 {
		op := driver.Op{Kind: driver.OpCopy2D, Dst: dev.addr, Src: good.addr, N: 1000, Height: 5, DstPitch: pitch,
			SrcPitch: 1000}
		copy(good.host, noise(2, n))
		if err := e.d.Run(op); err != nil {
			e.refused("2-D copy over several allocations", err, driver.ErrFault)
			e.holds("2-D copy over several allocations, refused", dev.addr, was)
		}
	}
}

// Run copies from and to memory that is not registered.
func testRunPageable(e *env) {
	for i, n := range sizes {
		src, dst, dev := make([]byte, n+1), make([]byte, n+1), e.device(n+1)
		copy(src, noise(uint64(i), n))
		dst[n] = canary
		e.run(driver.Op{Kind: driver.OpCopy, Dst: dev.addr, Src: addressOf(src), N: uint64(n)})
		e.run(driver.Op{Kind: driver.OpCopy, Dst: addressOf(dst), Src: dev.addr, N: uint64(n)})
		runtime.KeepAlive(src)
		if !bytes.Equal(dst[:n], src[:n]) || dst[n] != canary {
			e.Fatalf("%d bytes to the device and back differ", n)
		}
		e.run(driver.Op{Kind: driver.OpFill, Dst: addressOf(dst), N: uint64(n), Width: 1, Value: 3})
		if !bytes.Equal(dst[:n], painted(n, 3)) || dst[n] != canary {
			e.Fatalf("fill of %d bytes", n)
		}
		e.run(driver.Op{Kind: driver.OpCopy, Dst: addressOf(dst), Src: addressOf(src), N: uint64(n)})
		if !bytes.Equal(dst[:n], src[:n]) || dst[n] != canary {
			e.Fatalf("%d bytes from host to host differ", n)
		}
		runtime.KeepAlive(dst)
	}
	// A range may begin in registered memory and end in ordinary memory.
	m := e.mapped(3 * 4096)
	if _, err := e.d.Register(m.addr+4096, 4096, false, 0); err != nil {
		e.Fatal(err)
	}
	defer e.d.Unregister(m.addr + 4096)
	dev := e.device(3 * 4096)
	e.write(dev.addr, noise(1, 3*4096))
	for _, off := range []uintptr{0, 4096, 5000} {
		clear(m.host)
		n := 3*4096 - off
		e.run(driver.Op{Kind: driver.OpCopy, Dst: m.addr + off, Src: dev.addr + off, N: uint64(n)})
		if !bytes.Equal(m.host[off:], noise(1, 3*4096)[off:]) {
			e.Fatalf("range from %d on, half registered: differs", off)
		}
	}
	// The last byte before a missing page can be used.
	edge := e.mapped(4 * 4096)
	e.hole(edge, 3)
	e.run(driver.Op{Kind: driver.OpCopy, Dst: edge.addr, Src: dev.addr, N: 3 * 4096})
	if !bytes.Equal(edge.host[:3*4096], noise(1, 3*4096)) {
		e.Fatal("copy up to a missing page differs")
	}
}

// Memory may be unmapped while a task that needs it is queued: that task fails, others run.
func testMemoryGone(e *env) {
	for _, n := range []int{100, 64 << 10, 64<<10 + 1, 3 << 20} {
		good := e.device(n)
		last := e.pinned(8)
		q := e.queue()
		for _, gone := range []struct {
			name string
			make func() (at uintptr, vanish func() error)
		}{
			{"device memory freed", func() (uintptr, func() error) {
				m := e.device(n)
				return m.addr, func() error { return e.dev.Free(m.addr) }
			}},
			{"pinned memory freed", func() (uintptr, func() error) {
				m := e.pinned(n)
				return m.addr, func() error { return e.d.FreeHost(m.addr) }
			}},
			{"host memory unregistered", func() (uintptr, func() error) {
				m, _ := e.registered(n)
				return m.addr, func() error { return e.d.Unregister(m.addr) }
			}},
			{"mapped memory unregistered", func() (uintptr, func() error) {
				m, alias := e.registered(n)
				return alias.addr, func() error { return e.d.Unregister(m.addr) }
			}},
			{"registered memory unmapped", func() (uintptr, func() error) {
				m, _ := e.register(e.remote(n))
				return m.addr, func() error { return drop(m) }
			}},
			{"never registered", func() (uintptr, func() error) {
				return e.mapped(n).addr, func() error { return nil }
			}},
		} {
			for limit := range 2 {
				at, vanish := gone.make()
				segs := driver.NewSegments()
				segs.Add(good.addr, at, uint64(n))
				half := uint64(n / 2)
				ops := []driver.Op{
					{Kind: driver.OpCopy, Dst: at, Src: good.addr, N: uint64(n)},
					{Kind: driver.OpCopy, Dst: good.addr, Src: at, N: uint64(n)},
					{Kind: driver.OpFill, Dst: at, N: uint64(n), Width: 1},
					{Kind: driver.OpCopy2D, Dst: at, Src: good.addr, N: half, Height: 2, DstPitch: half,
						SrcPitch: half},
					{Kind: driver.OpBatch, Segs: segs},
				}
				release := q.block()
				for i, op := range ops {
					op.Tag = tag(i)
					q.Submit(op)
				}
				q.Submit(driver.Op{Kind: driver.OpFill, Dst: last.addr, N: 8, Width: 1, Value: uint32(limit + 1)})
				testenv.OK(e, vanish())
				release()
				if limit == 1 { // a wait with a limit takes another path
					q.Wait(1<<40, nil)
				}
				q.sync()
				f := q.failures()
				if len(f) != len(ops) {
					e.Fatalf("%s, %d bytes: %d of %d tasks failed: %v", gone.name, n, len(f), len(ops), f)
				}
				for i := range f {
					e.refused(gone.name, f[i].err, driver.ErrFault)
					if f[i].tag != tag(i) {
						e.Fatalf("%s: failure %d has tag %v, want %v", gone.name, i, f[i].tag, tag(i))
					}
				}
				e.d.Unregister(at) // another mapping may get the address; fails if there is nothing to undo
				if last.host[7] != byte(limit+1) {
					e.Fatalf("%s: the task after the failed ones did not run", gone.name)
				}
			}
		}
	}
}
