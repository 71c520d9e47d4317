package drivertest

import (
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
)

// sharing is a driver whose memory can be shared and mapped.
type sharing struct {
	driver.Mapper
	driver.Sharer
}

func (e *env) sharing() sharing {
	return sharing{offered(e, e.d.Caps().Map), offered(e, e.d.Caps().Share)}
}

// imported maps shared memory as another process would: a driver does not distinguish processes.
func (e *env) imported(s sharing, sh *driver.Shared) (at memory, end func()) {
	e.Helper()
	mem, err := s.Import(sh)
	e.ok("import", err)
	if sh.File != nil {
		e.ok("close", sh.File.Close()) // the caller owns it
	}
	if mem.Size() < sh.Offset+sh.Size || mem.Device() != sh.Device {
		e.Fatalf("imported %d bytes of device %d, shared were %d at %d of device %d", mem.Size(), mem.Device(), sh.Size,
			sh.Offset, sh.Device)
	}
	r := e.reserve(s, (int(mem.Size())+2<<20-1)&^(2<<20-1))
	e.ok("map", s.Map(r.addr, mem))
	return memory{addr: r.addr + uintptr(sh.Offset), n: int(sh.Size)}, func() {
		e.Helper()
		e.ok("unmap", s.Unmap(r.addr))
		e.ok("free", mem.Free())
		e.ok("release", s.Release(r.addr))
	}
}

// same fails the test unless both files are the same.
func (e *env) same(a, b *driver.Shared) {
	e.Helper()
	if a.File == nil || b.File == nil {
		return
	}
	x, err1 := a.File.Stat()
	y, err2 := b.File.Stat()
	if err1 != nil || err2 != nil || !os.SameFile(x, y) {
		e.Fatalf("shared twice, and it is not the same file: %v, %v", err1, err2)
	}
	e.ok("close", b.File.Close())
}

func testShare(e *env) {
	s := e.sharing()
	for _, device := range []int{0, driver.OnHost} {
		g := int(s.Granularity(device, driver.PageHugeFirst))
		r, mem := e.reserve(s, 8*g), e.create(s, device, 2*g)
		e.ok("map", s.Map(r.addr, mem))
		e.ok("map", s.Map(r.addr+uintptr(2*g), mem))
		want := noise(1, 2*g)
		e.write(r.addr, want)
		sh, err := s.Share(mem)
		e.ok("share", err)
		if sh.Size != uint64(2*g) || sh.Offset != 0 || sh.Device != device {
			e.Fatalf("shared as %+v", sh)
		}
		again, err := s.Share(mem)
		e.ok("share again", err)
		e.same(sh, again)
		e.holds("shared", r.addr, want)
		e.holds("shared, under the second address", r.addr+uintptr(2*g), want)

		in, end := e.imported(s, sh)
		place := driver.OnDevice
		if device == driver.OnHost {
			place = driver.Host
		}
		e.inside("imported memory", in, place)
		e.holds("imported", in.addr, want)
		e.write(in.addr+100, noise(2, 5000))
		copy(want[100:], noise(2, 5000))
		e.holds("written by the importer", r.addr, want)
		e.write(r.addr+uintptr(3*g), noise(3, g))
		copy(want[g:], noise(3, g))
		e.holds("written by the exporter", in.addr, want)
		q := e.queue()
		q.Copy(in.addr, r.addr+uintptr(g), uint64(g), tag(1)) // within the same memory
		q.finish()
		copy(want, want[g:])
		e.holds("copied by a queue", r.addr, want)

		// A later mapping has the same bytes, too.
		e.ok("map", s.Map(r.addr+uintptr(6*g), mem))
		e.holds("mapped after it was shared", r.addr+uintptr(6*g), want)
		for _, i := range []int{0, 2, 6} {
			e.ok("unmap", s.Unmap(r.addr+uintptr(i*g)))
		}
		e.ok("free", mem.Free())
		e.holds("freed by the exporter", in.addr, want)
		if _, err := s.Share(mem); err == nil {
			e.Fatal("what was freed was shared")
		}
		end()
		e.ok("release", s.Release(r.addr))
	}
}

