package soft

import (
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/memcopy"
)

// A shadow is a second mapping of registered memory: the engine works through it while the program's own is closed.
// Only whole pages have one; the first and the last page may also hold other data of the program.
//
// Shared mappings are mapped again. Private ones have to become shared: their content moves to a memfd, which is mapped
// at the same address, and moves back when the range is unregistered. Other threads may use the memory at the same
// time. So it moves in steps of moveStep bytes; each step is read-only to the program while it is copied (half a
// millisecond) and is replaced atomically. Reads always work and no write is lost: a write during the step faults, and
// the checker's handler, which asks Accessible, retries it. That is why the checker watches the range before it calls
// Register. A system call that writes there during the step fails with EFAULT.
//
// While memory is in the memfd, a child of fork shares it with its parent. The effects of madvise and mlock on the
// pages are lost.
//
// Other memory (stacks, private files, devices, Go's heap, huge pages of hugetlbfs) has no shadow and cannot be closed.
// Nor has a range with a gap: the program is mistaken about it, and other mappings in it must not be moved.
type shadow struct {
	lo, hi    uintptr    // the whole pages of the range
	view      uintptr    // the engine's address of lo
	fragments []fragment // the parts that are mapped there, in address order
}

// fragment is a part of one mapping of the program.
type fragment struct {
	lo, hi uintptr
	prot   int    // the program's
	inode  uint64 // of the file mapped while it is registered
	moved  bool   // it was private and has to move back
}

const moveStep = 1 << 20

// next returns the first fragment that ends after addr, or nil.
func (s *shadow) next(addr uintptr) *fragment {
	for i := range s.fragments {
		if addr < s.fragments[i].hi {
			return &s.fragments[i]
		}
	}
	return nil
}

// engine returns the engine's address of addr, an address of the program.
func (s *shadow) engine(addr uintptr) uintptr {
	if p := s.next(addr); p != nil && addr >= p.lo {
		return addr - s.lo + s.view
	}
	return addr
}

// newShadow returns a shadow of the memory in [start, end) that can have one, or nil.
func newShadow(start, end uintptr) *shadow {
	s := &shadow{lo: ceil(start), hi: floor(end)}
	if s.lo >= s.hi {
		return nil
	}
	list, err := mappings(s.lo, s.hi)
	if err != nil || !gapless(list, s.lo, s.hi) {
		return nil
	}
	heap := heapAddress()
	if s.view, err = arena.Reserve(uint64(s.hi - s.lo)); err != nil {
		return nil
	}
	var file memfile
	defer file.close()
	for _, m := range list {
		p := fragment{lo: max(m.lo, s.lo), hi: min(m.hi, s.hi), prot: m.prot, inode: m.inode}
		switch {
		case m.sharable():
			if s.share(p) == nil {
				s.fragments = append(s.fragments, p)
			}
		case m.movable() && (heap < m.lo || heap >= m.hi):
			p.hi = s.move(p, &file)
			if p.moved, p.inode = true, file.inode; p.hi > p.lo {
				s.fragments = append(s.fragments, p)
			}
		}
	}
	if len(s.fragments) == 0 {
		arena.Unreserve(s.view, aliasBytes(uint64(s.hi-s.lo))) //nolint:errcheck // only address space is lost
		return nil
	}
	return s
}

// share maps a shared mapping a second time.
func (s *shadow) share(p fragment) error {
	// Huge pages of hugetlbfs cannot be closed one small page at a time; the kernel refuses them here.
	if err := protect(p.lo, p.lo+pageSize, p.prot); err != nil {
		return err
	}
	return remap(p.lo, 0, p.lo-s.lo+s.view, uint64(p.hi-p.lo))
}

// move moves private memory to the file and returns the end of the part that it could move.
func (s *shadow) move(p fragment, file *memfile) uintptr {
	if file.open(uint64(s.hi-s.lo)) != nil {
		return p.lo
	}
	view := p.lo - s.lo + s.view
	if file.mapAt(view, uint64(p.hi-p.lo), readWrite, p.lo-s.lo) != nil {
		return p.lo
	}
	at := p.lo
	for at < p.hi {
		n := min(p.hi-at, moveStep)
		if s.step(p, at, n, file) != nil {
			break
		}
		at += n
	}
	if p.prot&readWrite != readWrite {
		protect(view, view+(at-p.lo), p.prot) //nolint:errcheck // else the engine may write where the program may not
	}
	return at
}

// step moves n bytes at addr.
func (s *shadow) step(p fragment, addr, n uintptr, file *memfile) error {
	err := protect(addr, addr+n, p.prot&^unix.PROT_WRITE)
	if err == nil {
		err = copyPages(addr-s.lo+s.view, addr, n)
	}
	if err == nil {
		err = file.mapAt(addr, uint64(n), p.prot, addr-s.lo)
	}
	if err != nil {
		return errors.Join(err, protect(addr, addr+n, p.prot))
	}
	return nil
}

