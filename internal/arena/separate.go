package arena

import (
	"errors"
	"fmt"
)

// A Way has the callbacks that move bytes to a separate file.
type Way struct {
	Files *Files // owner of the new file

	// Still is called before bytes move, and returns once nothing reads or writes them. resume is called when they
	// have moved.
	Still func() (resume func())

	// Also, if not nil, maps the file at other addresses where the bytes are mapped, while nothing uses them. If it
	// fails it has changed nothing.
	Also func(f *File) error
}

// move is a run whose bytes are being moved.
type move struct {
	run
	freed bool   // it was freed during the move
	end   ending // if it was freed
}

// isMoving reports whether the run that begins at chunk c is being moved. mu is held.
func (a *Arena) isMoving(c int32) bool { return a.moving != nil && a.moving.c == c }

// Separate gives the allocation that starts at addr a file of its own, if it has none, and returns its offset in the
// file and its size. Its addresses and bytes do not change. A small allocation moves together with all others in its
// chunk, and no later one is put there. The error wraps ErrNotAllocated or ErrNoMemory; then nothing has changed.
//
// The file is closed when the allocation, or the last one in its chunk, is freed; the arena's own file is mapped
// there again before the addresses are reused.
func (a *Arena) Separate(addr uintptr, w Way) (f *File, off, size uint64, err error) {
	a.movers.Lock()
	defer a.movers.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.Find(addr)
	if !ok || r.Start != addr || a.closed {
		return nil, 0, 0, a.notAllocated(addr)
	}
	off = uint64(addr - a.base)
	c := int32(off >> chunkShift)
	region, e := a.lookup(off)
	if e == kindSlab {
		s := region.slab[c%chunksInReg].Load()
		a.rebin(c, s, true)
		if f, err = a.separate(run{c, 1}, chunkSize, false, w); err != nil && !errors.Is(err, ErrNotAllocated) {
			a.rebin(c, s, false)
		}
		return f, off % chunkSize, r.Size, err
	}
	region, i := a.at(c)
	f, err = a.separate(run{c, -region.len[i]}, r.Size, e&kindMask == kindLazy, w)
	return f, off % chunkSize, r.Size, err
}

// separate gives a run in use, with bytes bytes of pages, a file of its own; ErrNotAllocated if it was freed during
// the move. movers and mu are held; mu is released during the move.
func (a *Arena) separate(m run, bytes uint64, lazy bool, w Way) (*File, error) {
	if f := a.separated[m.c]; f != nil {
		return f, nil
	}
	if a.prot != 0 {
		return nil, fmt.Errorf("arena %s: memory that the program may be writing to stays where it is: %w",
			a.name, ErrUnsupported)
	}
	pages := (bytes + pageSize - 1) >> pageShift
	charged := a.residentPages(m.c, m.n)
	if lazy {
		charged += a.missing(m.c, pages)
	}
	a.moving = &move{run: m}
	a.mu.Unlock()
	f, err := a.moveOut(m, pages, charged, w)
	a.mu.Lock()
	was := a.moving
	a.moving = nil
	if err == nil {
		if a.separated == nil {
			a.separated = map[int32]*File{}
		}
		a.separated[m.c] = f
	}
	switch {
	case was.freed:
		a.end(was.end)
		return nil, fmt.Errorf("arena %s: freed while it moved: %w", a.name, ErrNotAllocated)
	case err != nil:
		return nil, a.noMemory(bytes, err.Error())
	}
	return f, nil
}

// moveOut moves the first pages pages of a run to a new file. The budget had granted charged pages for them. mu is
// not held.
func (a *Arena) moveOut(m run, pages, charged uint64, w Way) (*File, error) {
	off, size, bytes := uint64(m.c)<<chunkShift, uint64(m.n)<<chunkShift, pages<<pageShift
	held := partBytes(dataIn(a.fd, off, bytes))
	f, err := w.Files.create(a.name+"-shared", size, held) // both copies exist for a moment
	if err != nil {
		return nil, err
	}
	a.hugeInto(f, off, bytes)

	resume := w.Still()
	if err = a.copyInto(f, off, bytes); err == nil {
		if err = a.mapRun(off, size, f.FD(), 0); err == nil && w.Also != nil {
			err = w.Also(f)
		}
		if err != nil { // the bytes are still where they were
			err = errors.Join(err, a.mapRun(off, size, a.fd, off))
		}
	}
	resume()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	populateWrite(a.engineAt(off), held) //nolint:errcheck // if it fails they are mapped on first use
	a.punch(m.c, m.n, 0)
	if a.acct != nil {
		f.takeOver(a.acct, bytes-held)
		a.release(charged - (pages - held>>pageShift))
	}
	return f, nil
}

// mapRun maps a file for both views of a part of the window.
func (a *Arena) mapRun(off, size uint64, fd int, from uint64) error {
	if err := MapFile(a.engineAt(off), size, protReadWrite, fd, from); err != nil {
		return err
	}
	prot := a.prot
	if a.shown.Load() {
		prot = protReadWrite
	}
	return MapFile(a.base+uintptr(off), size, prot, fd, from)
}

// copyInto writes the existing pages of a part of the arena to the beginning of a file.
func (a *Arena) copyInto(f *File, off, bytes uint64) error {
	for _, s := range dataIn(a.fd, off, bytes) {
		if err := writeFile(f.FD(), a.Bytes(a.base+uintptr(s.off), s.n), s.off-off); err != nil {
			return err
		}
	}
	return nil
}

// hugeInto gives a file huge pages for the whole extents about to be written, where the kernel provides them.
func (a *Arena) hugeInto(f *File, off, bytes uint64) {
	if off%extentSize != 0 || bytes < extentSize {
		return
	}
	at, err := Reserve(bytes)
	if err != nil {
		return
	}
	defer Unreserve(at, (bytes+extentSize-1)&^(extentSize-1)) //nolint:errcheck // only addresses would leak
	if MapFile(at, bytes, protReadWrite, f.FD(), 0) != nil {
		return
	}
	for _, s := range dataIn(a.fd, off, bytes) {
		lo, hi := (s.off-off+extentSize-1)&^(extentSize-1), (s.off-off+s.n)&^(extentSize-1)
		if lo < hi && !makeHuge(at+uintptr(lo), hi-lo) {
			return
		}
	}
}

// rejoin takes back a run that has a file of its own. mu is held, but released during system calls.
func (a *Arena) rejoin(e ending) {
	f := a.separated[e.c]
	delete(a.separated, e.c)
	a.away()
	off, size := uint64(e.c)<<chunkShift, uint64(e.n)<<chunkShift
	err := a.mapRun(off, size, a.fd, off)
	a.emptied(e.c, e.n)
	f.Close() //nolint:errcheck // only a descriptor would leak
	a.returned()
	switch {
	case err != nil: // never reuse the addresses: other processes would see what is written there
	case e.quarantine:
		a.quarantined = append(a.quarantined, e.run)
	default:
		a.put(e.c, e.n, 0)
	}
}

// isSeparate reports whether the byte at off is in a file of its own.
func (a *Arena) isSeparate(off uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, e := a.lookup(off)
	return a.separated[int32(e>>firstShift)] != nil
}

// part is n bytes of a file at offset off.
type part struct{ off, n uint64 }

func partBytes(all []part) (n uint64) {
	for _, s := range all {
		n += s.n
	}
	return n
}