// testShareAt: sharing an allocation changes neither its content nor its address.
func testShareAt(e *env) {
	s := e.sharing()
	before, _ := e.dev.Memory()
	for _, n := range []int{33 << 10, 64 << 10, 200_000, 2 << 20, 5<<20 + 77, 70 << 20} {
		m := e.device(n)
		want := noise(uint64(n), n)
		e.write(m.addr, want)
		id := e.d.Describe(m.addr).ID
		sh, err := s.ShareAt(m.addr)
		e.ok("share", err)
		if sh.Size != uint64(n) || sh.Device != 0 {
			e.Fatalf("shared as %+v", sh)
		}
		e.inside("shared", m, driver.OnDevice)
		if e.d.Describe(m.addr).ID != id {
			e.Fatal("its id has changed")
		}
		again, err := s.ShareAt(m.addr)
		e.ok("share again", err)
		e.same(sh, again)
		e.holds("shared", m.addr, want)
		in, end := e.imported(s, sh)
		e.located("imported", in.addr, driver.Location{Place: driver.OnDevice, Room: e.d.Locate(in.addr).Room})
		e.holds("imported", in.addr, want)
		e.write(m.addr+1, noise(1, 1000))
		copy(want[1:], noise(1, 1000))
		e.holds("written by the exporter", in.addr, want)
		e.write(in.addr, noise(2, 1000))
		copy(want, noise(2, 1000))
		e.holds("written by the importer", m.addr, want)
		_, err = s.ShareAt(m.addr + 64)
		e.refused("share of an inner address", err, driver.ErrNotAllocated)
		e.ok("free", e.dev.Free(m.addr))
		_, err = s.ShareAt(m.addr)
		e.refused("share of what was freed", err, driver.ErrNotAllocated)
		e.holds("freed by the exporter", in.addr, want)
		end()
	}
	if now, _ := e.dev.Memory(); now != before {
		e.Fatalf("%d bytes free, want %d as in the beginning", now, before)
	}
	_, err := s.ShareAt(e.mapped(4096).addr)
	e.refused("share of ordinary memory", err, driver.ErrNotAllocated)
}

// testShareSmall: other small allocations may be shared together with one, but no later ones.
func testShareSmall(e *env) {
	s := e.sharing()
	const n = 1000
	var all []memory
	for i := range 40 {
		m := e.device(n)
		e.write(m.addr, noise(uint64(i), n))
		all = append(all, m)
	}
	pick := 17
	sh, err := s.ShareAt(all[pick].addr)
	e.ok("share", err)
	size := 0
	if sh.File != nil {
		st, err := sh.File.Stat()
		e.ok("stat", err)
		size = int(st.Size())
	}
	off := int(sh.Offset)
	in, end := e.imported(s, sh)
	for i, m := range all {
		e.holds("shared or beside it", m.addr, noise(uint64(i), n))
	}
	e.holds("imported", in.addr, noise(uint64(pick), n))
	e.write(all[pick].addr, noise(100, n))
	e.holds("written by the exporter", in.addr, noise(100, n))
	// Later secrets are not shared, neither beside the shared allocation nor at its address.
	base, secret := in.addr-uintptr(off), noise(77, n)
	looks := func(what string) {
		e.Helper()
		if size == 0 {
			return
		}
		seen := e.read(base, size)
		for at := 0; at+n <= size; at += 8 {
			if string(seen[at:at+n]) == string(secret) {
				e.Fatalf("%s: the importer sees it at %d", what, at)
			}
		}
	}
	free := func(list []memory) {
		for _, m := range list {
			e.ok("free", e.dev.Free(m.addr))
		}
	}
	free(all[:pick])
	put := func() (list []memory) {
		for range 200 {
			m := e.device(n)
			e.write(m.addr, secret)
			list = append(list, m)
		}
		return list
	}
	later := put()
	looks("beside it")
	free(all[pick:])
	later = append(later, put()...)
	looks("in its place")
	for _, m := range later {
		e.holds("later ones", m.addr, secret)
	}
	free(later)
	end()
}

// testShareFreed: importers of a freed allocation do not see the next one at its address.
func testShareFreed(e *env) {
	s := e.sharing()
	for _, n := range []int{64 << 10, 2 << 20, 66 << 20} {
		m := e.device(n)
		e.write(m.addr, noise(1, n))
		sh, err := s.ShareAt(m.addr)
		e.ok("share", err)
		in, end := e.imported(s, sh)
		e.ok("free", e.dev.Free(m.addr))
		var list []memory
		for range 4 {
			next := e.device(n)
			e.write(next.addr, noise(2, n))
			list = append(list, next)
		}
		e.holds("the importer's", in.addr, noise(1, n))
		e.write(in.addr, noise(3, n))
		for _, l := range list {
			e.holds("later allocations", l.addr, noise(2, n))
			e.ok("free", e.dev.Free(l.addr))
		}
		end()
	}
}

