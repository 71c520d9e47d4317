//go:build linux

package arena

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/testenv"
)

// model is the plain truth about an arena: a list of live ranges.
type model struct {
	a      *Arena
	live   []Range // in address order
	seen   map[uint64]bool
	freed  []uintptr
	blocks []*Block
	files  *Files
	views  []view
}

// at returns the live range that addr falls in.
func (m *model) at(addr uintptr) (Range, bool) {
	i, exact := slices.BinarySearchFunc(m.live, addr, func(r Range, a uintptr) int {
		if r.Start < a {
			return -1
		} else if r.Start > a {
			return 1
		}
		return 0
	})
	if !exact {
		i--
	}
	if i >= 0 && uint64(addr-m.live[i].Start) < m.live[i].Size {
		return m.live[i], true
	}
	return Range{}, false
}

// most is how many bytes one allocation can have.
func (m *model) most() uint64 {
	if m.a.fenced {
		return m.a.Capacity() - 2*extentSize // a fence at either end, and the next whole extent
	}
	return m.a.Capacity()
}

func (m *model) alloc(size uint64, o AllocOptions) error {
	p, err := m.a.Alloc(size, o)
	if err != nil {
		if !errors.Is(err, ErrNoMemory) {
			return err
		}
		if len(m.live)+len(m.blocks) == 0 && size <= m.most() {
			return fmt.Errorf("empty arena refuses %d bytes: %w", size, err)
		}
		return nil
	}
	r, ok := m.a.Find(p)
	if !ok || r.Start != p || r.Size != size || r.Tag != o.Tag || m.seen[r.ID] {
		return fmt.Errorf("Alloc(%d, %+v) = %#x; Find = %+v, %v", size, o, p, r, ok)
	}
	m.seen[r.ID] = true
	i, _ := slices.BinarySearchFunc(m.live, p, func(r Range, a uintptr) int {
		if r.Start < a {
			return -1
		}
		return 1
	})
	if i > 0 && uint64(p-m.live[i-1].Start) < m.live[i-1].Size || i < len(m.live) && uint64(m.live[i].Start-p) < size {
		return fmt.Errorf("%#x+%d overlaps another", p, size)
	}
	if m.a.fenced {
		if err := m.fenced(i, p, size); err != nil {
			return err
		}
	}
	if !m.a.Contains(p) || !m.a.Contains(p+uintptr(size-1)) {
		return fmt.Errorf("%#x+%d is outside", p, size)
	}
	m.live = slices.Insert(m.live, i, r)
	b := m.a.Bytes(p, size)
	b[0], b[size-1] = byte(r.ID), byte(r.ID) // nobody else may write there
	return nil
}

// fenced checks whether what was handed out before place i is far enough from its neighbours, and ends near the end of
// a page.
func (m *model) fenced(i int, p uintptr, size uint64) error {
	end := p + uintptr(size)
	before, after := m.a.Base(), m.a.Base()+uintptr(m.a.Capacity())
	if i > 0 {
		before = m.live[i-1].Start + uintptr(m.live[i-1].Size)
	}
	if i < len(m.live) {
		after = m.live[i].Start
	}
	if p-before < FenceBytes || after-end < FenceBytes || p%fenceAlign != 0 || -end%pageSize >= fenceAlign {
		return fmt.Errorf("%#x+%d lies between %#x and %#x", p, size, before, after)
	}
	return nil
}

func (m *model) free(i int) error {
	r := m.live[i]
	if b := m.a.Bytes(r.Start, r.Size); b[0] != byte(r.ID) || b[r.Size-1] != byte(r.ID) {
		return fmt.Errorf("%+v was overwritten", r)
	}
	m.live = slices.Delete(m.live, i, i+1)
	m.freed = append(m.freed, r.Start)
	return m.a.Free(r.Start)
}

