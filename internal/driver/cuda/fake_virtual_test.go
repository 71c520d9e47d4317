package cuda

import (
	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
)

// fakeVirtual is memory apart from its addresses: files that are mapped.
type fakeVirtual struct {
	chunks   map[uint64]*fakeChunk  // guarded by fake.mu; by handle
	mounts   map[uintptr]*fakeMount // guarded by fake.mu; by address
	reserved map[uintptr]uint64     // guarded by fake.mu
	files    map[uint64]bool        // guarded by fake.mu; inodes of chunks
	old      bool                   // it is a libcuda without all that
	noHost   bool                   // or without memory on the host
}

// fakeChunk is memory; it goes when it has neither a handle nor a mapping.
type fakeChunk struct {
	fd       int
	n        uint64
	at       place
	uses     int
	imported bool
}

type fakeMount struct {
	of     *fakeChunk
	usable bool // access was granted
}

func (f *fake) reserve(n uint64, at uintptr) (uintptr, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.old {
		return 0, notSupported
	}
	if n%extent != 0 || n > 1<<46 {
		return 0, outOfMemory
	}
	if at == 0 || arena.ReserveAt(at, n) != nil {
		var err error
		if at, err = arena.Reserve(n); err != nil {
			return 0, outOfMemory
		}
	}
	if f.reserved == nil {
		f.reserved, f.chunks, f.mounts, f.files = map[uintptr]uint64{}, map[uint64]*fakeChunk{},
			map[uintptr]*fakeMount{}, map[uint64]bool{}
	}
	f.reserved[at] = n
	return at, success
}

func (f *fake) unreserve(addr uintptr, n uint64) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reserved[addr] != n {
		panic("BUG: addresses are freed that were not reserved so")
	}
	for at := range f.mounts {
		if at-addr < uintptr(n) {
			panic("BUG: addresses are freed where memory is mapped")
		}
	}
	delete(f.reserved, addr)
	arena.Unreserve(addr, n)
	return success
}

func (f *fake) createMemory(n uint64, at place) (uint64, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gpu, r := f.here()
	switch {
	case r != success:
		return 0, r
	case f.old:
		return 0, notSupported
	case n%extent != 0 || at == hostPlace && f.noHost || at != hostPlace && int(at) != gpu:
		return 0, 1
	case at != hostPlace && n > f.total-f.gpu[gpu].live-fakeInUse || n > 16<<30:
		return 0, outOfMemory
	}
	fd, err := unix.MemfdCreate("fake", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil || unix.Ftruncate(fd, int64(n)) != nil {
		return 0, outOfMemory
	}
	unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	if at != hostPlace {
		f.gpu[gpu].live += n
	}
	return f.keepChunk(&fakeChunk{fd: fd, n: n, at: at}), success
}

// keepChunk gives a chunk a handle. mu is held.
func (f *fake) keepChunk(c *fakeChunk) uint64 {
	if f.chunks == nil {
		f.chunks, f.mounts, f.reserved, f.files = map[uint64]*fakeChunk{}, map[uintptr]*fakeMount{},
			map[uintptr]uint64{}, map[uint64]bool{}
	}
	var st unix.Stat_t
	unix.Fstat(c.fd, &st)
	f.files[st.Ino] = true
	f.last++
	c.uses++
	f.chunks[uint64(f.last)] = c
	return uint64(f.last)
}

// dropChunk takes a use from a chunk. mu is held.
func (f *fake) dropChunk(c *fakeChunk) {
	if c.uses--; c.uses > 0 {
		return
	}
	unix.Close(c.fd)
	if c.at != hostPlace && !c.imported {
		f.gpu[c.at].live -= c.n
	}
}

func (f *fake) releaseMemory(h uint64) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.chunks[h]
	if c == nil {
		panic("BUG: memory is released twice")
	}
	delete(f.chunks, h)
	f.dropChunk(c)
	return success
}

func (f *fake) mapMemory(addr uintptr, n, h uint64) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.chunks[h]
	for at, size := range f.reserved {
		if off := addr - at; uint64(off) < size && n <= size-uint64(off) && c != nil && n == c.n {
			for other, m := range f.mounts {
				if other < addr+uintptr(n) && addr < other+uintptr(m.of.n) {
					return alreadyMapped
				}
			}
			if arena.MapFile(addr, n, unix.PROT_NONE, c.fd, 0) != nil {
				return outOfMemory
			}
			c.uses++
			f.mounts[addr] = &fakeMount{of: c}
			return success
		}
	}
	return 1
}

func (f *fake) unmapMemory(addr uintptr, n uint64) result {
	f.mu.Lock()
	m := f.mounts[addr]
	defer f.mu.Unlock()
	if m == nil || m.of.n != n {
		panic("BUG: what is not mapped so is unmapped")
	}
	delete(f.mounts, addr)
	arena.Vacate(addr, n)
	f.dropChunk(m.of)
	return success
}

func (f *fake) setAccess(addr uintptr, n uint64, to place) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.mounts[addr]
	if m == nil || m.of.n != n || to == hostPlace && m.of.at != hostPlace {
		return 1
	}
	if to == m.of.at {
		m.usable = true
		arena.ProtectPages(addr, n, unix.PROT_READ|unix.PROT_WRITE)
	}
	return success
}

func (f *fake) exportMemory(h uint64) (int, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fd, err := unix.FcntlInt(uintptr(f.chunks[h].fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, 1
	}
	return fd, success
}

func (f *fake) importMemory(fd int) (uint64, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || !f.files[st.Ino] {
		return 0, unknownError // as an H200 says
	}
	at := hostPlace
	for _, c := range f.chunks {
		var other unix.Stat_t
		if unix.Fstat(c.fd, &other); other.Ino == st.Ino {
			at = c.at
		}
	}
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, 1
	}
	return f.keepChunk(&fakeChunk{fd: fd, n: uint64(st.Size), at: at, imported: true}), success
}

func (f *fake) allocManaged(n uint64) (uintptr, result) {
	if f.old {
		return 0, notSupported
	}
	addr, r := f.take(n, true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if r == success {
		m := f.memory[addr]
		m.managed = true
		f.memory[addr] = m
	}
	return addr, r
}

func (f *fake) hostToo(int) (bool, result) { return true, success }

// mapped reports whether the n bytes at addr are mapped, over any number of mappings. mu is held.
func (f *fake) mapped(addr uintptr, n uint64) bool {
	for n > 0 {
		found := false
		for at, m := range f.mounts {
			if off := uint64(addr - at); addr >= at && off < m.of.n && m.usable {
				step := min(n, m.of.n-off)
				addr, n, found = addr+uintptr(step), n-step, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// exportAlloc gives a handle that only another process could open.
func (f *fake) exportAlloc(addr uintptr, handle *[ipcBytes]byte) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.memory[addr]
	if !ok || m.host {
		return 1
	}
	copy(handle[:], "fake")
	return success
}

func (f *fake) openAlloc(*[ipcBytes]byte) (uintptr, uint64, result) { return 0, 0, 201 }
func (f *fake) closeAlloc(uintptr) result                           { panic("BUG: nothing was opened") }