// testShareRunning: no byte that queues, Run or Store write while memory moves is lost, and queues that wait do not
// delay the move. Every writer writes each of its slots once: a lost write leaves 0.
func testShareRunning(e *env) {
	s := e.sharing()
	const part, rounds = 8 << 20, 3
	src := e.pinned(part)
	copy(src.host, painted(part, canary))
	words := e.d.Caps().Words
	stuck := e.queue()
	release := stuck.block()
	stuck.Copy(e.device(64).addr, src.addr, 64, tag(1))
	for range rounds {
		q := []*queue{e.queue(), e.queue()}
		writers := []struct {
			slot  int
			write func(at uintptr) error
			ran   int
		}{
			{slot: 64, write: func(at uintptr) error { q[0].Copy(at, src.addr, 64, tag(1)); return nil }},
			{slot: 80 << 10, write: func(at uintptr) error { q[1].Copy(at, src.addr, 80<<10, tag(1)); return nil }},
			{slot: 64, write: func(at uintptr) error {
				return e.d.Run(driver.Op{Kind: driver.OpFill, Dst: at, N: 64, Width: 1, Value: canary})
			}},
			{slot: 8, write: func(at uintptr) error { return words.Store(at, 0x0101010101010101*canary) }},
		}
		if words == nil {
			writers = writers[:3]
		}
		m := e.device(len(writers) * part)
		e.run(driver.Op{Kind: driver.OpFill, Dst: m.addr, N: uint64(m.n), Width: 1})
		var begun, wg sync.WaitGroup
		var stop atomic.Bool
		for i := range writers {
			w := &writers[i]
			begun.Add(1)
			wg.Go(func() {
				for w.ran = 0; !stop.Load() && (w.ran+1)*w.slot <= part; w.ran++ {
					if w.ran == 10 {
						begun.Done()
					}
					if err := w.write(m.addr + uintptr(i*part+w.ran*w.slot)); err != nil {
						e.Errorf("writer %d: %v", i, err)
						break
					}
				}
			})
		}
		begun.Wait()
		sh, err := s.ShareAt(m.addr)
		e.ok("share", err)
		in, end := e.imported(s, sh)
		stop.Store(true)
		wg.Wait()
		for i, w := range writers {
			if i < len(q) {
				q[i].finish()
			}
			want := append(painted(w.ran*w.slot, canary), make([]byte, part-w.ran*w.slot)...)
			e.holds("the exporter's", m.addr+uintptr(i*part), want)
			e.holds("the importer's", in.addr+uintptr(i*part), want)
		}
		end()
		e.ok("free", e.dev.Free(m.addr))
	}
	release()
	stuck.finish()
}

// testImportHostile: Import checks everything that another process sends.
func testImportHostile(e *env) {
	s := e.sharing()
	mem := e.create(s, 0, grain(s))
	good, err := s.Share(mem)
	e.ok("share", err)
	if good.File == nil {
		e.Skip("the driver needs no file")
	}
	defer good.File.Close()
	const all = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	file := func(size int64, seals int) *os.File {
		fd, err := unix.MemfdCreate("hostile", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		e.ok("memfd", err)
		f := os.NewFile(uintptr(fd), "hostile")
		e.Cleanup(func() { f.Close() })
		e.ok("truncate", f.Truncate(size))
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			e.Fatal(err)
		}
		return f
	}
	with := func(change func(s *driver.Shared)) *driver.Shared {
		c := *good
		change(&c)
		return &c
	}
	pipe, in, err := os.Pipe()
	e.ok("pipe", err)
	defer pipe.Close()
	defer in.Close()
	disk, err := os.CreateTemp(e.TempDir(), "")
	e.ok("file", err)
	defer disk.Close()
	e.ok("truncate", disk.Truncate(int64(good.Size)))
	n := int64(good.Size)
	for what, bad := range map[string]*driver.Shared{
		"a file that may shrink":       with(func(s *driver.Shared) { s.File = file(n, unix.F_SEAL_GROW) }),
		"a file that may grow":         with(func(s *driver.Shared) { s.File = file(n, unix.F_SEAL_SHRINK) }),
		"a file without seals":         with(func(s *driver.Shared) { s.File = file(n, unix.F_SEAL_SEAL) }),
		"a file that is only read":     with(func(s *driver.Shared) { s.File = file(n, all|unix.F_SEAL_WRITE) }),
		"a file that will be":          with(func(s *driver.Shared) { s.File = file(n, all|unix.F_SEAL_FUTURE_WRITE) }),
		"a short file":                 with(func(s *driver.Shared) { s.File = file(n/2, all) }),
		"an empty file":                with(func(s *driver.Shared) { s.File = file(0, all) }),
		"no whole pages":               with(func(s *driver.Shared) { s.File = file(n+100, all) }),
		"a pipe":                       with(func(s *driver.Shared) { s.File = pipe }),
		"a file on disk":               with(func(s *driver.Shared) { s.File = disk }),
		"no file":                      with(func(s *driver.Shared) { s.File = nil }),
		"no bytes":                     with(func(s *driver.Shared) { s.Size = 0 }),
		"more than there is":           with(func(s *driver.Shared) { s.Size++ }),
		"past the end":                 with(func(s *driver.Shared) { s.Offset = s.Size }),
		"an offset without bounds":     with(func(s *driver.Shared) { s.Offset = ^uint64(0) }),
		"a device that is not there":   with(func(s *driver.Shared) { s.Device = e.d.Devices() }),
		"a device that is not, either": with(func(s *driver.Shared) { s.Device = -2 }),
	} {
		_, err := s.Import(bad)
		e.refused(what, err, driver.ErrFault)
	}
	// A size larger than the machine's memory is refused.
	huge := file(1<<60, all)
	if _, err := s.Import(with(func(s *driver.Shared) { s.File = huge })); err == nil {
		e.Fatal("a file of an exbibyte was imported")
	}
	if err := good.File.Truncate(n / 2); err == nil {
		e.Fatal("what is shared can be truncated")
	}
	m, err := s.Import(good)
	e.ok("import of what is good", err)
	e.ok("free", m.Free())
	e.ok("free", mem.Free())
}
