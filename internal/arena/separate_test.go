//go:build linux

package arena

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

// view is what another process has of a file: its bytes never change, because the model writes at allocation only.
type view struct {
	file *os.File
	sum  uint64
}

var viewSeed = maphash.MakeSeed()

func (v view) hash() (uint64, error) {
	var h maphash.Hash
	h.SetSeed(viewSeed)
	_, err := io.Copy(&h, io.NewSectionReader(v.file, 0, 1<<40))
	return h.Sum64(), err
}

func (v view) check() error {
	if sum, err := v.hash(); err != nil || sum != v.sum {
		return fmt.Errorf("another process sees something that was written later: %v", err)
	}
	return nil
}

// mark is the byte at both ends of a block.
func (b *Block) mark() byte { return byte(b.c*7 + 1) }

// bytesOf is a block as the engine of the arena sees it.
func bytesOf(b *Block) []byte { return b.a.Bytes(b.a.base+uintptr(b.c)<<chunkShift, b.size) }

func (m *model) take(size uint64, huge HugePolicy) error {
	b, err := m.a.Take(size, huge)
	if err != nil {
		if errors.Is(err, ErrNoMemory) && (len(m.live)+len(m.blocks) > 0 || size > m.most()) {
			return nil
		}
		if errors.Is(err, ErrNoMemory) && huge == Require { // whole extents may not fit
			return nil
		}
		return err
	}
	bytesOf(b)[0], bytesOf(b)[size-1] = b.mark(), b.mark()
	m.blocks = append(m.blocks, b)
	start := m.a.base + uintptr(b.c)<<chunkShift
	if m.a.Room(start) != 0 {
		return fmt.Errorf("a block is found at %#x", start)
	}
	return m.badFree(start)
}

// markedBlock checks that a block is what was written to it, where its file says.
func (m *model) markedBlock(b *Block) error {
	fd, off := b.File()
	var ends [2]byte
	_, err1 := unix.Pread(fd, ends[:1], int64(off))
	_, err2 := unix.Pread(fd, ends[1:], int64(off+b.size-1))
	if seen := bytesOf(b); err1 != nil || err2 != nil || ends != [2]byte{b.mark(), b.mark()} || seen[0] != b.mark() ||
		seen[b.size-1] != b.mark() {
		return fmt.Errorf("a block of %d bytes holds %v, %v, %v", b.size, ends, err1, err2)
	}
	return nil
}

func (m *model) freeBlock(i int) error {
	b := m.blocks[i]
	if err := m.markedBlock(b); err != nil {
		return err
	}
	m.blocks = slices.Delete(m.blocks, i, i+1)
	if err := b.Free(); err != nil {
		return err
	}
	if err := b.Free(); !errors.Is(err, ErrNotAllocated) {
		return fmt.Errorf("second free of a block: %v", err)
	}
	return nil
}

// way is the way of a test, in which nobody else uses memory.
func (m *model) way() Way {
	return Way{Files: m.files, Still: func() func() { return func() {} }}
}

// see keeps a view of a file in which size bytes at off begin and end with a mark.
func (m *model) see(f *File, off, size uint64, mark byte) error {
	fd, err := f.Duplicate()
	if err != nil {
		return err
	}
	v := view{file: os.NewFile(uintptr(fd), "view")}
	m.views = append(m.views, v)
	var ends [2]byte
	v.file.ReadAt(ends[:1], int64(off))
	v.file.ReadAt(ends[1:], int64(off+size-1))
	if ends != [2]byte{mark, mark} {
		return fmt.Errorf("moved, %d bytes begin and end with %v, want %d", size, ends, mark)
	}
	m.views[len(m.views)-1].sum, err = v.hash()
	return err
}