// endShadow ends the shadow, if there is one, and restores the program's own pages.
func (r *registration) endShadow() error {
	s := r.shadow
	if s == nil {
		return nil
	}
	list, err := mappings(s.lo, s.hi)
	for _, p := range s.fragments {
		for _, m := range join(list, p) {
			if p.moved {
				err = errors.Join(err, s.moveBack(p, m))
			} else {
				err = errors.Join(err, protect(m.lo, m.hi, p.prot))
			}
		}
	}
	return errors.Join(err, arena.Unreserve(s.view, aliasBytes(uint64(s.hi-s.lo))))
}

// join returns the parts of p that still map its file, merged where they touch: the program may have unmapped or
// replaced others.
func join(list []mapsLine, p fragment) (still []mapsLine) {
	for _, m := range list {
		m.lo, m.hi = max(m.lo, p.lo), min(m.hi, p.hi)
		if m.lo >= m.hi || m.inode != p.inode {
			continue
		}
		if k := len(still); k > 0 && still[k-1].hi == m.lo {
			still[k-1].hi = m.hi
		} else {
			still = append(still, m)
		}
	}
	return still
}

// moveBack makes memory private again: it replaces the memory by a private copy, step by step.
func (s *shadow) moveBack(p fragment, m mapsLine) error {
	size := uint64(m.hi - m.lo)
	stage, err := arena.Reserve(size)
	if err != nil {
		return err
	}
	var moved uintptr // bytes moved out of the stage; their addresses may be reused by now
	for at := m.lo; at < m.hi && err == nil; at += moveStep {
		n, to := min(m.hi-at, moveStep), stage+(at-m.lo)
		err = errors.Join(protect(at, at+n, p.prot&^unix.PROT_WRITE), protect(to, to+n, readWrite))
		if err == nil {
			err = copyPages(to, at-s.lo+s.view, n)
		}
		if err == nil {
			err = protect(to, to+n, p.prot)
		}
		if err == nil {
			err = remap(to, n, at, uint64(n))
		}
		if err == nil {
			moved += n
		} else {
			err = errors.Join(err, protect(at, m.hi, p.prot))
		}
	}
	if left := aliasBytes(size) - uint64(moved); left > 0 {
		err = errors.Join(err, arena.Unreserve(stage+moved, left))
	}
	return err
}

// copyPages copies whole pages except pages of zeros: the destination is new, so copying them would only allocate
// memory.
func copyPages(dst, src, n uintptr) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	for ; n > 0; n -= pageSize {
		if [pageSize]byte(bytesAt(src, pageSize)) != [pageSize]byte{} {
			memcopy.Copy(dst, src, pageSize)
		}
		dst += pageSize
		src += pageSize
	}
	return nil
}

// memfile is a memfd, created when it is first needed. Its mappings keep it alive.
type memfile struct {
	fd    int // 0: not created
	inode uint64
}

func (f *memfile) open(size uint64) error {
	if f.fd != 0 {
		return nil
	}
	fd, err := arena.Memfd("ropeway-registered", size)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	f.fd, f.inode = fd, st.Ino
	return nil
}

func (f *memfile) close() {
	if f.fd != 0 {
		unix.Close(f.fd)
	}
}

// mapAt maps n bytes of the file at off to addr, replacing the mapping there.
func (f *memfile) mapAt(addr uintptr, n uint64, prot int, off uintptr) error {
	_, _, e := unix.Syscall6(unix.SYS_MMAP, addr, uintptr(n), uintptr(prot), unix.MAP_SHARED|unix.MAP_FIXED,
		uintptr(f.fd), off)
	if e != 0 {
		return fmt.Errorf("map %d bytes at %#x: %w", n, addr, e)
	}
	return nil
}

// remap moves the mapping of old bytes at from to the address to, replacing the mapping there. With old 0 it maps a
// shared mapping a second time.
func remap(from, old, to uintptr, n uint64) error {
	_, _, e := unix.Syscall6(unix.SYS_MREMAP, from, old, uintptr(n), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, to, 0)
	if e != 0 {
		return fmt.Errorf("remap %d bytes from %#x to %#x: %w", n, from, to, e)
	}
	return nil
}

// mapped reports whether all of the n bytes at addr are still mapped: the shadow stays even if the program unmaps them.
func mapped(addr uintptr, n uint64) bool {
	lo := floor(addr)
	_, _, e := unix.RawSyscall(unix.SYS_MSYNC, lo, ceil(addr+uintptr(n))-lo, unix.MS_ASYNC) // only checks the mappings
	return e != unix.ENOMEM
}

// protect changes the protection of whole pages.
func protect(lo, hi uintptr, prot int) error {
	if err := arena.ProtectPages(lo, uint64(hi-lo), prot); err != nil {
		return fmt.Errorf("protect %#x to %#x: %w", lo, hi, err)
	}
	return nil
}
