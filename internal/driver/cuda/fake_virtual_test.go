package cuda

import (
	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver/cuda/libcuda"
)

// extent is what places and sizes of mapped memory are multiples of.
const extent = 2 << 20

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
	at       libcuda.Place
	uses     int
	imported bool
}

type fakeMount struct {
	of     *fakeChunk
	usable bool // access was granted
}

func (f *fake) MemAddressReserve(n, _ uint64, at uintptr) (uintptr, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.old {
		return 0, libcuda.NotSupported
	}
	if n%extent != 0 || n > 1<<46 {
		return 0, libcuda.OutOfMemory
	}
	if at == 0 || arena.ReserveAt(at, n) != nil {
		var err error
		if at, err = arena.Reserve(n); err != nil {
			return 0, libcuda.OutOfMemory
		}
	}
	if f.reserved == nil {
		f.reserved, f.chunks, f.mounts, f.files = map[uintptr]uint64{}, map[uint64]*fakeChunk{},
			map[uintptr]*fakeMount{}, map[uint64]bool{}
	}
	f.reserved[at] = n
	return at, libcuda.Success
}

func (f *fake) MemAddressFree(addr uintptr, n uint64) libcuda.Result {
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
	return libcuda.Success
}

func (f *fake) MemCreate(n uint64, at libcuda.Place) (uint64, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gpu, r := f.here()
	switch {
	case r != libcuda.Success:
		return 0, r
	case f.old:
		return 0, libcuda.NotSupported
	case n%extent != 0 || at == libcuda.HostPlace && f.noHost || at != libcuda.HostPlace && int(at) != gpu:
		return 0, 1
	case at != libcuda.HostPlace && n > f.total-f.gpu[gpu].live-fakeInUse || n > 16<<30:
		return 0, libcuda.OutOfMemory
	}
	fd, err := unix.MemfdCreate("fake", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil || unix.Ftruncate(fd, int64(n)) != nil {
		return 0, libcuda.OutOfMemory
	}
	unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	if at != libcuda.HostPlace {
		f.gpu[gpu].live += n
	}
	return f.keepChunk(&fakeChunk{fd: fd, n: n, at: at}), libcuda.Success
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
	if c.at != libcuda.HostPlace && !c.imported {
		f.gpu[c.at].live -= c.n
	}
}

func (f *fake) MemRelease(h uint64) libcuda.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.chunks[h]
	if c == nil {
		panic("BUG: memory is released twice")
	}
	delete(f.chunks, h)
	f.dropChunk(c)
	return libcuda.Success
}

func (f *fake) MemMap(addr uintptr, n, h uint64) libcuda.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.chunks[h]
	for at, size := range f.reserved {
		if off := addr - at; uint64(off) < size && n <= size-uint64(off) && c != nil && n == c.n {
			for other, m := range f.mounts {
				if other < addr+uintptr(n) && addr < other+uintptr(m.of.n) {
					return libcuda.AlreadyMapped
				}
			}
			if arena.MapFile(addr, n, unix.PROT_NONE, c.fd, 0) != nil {
				return libcuda.OutOfMemory
			}
			c.uses++
			f.mounts[addr] = &fakeMount{of: c}
			return libcuda.Success
		}
	}
	return 1
}

func (f *fake) MemUnmap(addr uintptr, n uint64) libcuda.Result {
	f.mu.Lock()
	m := f.mounts[addr]
	defer f.mu.Unlock()
	if m == nil || m.of.n != n {
		panic("BUG: what is not mapped so is unmapped")
	}
	delete(f.mounts, addr)
	arena.Vacate(addr, n)
	f.dropChunk(m.of)
	return libcuda.Success
}

func (f *fake) MemSetAccess(addr uintptr, n uint64, to libcuda.Place) libcuda.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.mounts[addr]
	if m == nil || m.of.n != n || to == libcuda.HostPlace && m.of.at != libcuda.HostPlace {
		return 1
	}
	if to == m.of.at {
		m.usable = true
		arena.ProtectPages(addr, n, unix.PROT_READ|unix.PROT_WRITE)
	}
	return libcuda.Success
}

func (f *fake) MemExport(h uint64) (int, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fd, err := unix.FcntlInt(uintptr(f.chunks[h].fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, 1
	}
	return fd, libcuda.Success
}

func (f *fake) MemImport(fd int) (uint64, libcuda.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || !f.files[st.Ino] {
		return 0, libcuda.UnknownError // as an H200 says
	}
	at := libcuda.HostPlace
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
	return f.keepChunk(&fakeChunk{fd: fd, n: uint64(st.Size), at: at, imported: true}), libcuda.Success
}

func (f *fake) MemAllocManaged(n uint64) (uintptr, libcuda.Result) {
	if f.old {
		return 0, libcuda.NotSupported
	}
	addr, r := f.take(n, true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if r == libcuda.Success {
		m := f.memory[addr]
		m.managed = true
		f.memory[addr] = m
	}
	return addr, r
}

func (f *fake) ConcurrentManaged(int) (bool, libcuda.Result) { return true, libcuda.Success }

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

// IPCGetMemHandle gives a handle that only another process could open.
func (f *fake) IPCGetMemHandle(addr uintptr, handle *[libcuda.IPCBytes]byte) libcuda.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.memory[addr]
	if !ok || m.host {
		return 1
	}
	copy(handle[:], "fake")
	return libcuda.Success
}

func (f *fake) IPCOpenMemHandle(*[libcuda.IPCBytes]byte) (uintptr, uint64, libcuda.Result) {
	return 0, 0, 201
}
func (f *fake) IPCCloseMemHandle(uintptr) libcuda.Result { panic("BUG: nothing was opened") }