// badFree frees addr if that is a mistake, and wants it to be refused.
func (m *model) badFree(addr uintptr) error {
	if r, ok := m.at(addr); ok && r.Start == addr {
		return nil
	}
	if err := m.a.Free(addr); !errors.Is(err, ErrNotAllocated) {
		return fmt.Errorf("Free(%#x) = %v", addr, err)
	}
	return nil
}

// probe compares the arena with the model at addr.
func (m *model) probe(addr uintptr) error {
	want, ok := m.at(addr)
	got, found := m.a.Find(addr)
	if found != ok || got != want {
		return fmt.Errorf("Find(%#x) = %+v, %v; want %+v, %v", addr, got, found, want, ok)
	}
	room := uint64(0)
	if ok {
		room = want.Size - uint64(addr-want.Start)
	}
	if r := m.a.Room(addr); r != room {
		return fmt.Errorf("Room(%#x) = %d, want %d", addr, r, room)
	}
	return nil
}

// check compares the totals, and Each, and the ends of every range.
func (m *model) check() error {
	var sum uint64
	for _, b := range m.blocks {
		sum += b.Size()
		if err := m.markedBlock(b); err != nil {
			return err
		}
	}
	for _, v := range m.views {
		if err := v.check(); err != nil {
			return err
		}
	}
	for _, r := range m.live {
		sum += r.Size
		for _, addr := range []uintptr{r.Start - 1, r.Start, r.Start + uintptr(r.Size-1), r.Start + uintptr(r.Size)} {
			if err := m.probe(addr); err != nil {
				return err
			}
		}
	}
	var all []Range
	m.a.Each(func(r Range) bool { all = append(all, r); return true })
	if !slices.Equal(all, m.live) {
		return fmt.Errorf("Each gives %v, want %v", all, m.live)
	}
	s := m.a.Stats()
	if s.Live != sum || s.Count != uint64(len(m.live)+len(m.blocks)) || s.Peak < s.Live || s.Cached > m.a.cacheLimit {
		return fmt.Errorf("%+v; want %d bytes in %d", s, sum, len(m.live))
	}
	return m.a.invariants()
}

// invariants checks what the arena's own tables must agree on.
func (a *Arena) invariants() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	total := int32(a.capacity >> chunkShift)
	quarantined := map[int32]int32{}
	for _, r := range a.quarantined {
		quarantined[r.c] = r.n
	}
	var freeRuns, inBins int
	var cached uint64
	for c := a.fence(); c < total; {
		r, i := a.at(c)
		_, e := a.lookup(uint64(c) << chunkShift)
		n := r.len[i]
		switch {
		case n > 0: // free
			freeRuns++
			if lr, li := a.at(c + n - 1); lr.len[li] != n || e != 0 {
				return fmt.Errorf("free run %d+%d: last tag %d, entry %#x", c, n, lr.len[li], e)
			}
			if c+n < total {
				if nr, ni := a.at(c + n); nr.len[ni] > 0 {
					return fmt.Errorf("free runs %d+%d and %d are not merged", c, n, c+n)
				}
			}
			cached += a.residentPages(c, n) << pageShift
		case n < 0:
			n = -n
			block := e == kindFree && r.id[i].Load() == 0
			if !block && (e&isRun == 0 || e>>firstShift != uint64(c)) {
				return fmt.Errorf("run %d+%d has entry %#x", c, n, e)
			}
		case quarantined[c] > 0:
			if n = quarantined[c]; e != 0 || a.residentPages(c, n) != 0 {
				return fmt.Errorf("run %d+%d that is quarantined has entry %#x and %d pages", c, n, e,
					a.residentPages(c, n))
			}
		default:
			if n = 1; e != kindSlab {
				return fmt.Errorf("chunk %d is nothing: entry %#x", c, e)
			}
		}
		c += n
	}
	for b, h := range a.runs.head {
		if (h != none) != (a.runs.full[b/64]>>(b%64)&1 == 1) {
			return fmt.Errorf("bin %d: head %d, bit wrong", b, h)
		}
		for c := h; c != none; inBins++ {
			r, i := a.at(c)
			if binOf(r.len[i]) != b {
				return fmt.Errorf("run of %d in bin %d", r.len[i], b)
			}
			c = r.next[i]
		}
	}
	if freeRuns != inBins || cached != a.cached || a.limbo != 0 {
		return fmt.Errorf("%d free runs, %d in bins; %d bytes cached, counted %d; limbo %d", freeRuns, inBins, cached,
			a.cached, a.limbo)
	}
	return nil
}