func (m *model) separate(r Range) error {
	f, off, size, err := m.a.Separate(r.Start, m.way())
	if m.a.prot != 0 {
		if !errors.Is(err, ErrUnsupported) {
			return fmt.Errorf("open memory moved: %v", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	again, _, _, err := m.a.Separate(r.Start, m.way())
	if err != nil || again != f || size != r.Size || off+size > f.Size() {
		return fmt.Errorf("%+v: %d bytes at %d of %d, again %v, %v", r, size, off, f.Size(), again == f, err)
	}
	if _, _, _, err := m.a.Separate(r.Start+1, m.way()); !errors.Is(err, ErrNotAllocated) {
		return fmt.Errorf("an inner address moved: %v", err)
	}
	return m.see(f, off, size, byte(r.ID))
}

func (m *model) separateBlock(b *Block) error {
	f, err := b.Separate(m.way())
	if m.a.prot != 0 && errors.Is(err, ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.see(f, 0, b.size, b.mark())
}

func (m *model) forget() {
	for _, v := range m.views {
		v.file.Close()
	}
}

// TestSeparateFails proves that memory that cannot move stays what and where it is.
func TestSeparateFails(t *testing.T) {
	var limit uint64 = 1 << 40
	budget := newBudget(func() (uint64, uint64, error) { return limit, limit, nil })
	a := open(t, Options{Capacity: 64 << 20, Budget: budget})
	files := NewFiles(budget)
	large, small := alloc(t, a, 4<<20), alloc(t, a, 100)
	b, err := a.Take(4<<20, Prefer)
	testenv.OK(t, err)
	want := bytes.Repeat([]byte{3}, 4<<20)
	copy(a.Bytes(large, 4<<20), want)
	copy(bytesOf(b), want)
	charged := a.acct.charged
	intact := func(what string, err error, wrapped error) {
		t.Helper()
		if !errors.Is(err, wrapped) {
			t.Errorf("%s: %v, want %v", what, err, wrapped)
		}
		if !bytes.Equal(a.Bytes(large, 4<<20), want) || !bytes.Equal(bytesOf(b), want) {
			t.Errorf("%s: the bytes have changed", what)
		}
		if a.acct.charged != charged || files.acct.charged != 0 || len(files.all) != 0 {
			t.Errorf("%s: %d and %d bytes are accounted, want %d and 0", what, a.acct.charged,
				files.acct.charged, charged)
		}
		if p := alloc(t, a, 100); p&^(chunkSize-1) != small&^(chunkSize-1) {
			t.Errorf("%s: the chunk of small allocations is no longer used", what)
		} else {
			free(t, a, p)
		}
	}
	still := func() func() { return func() {} }
	bad := errors.New("mapped elsewhere, and there it does not work")
	_, err = b.Separate(Way{files, still, func(*File) error { return bad }})
	intact("a follower fails", err, ErrNoMemory)
	_, _, _, err = a.Separate(large, Way{files, still, func(*File) error { return bad }})
	intact("a follower fails", err, ErrNoMemory)
	_, _, _, err = a.Separate(small, Way{files, still, func(*File) error { return bad }})
	intact("a follower of a slab fails", err, ErrNoMemory)
	budget.mu.Lock()
	budget.credit, limit = 0, 1
	budget.mu.Unlock()
	_, _, _, err = a.Separate(large, Way{Files: files, Still: still})
	intact("no budget", err, ErrNoMemory)
	testenv.OK(t, b.Free())
	if _, err := b.Separate(Way{Files: files, Still: still}); !errors.Is(err, ErrNotAllocated) {
		t.Errorf("a block that was freed: %v", err)
	}
}

// TestSeparateFreed proves that what is freed while it moves goes when it has moved, without waiting: the thread that
// frees it may be the one that the move waits for.
func TestSeparateFreed(t *testing.T) {
	for _, fails := range []bool{false, true} {
		for _, fresh := range []bool{false, true} {
			budget := newBudget(func() (uint64, uint64, error) { return 64 << 30, 64 << 30, nil })
			a := open(t, Options{Capacity: 64 << 20, Budget: budget, populateMax: 16 << 20, Fresh: fresh})
			files := NewFiles(budget)
			way := func(free func() error) Way {
				return Way{Files: files, Still: func() func() {
					if err := free(); err != nil {
						t.Error(err)
					}
					return func() {}
				}, Also: func(*File) error {
					if fails {
						return errors.New("bad")
					}
					return nil
				}}
			}
			beside := alloc(t, a, 100)
			for _, size := range []uint64{100, 40 << 10, 2 << 20, 20 << 20} {
				p := alloc(t, a, size)
				_, _, _, err := a.Separate(p, way(func() error { return a.Free(p) }))
				if size > smallMax && !errors.Is(err, ErrNotAllocated) {
					t.Errorf("%d bytes: %v", size, err)
				}
				if _, ok := a.Find(p); ok {
					t.Errorf("%d bytes are still there", size)
				}
				b, err := a.Take(size, Normal)
				testenv.OK(t, err)
				if _, err := b.Separate(way(b.Free)); !errors.Is(err, ErrNotAllocated) {
					t.Errorf("a block of %d bytes: %v", size, err)
				}
			}
			// A chunk that becomes empty while it moves.
			free(t, a, beside)
			p := alloc(t, a, 100)
			a.Separate(p, way(func() error { return a.Free(p) })) //nolint:errcheck // as above
			if err := a.invariants(); err != nil {
				t.Error(err)
			}
			a.Trim()
			if s := a.Stats(); s.Live != 0 || a.acct.charged != 0 || files.acct.charged != 0 || len(files.all) != 0 {
				t.Errorf("%d bytes live; %d and %d are accounted", s.Live, a.acct.charged, files.acct.charged)
			}
		}
	}
}

// TestSeparateLazy proves that only what has pages moves, and that the rest can still get some.
func TestSeparateLazy(t *testing.T) {
	const size = 1 << 30
	budget := newBudget(func() (uint64, uint64, error) { return 64 << 30, 64 << 30, nil })
	a := open(t, Options{Capacity: 2 << 30, Budget: budget})
	files := NewFiles(budget)
	p := alloc(t, a, size)
	at := []uint64{0, 5 << 20, 5<<20 + 4096, 512 << 20, size - 1}
	for i, off := range at {
		a.Bytes(p+uintptr(off), 1)[0] = byte(i + 1)
	}
	f, _, _, err := a.Separate(p, Way{Files: files, Still: func() func() { return func() {} }})
	testenv.OK(t, err)
	if n := residentBytes(f.FD()); n > 32<<20 {
		t.Errorf("%d bytes are resident in a file of which 5 pages are used", n)
	}
	if a.resident() > 32<<20 {
		t.Errorf("%d bytes stay resident in the arena", a.resident())
	}
	if files.acct.charged != size || a.acct.charged > 1<<20 {
		t.Errorf("%d bytes are accounted to the file, %d to the arena", files.acct.charged, a.acct.charged)
	}
	testenv.OK(t, a.Prepare(p+100<<20, 8<<20))
	if n := residentBytes(f.FD()); n < 8<<20 {
		t.Errorf("%d bytes are resident in the file after 8 MiB were prepared", n)
	}
	for i, off := range at {
		if b := a.Bytes(p+uintptr(off), 1)[0]; b != byte(i+1) {
			t.Errorf("byte %d is %d, want %d", off, b, i+1)
		}
	}
	free(t, a, p)
	if files.acct.charged != 0 || a.Stats().Huge != 0 {
		t.Errorf("freed, %d bytes are accounted and %d huge", files.acct.charged, a.Stats().Huge)
	}
}

// TestSeparateHammer lets allocations come, move and go at the same time.
func TestSeparateHammer(t *testing.T) {
	a := open(t, Options{Capacity: 256 << 20, CacheLimit: 4 << 20})
	files := NewFiles(nil)
	var wg sync.WaitGroup
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	for g := range 4 {
		wg.Go(func() {
			for i := range rounds {
				size := []uint64{100, 3000, 40 << 10, 200 << 10, 2 << 20}[(i+g)%5]
				p, err := a.Alloc(size, AllocOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				b := a.Bytes(p, size)
				mark := byte(g*50 + i)
				b[0], b[size-1] = mark, mark
				// Nobody writes while bytes move: what is here is the goroutine's own, or of a chunk whose others only
				// compare.
				if i%3 == 0 && size > smallMax {
					if _, _, _, err := a.Separate(p,
						Way{Files: files, Still: func() func() { return func() {} }}); err != nil {
						t.Error(err)
					}
				}
				if b[0] != mark || b[size-1] != mark {
					t.Errorf("%d bytes hold something else", size)
				}
				if err := a.Free(p); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(files.all) != 0 {
		t.Errorf("%d files are left", len(files.all))
	}
	if err := a.invariants(); err != nil {
		t.Error(err)
	}
}

// TestFiles proves how files are accounted: what others have in memory is on their account.
func TestFiles(t *testing.T) {
	budget := newBudget(func() (uint64, uint64, error) { return 1 << 30, 1 << 30, nil })
	s := NewFiles(budget)
	f, err := s.Create("test", 16<<20)
	testenv.OK(t, err)
	if s.acct.charged != 16<<20 || s.resident() != 0 {
		t.Errorf("%d bytes accounted, %d resident", s.acct.charged, s.resident())
	}
	testenv.OK(t, writeFile(f.FD(), make([]byte, 4<<20), 0))
	in, err := s.Import(f.FD())
	testenv.OK(t, err)
	if s.acct.charged != 28<<20 || s.resident() != 4<<20 || in.Size() != 16<<20 {
		t.Errorf("imported: %d bytes accounted, %d resident", s.acct.charged, s.resident())
	}
	testenv.OK(t, f.Close())
	if _, err := f.Duplicate(); !errors.Is(err, ErrClosed) || f.Close() != nil {
		t.Errorf("closed: %v", err)
	}
	testenv.OK(t, writeFile(in.FD(), make([]byte, 4<<20), 8<<20))
	if s.acct.charged != 12<<20 || s.resident() != 4<<20 {
		t.Errorf("touched by the importer: %d bytes accounted, %d resident", s.acct.charged, s.resident())
	}
	if _, err := s.Create("test", 2<<30); !errors.Is(err, ErrNoMemory) {
		t.Errorf("more than there is: %v", err)
	}
	if err := in.Close(); err != nil || s.acct.charged != 0 || s.resident() != 0 {
		t.Errorf("%v; %d bytes accounted, %d resident", err, s.acct.charged, s.resident())
	}
	s.Close()
}
