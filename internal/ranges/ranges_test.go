package ranges

import (
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	_ "ropeway/internal/testenv/seeded" // rapid draws from a fixed seed

	"ropeway/internal/testenv"
)

// TestRangesModel compares ranges with a map over a small address space, in which ranges crowd.
func TestRangesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const space = 4000
		var r Set[int]
		owner := make([]*Span[int], space) // by address
		var live []*Span[int]
		insert := func(start, size int) {
			for a := start; a < start+size; a++ {
				if owner[a] != nil {
					return
				}
			}
			s := &Span[int]{Start: uintptr(start), Size: uint64(size)}
			r.Insert(s)
			live = append(live, s)
			for a := start; a < start+size; a++ {
				owner[a] = s
			}
		}
		remove := func(i int) {
			s := live[i]
			r.Remove(s)
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			for a := s.Start; a < s.Start+uintptr(s.Size); a++ {
				owner[a] = nil
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				size := rapid.IntRange(1, 9).Draw(t, "size")
				insert(rapid.IntRange(0, space-size).Draw(t, "start"), size)
			},
			"crowd": func(t *rapid.T) { // enough to split blocks
				from := rapid.IntRange(0, space-1200).Draw(t, "from")
				down := rapid.Bool().Draw(t, "down")
				for i := range 400 {
					if down {
						i = 399 - i
					}
					insert(from+3*i, 2)
				}
			},
			"remove": func(t *rapid.T) {
				if len(live) > 0 {
					remove(rapid.IntRange(0, len(live)-1).Draw(t, "which"))
				}
			},
			"replace": func(t *rapid.T) { // one by two halves, as far as there are some that can be halved
				var out, in []*Span[int]
				for i, n := 0, len(live); i < n && len(out) < 300; i += rapid.IntRange(1, 3).Draw(t, "step") {
					s := live[i]
					if s.Size < 2 {
						continue
					}
					half := s.Size / 2
					l, h := &Span[int]{Start: s.Start, Size: half}, &Span[int]{Start: s.Start + uintptr(half),
						Size: s.Size - half}
					out, in = append(out, s), append(in, l, h)
					live[i] = l
					live = append(live, h)
					for a := s.Start; a < s.Start+uintptr(s.Size); a++ {
						if owner[a] = l; a >= h.Start {
							owner[a] = h
						}
					}
				}
				r.Replace(out, in)
			},
			"thin out": func(t *rapid.T) {
				for n := len(live) / 2; n > 0; n-- {
					remove(n % len(live))
				}
			},
			"": func(t *rapid.T) {
				var after *Span[int]
				for a := space - 1; a >= 0; a-- {
					if got := r.Find(uintptr(a)); got != owner[a] {
						t.Fatalf("find(%d) is %v, want %v", a, got, owner[a])
					}
					if s := owner[a]; s != nil && s.Start == uintptr(a) {
						after = s
					}
					if got := r.After(uintptr(a)); got != after {
						t.Fatalf("after(%d) is %v, want %v", a, got, after)
					}
				}
				n := 0
				for _, b := range r.load() {
					if len(b) == 0 || len(b) > blockSpans {
						t.Fatalf("a block of %d", len(b))
					}
					n += len(b)
				}
				if n != len(live) {
					t.Fatalf("%d ranges, want %d", n, len(live))
				}
			},
		})
	})
}

// Readers see every range that stays, while others come and go.
func TestRangesHammer(t *testing.T) {
	var r Set[int]
	for i := range 1000 {
		r.Insert(&Span[int]{Start: uintptr(i * 100), Size: 10})
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	source := testenv.Rand(t)
	for w := range 4 {
		wg.Go(func() {
			for rnd := source(w); !stop.Load(); {
				i := rnd.IntN(1000)
				if s := r.Find(uintptr(i*100 + 5)); s == nil || s.Start != uintptr(i*100) {
					t.Errorf("range %d is %v", i, s)
					return
				}
			}
		})
	}
	rnd := source(4)
	for range 20_000 {
		s := &Span[int]{Start: uintptr(rnd.IntN(1000)*100 + 50), Size: 10}
		r.Insert(s)
		r.Remove(s)
	}
	stop.Store(true)
	wg.Wait()
}

// Readers find what is replaced before, or after, and never nothing.
func TestReplaceHammer(t *testing.T) {
	var r Set[int]
	for i := range 1000 {
		r.Insert(&Span[int]{Start: uintptr(i * 100), Size: 100})
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	source := testenv.Rand(t)
	for w := range 2 {
		wg.Go(func() {
			for rnd := source(w); !stop.Load(); {
				a := uintptr(rnd.IntN(100_000))
				if s := r.Find(a); s == nil || a < s.Start || uint64(a-s.Start) >= s.Size {
					t.Errorf("%d is in %v", a, s)
					return
				}
			}
		})
	}
	rnd := source(2)
	for range 5000 {
		a := r.Find(uintptr(rnd.IntN(100_000)))
		if rnd.IntN(2) == 0 && a.Size > 1 {
			half := a.Size / 2
			r.Replace([]*Span[int]{a}, []*Span[int]{{Start: a.Start, Size: half}, {Start: a.Start + uintptr(half),
				Size: a.Size - half}})
		} else if b := r.Find(a.Start + uintptr(a.Size)); b != nil {
			r.Replace([]*Span[int]{a, b}, []*Span[int]{{Start: a.Start, Size: a.Size + b.Size}})
		}
	}
	stop.Store(true)
	wg.Wait()
}

// TestSnapshot proves that a snapshot stays as it is, and that two are equal only if nothing happened in between.
func TestSnapshot(t *testing.T) {
	var r Set[int]
	empty := r.Snapshot()
	s := &Span[int]{Start: 10, Size: 5, Of: 1}
	r.Insert(s)
	one := r.Snapshot()
	if one == empty || one != r.Snapshot() {
		t.Error("an insertion is not seen, or something is that did not happen")
	}
	r.Remove(s)
	r.Insert(s)
	if one == r.Snapshot() {
		t.Error("what was removed and came back is not seen")
	}
	r.Remove(s)
	n := 0
	for range empty.All() {
		t.Error("something in a set that was empty")
	}
	for x := range one.All() {
		if n++; x != s {
			t.Errorf("found %v", x)
		}
	}
	if n != 1 {
		t.Errorf("%d spans", n)
	}
}