var modelSizes = []uint64{1, 511, 512, 513, 2000, 4096, 16 << 10, 32 << 10, 32<<10 + 1, 64 << 10, 64<<10 + 1, 200 << 10,
	1 << 20, 2<<20 - 1, 2 << 20, 2<<20 + 32, 3 << 20, 6 << 20}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := newBudget(func() (uint64, uint64, error) { return 64 << 30, 64 << 30, nil })
		a, err := New(Options{
			Name:        "model",
			Capacity:    uint64(rapid.IntRange(3, 8).Draw(t, "extents")) * extentSize,
			OwnPages:    rapid.Bool().Draw(t, "own pages"),
			Fresh:       rapid.Bool().Draw(t, "fresh"),
			Fenced:      rapid.Bool().Draw(t, "fenced"),
			WindowProt:  rapid.SampledFrom([]int{0, rw}).Draw(t, "protection"),
			CacheLimit:  uint64(rapid.IntRange(1, 4).Draw(t, "cache")) << 20,
			populateMax: 4 << 20,
			Budget:      budget,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		m := &model{a: a, seen: map[uint64]bool{}, files: NewFiles(budget)}
		defer m.forget()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		address := rapid.Custom(func(t *rapid.T) uintptr {
			return a.Base() + uintptr(rapid.Uint64Range(0, a.Capacity()).Draw(t, "offset"))
		})
		size := rapid.OneOf(rapid.SampledFrom(modelSizes), rapid.Uint64Range(1, a.Capacity()),
			rapid.Uint64Range(1, 64<<10))
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				must(m.alloc(size.Draw(t, "size"), AllocOptions{
					Huge: HugePolicy(rapid.IntRange(0, 2).Draw(t, "huge")),
					Tag:  rapid.Uint32().Draw(t, "tag"),
				}))
			},
			"free": func(t *rapid.T) {
				if len(m.live) == 0 {
					t.Skip("nothing to free")
				}
				must(m.free(rapid.IntRange(0, len(m.live)-1).Draw(t, "which")))
			},
			"free wrongly": func(t *rapid.T) {
				must(m.badFree(address.Draw(t, "address")))
				if len(m.freed) > 0 {
					must(m.badFree(rapid.SampledFrom(m.freed).Draw(t, "freed")))
				}
			},
			"probe": func(t *rapid.T) { must(m.probe(address.Draw(t, "address"))) },
			"probe inside": func(t *rapid.T) {
				if len(m.live) == 0 {
					t.Skip("nothing live")
				}
				r := rapid.SampledFrom(m.live).Draw(t, "range")
				must(m.probe(r.Start + uintptr(rapid.Uint64Range(0, r.Size).Draw(t, "offset"))))
			},
			"prepare": func(t *rapid.T) {
				if len(m.live) > 0 {
					r := rapid.SampledFrom(m.live).Draw(t, "range")
					must(a.Prepare(r.Start, r.Size))
				}
			},
			"take": func(t *rapid.T) {
				must(m.take(size.Draw(t, "size"),
					HugePolicy(rapid.IntRange(0, 2).Draw(t, "huge"))))
			},
			"free a block": func(t *rapid.T) {
				if len(m.blocks) > 0 {
					must(m.freeBlock(rapid.IntRange(0, len(m.blocks)-1).Draw(t, "which")))
				}
			},
			"separate": func(t *rapid.T) {
				if len(m.live) > 0 && len(m.views) < 20 {
					must(m.separate(rapid.SampledFrom(m.live).Draw(t, "range")))
				}
			},
			"separate a block": func(t *rapid.T) {
				if len(m.blocks) > 0 && len(m.views) < 20 {
					must(m.separateBlock(rapid.SampledFrom(m.blocks).Draw(t, "block")))
				}
			},
			"trim": func(t *rapid.T) { a.Trim() },
			"":     func(t *rapid.T) { must(m.check()) },
		})
		for len(m.live) > 0 {
			must(m.free(len(m.live) / 2))
		}
		for len(m.blocks) > 0 {
			must(m.freeBlock(0))
		}
		must(m.check())
		a.Trim()
		if a.acct.charged != 0 || m.files.acct.charged != 0 || len(m.files.all) != 0 || len(a.separated) != 0 {
			t.Fatalf("with nothing in use %d bytes are accounted, and %d of %d files", a.acct.charged,
				m.files.acct.charged, len(m.files.all))
		}
		must(m.alloc(m.most(), AllocOptions{}))
		must(m.check())
	})
}

