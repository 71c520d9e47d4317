//go:build linux

package arena

import (
	"errors"
	"testing"

	"ropeway/internal/testenv"
)

func TestFreedPagesAreCachedThenPunched(t *testing.T) {
	a := open(t, Options{Capacity: 256 << 20, CacheLimit: 8 << 20})
	p := alloc(t, a, 4<<20)
	free(t, a, p)
	if s := a.Stats(); s.Cached != 4<<20 || s.Resident != 4<<20 {
		t.Fatalf("after the first free: %+v", s)
	}
	if q := alloc(t, a, 4<<20); q != p {
		t.Errorf("the cached range was not used again: %#x, then %#x", p, q)
	}
	if s := a.Stats(); s.Cached != 0 || s.Resident != 4<<20 {
		t.Fatalf("cached range in use: %+v", s)
	}
	free(t, a, p)

	// One that alone is over the limit goes at once.
	free(t, a, alloc(t, a, 20<<20))
	if s := a.Stats(); s.Cached > 8<<20 || s.Resident != s.Cached {
		t.Errorf("after freeing 20 MiB: %+v", s)
	}

	// Many small ones: never more than the limit stays.
	var all []uintptr
	for range 400 {
		all = append(all, alloc(t, a, 64<<10))
	}
	for _, p := range all {
		free(t, a, p)
		if s := a.Stats(); s.Cached > 8<<20 || s.Resident != s.Cached+s.Live {
			t.Fatalf("while freeing small ranges: %+v", s)
		}
	}
	if n := a.Trim(); n == 0 {
		t.Error("nothing to trim")
	}
	if s := a.Stats(); s.Cached != 0 || s.Resident != 0 || s.Huge != 0 {
		t.Errorf("after Trim: %+v", s)
	}
	alloc(t, a, 256<<20) // in one piece again
}

// A full cache must not make every small allocation pay for its pages anew.
func TestFullCacheDoesNotThrash(t *testing.T) {
	a := open(t, Options{Capacity: 64 << 20, CacheLimit: 4 << 20})
	hold := alloc(t, a, 60<<20)
	p, q := alloc(t, a, 1<<20), alloc(t, a, 1<<20)
	alloc(t, a, 64<<10)
	free(t, a, p)
	free(t, a, q)
	_ = hold
	sheds := 0
	for range 200 {
		before := a.Stats().Resident
		r := alloc(t, a, 96<<10)
		free(t, a, r)
		if a.Stats().Resident < before {
			sheds++
		}
	}
	if sheds > 2 {
		t.Errorf("pages freed %d times", sheds)
	}
}

func TestLazyAllocation(t *testing.T) {
	a := open(t, Options{Capacity: 256 << 20, CacheLimit: 16 << 20, populateMax: 4 << 20})
	p := alloc(t, a, 9<<20+100)
	if s := a.Stats(); s.Resident != 0 {
		t.Fatalf("%+v", s)
	}
	a.Bytes(p, 9<<20)[5<<20] = 1
	if s := a.Stats(); s.Resident != 4096 {
		t.Fatalf("one byte touched: %+v", s)
	}
	// Prepare backs whole extents of it, and of the last only what is covered.
	testenv.OK(t, a.Prepare(p+3<<20, 10))
	if s := a.Stats(); s.Resident != 2<<20+4096 {
		t.Fatalf("one extent prepared: %+v", s)
	}
	testenv.OK(t, a.Prepare(p, 9<<20+100))
	if s := a.Stats(); s.Resident != 9<<20+4096 {
		t.Fatalf("all prepared: %+v", s)
	}
	if a.Bytes(p, 9<<20)[5<<20] != 1 {
		t.Error("a byte was lost")
	}
	testenv.OK(t, a.Prepare(p, 9<<20+100))
	free(t, a, p)
	if s := a.Stats(); s.Cached != 9<<20+4096 || s.Resident != s.Cached {
		t.Fatalf("freed: %+v", s)
	}
	// The same range again is resident now, and lazy where it is longer.
	q := alloc(t, a, 12<<20)
	if s := a.Stats(); q != p || s.Cached != 0 || s.Resident != 9<<20+4096 {
		t.Fatalf("again: %+v", s)
	}
	free(t, a, q)
	// Over the cache limit nothing stays.
	q = alloc(t, a, 100<<20)
	testenv.OK(t, a.Prepare(q+50<<20, 1<<20))
	free(t, a, q)
	if s := a.Stats(); s.Resident > 16<<20 || s.Resident != s.Cached {
		t.Fatalf("large one freed: %+v", s)
	}
}

func TestPrepareElsewhere(t *testing.T) {
	a := open(t, Options{Capacity: 4 << 20})
	p := alloc(t, a, 100)
	for _, addr := range []uintptr{p, p + 1<<20, 0, a.Base() - 1} {
		if err := a.Prepare(addr, 10); err != nil {
			t.Errorf("%#x: %v", addr, err)
		}
	}
}

func TestHugePages(t *testing.T) {
	a := open(t, Options{Capacity: 64 << 20})
	p := alloc(t, a, 5<<20)
	s := a.Stats()
	if s.Huge == 0 {
		t.Skip("the kernel gave no huge pages")
	}
	if s.Huge != 4<<20 || s.Resident != 5<<20 {
		t.Errorf("%+v", s)
	}
	free(t, a, p)
	if s := a.Stats(); s.Huge != 4<<20 || s.Cached != 5<<20 {
		t.Errorf("freed: %+v", s)
	}
	a.Trim()
	if s := a.Stats(); s.Huge != 0 || s.Resident != 0 {
		t.Errorf("trimmed: %+v", s)
	}
}

func TestWithoutHugePages(t *testing.T) {
	a := open(t, Options{Capacity: 64 << 20})
	a.skipHuge.Store(1000)
	alloc(t, a, 5<<20)
	if s := a.Stats(); s.Huge != 0 || s.Resident != 5<<20 {
		t.Errorf("%+v", s)
	}
}

// The kernel's own refusal is ErrNoMemory too and leaves the arena as it was.
func TestPopulateFails(t *testing.T) {
	a := open(t, Options{Capacity: 64 << 20})
	engine := a.engine
	a.engine = nil // no mapping there: ENOMEM
	for _, size := range []uint64{100, 100 << 10, 8 << 20} {
		if _, err := a.Alloc(size, AllocOptions{}); !errors.Is(err, ErrNoMemory) {
			t.Errorf("%d: %v", size, err)
		}
	}
	a.engine = engine
	if s := a.Stats(); s.Live != 0 || s.Count != 0 || s.Cached != 0 || s.Resident != 0 {
		t.Errorf("%+v", s)
	}
	alloc(t, a, 64<<20)
}