// A long run in a larger window, where bins, slabs and regions are many.
func TestModelLong(t *testing.T) {
	steps := 20000
	if testing.Short() {
		steps = 2000
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	a := open(t, Options{Capacity: 192 << 20, CacheLimit: 16 << 20, populateMax: 8 << 20})
	m := &model{a: a, seen: map[uint64]bool{}}
	for i := range steps {
		var err error
		switch k := rnd.IntN(10); {
		case k < 5 && len(m.live) < 3000:
			err = m.alloc(1+rnd.Uint64N(1<<(1+rnd.IntN(24))), AllocOptions{Tag: rnd.Uint32(),
				Huge: HugePolicy(rnd.IntN(3))})
		case len(m.live) > 0 && k < 9:
			err = m.free(rnd.IntN(len(m.live)))
		default:
			err = m.badFree(a.Base() + uintptr(rnd.Uint64N(a.Capacity())))
		}
		for range 10 {
			if err == nil {
				err = m.probe(a.Base() + uintptr(rnd.Uint64N(a.Capacity())))
			}
		}
		if err == nil && i%200 == 0 {
			err = m.check()
		}
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	for len(m.live) > 0 {
		testenv.OK(t, m.free(rnd.IntN(len(m.live))))
	}
	testenv.OK(t, m.alloc(a.Capacity(), AllocOptions{}))
	testenv.OK(t, m.check())
}

// FuzzArena reads its input as a program of alloc, free and find.
func FuzzArena(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0, 3, 1, 1, 0, 17, 2, 9})
	f.Add([]byte{0, 16, 0, 16, 0, 16, 1, 1, 0, 7, 1, 0, 0, 17, 3, 200})
	f.Add([]byte{4, 0, 0, 200, 0, 0, 1, 0, 4, 255, 5, 0})
	f.Fuzz(func(t *testing.T, prog []byte) {
		a := open(t, Options{Capacity: 8 << 20, CacheLimit: 1 << 20, populateMax: 4 << 20})
		m := &model{a: a, seen: map[uint64]bool{}}
		for i := 0; i+1 < len(prog) && i < 400; i += 2 {
			op, x := prog[i], uint64(prog[i+1])
			var err error
			switch op % 6 {
			case 0:
				err = m.alloc(modelSizes[x%uint64(len(modelSizes))], AllocOptions{Tag: uint32(x),
					Huge: HugePolicy(op / 6 % 3)})
			case 1:
				if len(m.live) > 0 {
					err = m.free(int(x) % len(m.live))
				}
			case 2:
				err = m.probe(a.Base() + uintptr(x<<15+uint64(op)<<7))
			case 3:
				err = m.badFree(a.Base() + uintptr(x<<15+uint64(op)<<7))
			case 4:
				err = m.alloc(1+x*x*x, AllocOptions{})
			case 5:
				if a.Trim(); len(m.freed) > 0 {
					err = m.badFree(m.freed[x%uint64(len(m.freed))])
				}
			}
			if err == nil {
				err = m.check()
			}
			if err != nil {
				t.Fatalf("at %d: %v", i, err)
			}
		}
	})
}
