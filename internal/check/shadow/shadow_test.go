package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "ropeway/internal/testenv/seeded"
)

// room is the number of bytes of the models below.
const room = 48

// deed is an access to every byte of [lo, hi).
type deed struct {
	p      *past
	before clock
	write  bool
}

// after reports whether d happened after o.
func (d *deed) after(o *past) bool { return d.p.Line == o.Line || d.before.Has(o.Line, o.N) }

type (
	past  = Access[place]
	cell  = Cell[place]
	clock = Clock
)

// place is the place of an access in the program.
type place int

// Like implements Owner.
func (p place) Like(o place) bool { return p == o }

// world has lines that run tasks and learn each other's progress, as streams and events do.
type world struct {
	clocks []clock // clock of each line, its own tasks included
	marks  []uint64
	known  clock // the host's
}

func newWorld(lines int) *world {
	return &world{clocks: make([]clock, lines), marks: make([]uint64, lines)}
}

// do returns the next task of a line, and the clock before it.
func (w *world) do(line, at int) (*past, clock) {
	before := w.clocks[line].Clone()
	n := uint64(1)
	if line < len(before) {
		n = before[line] + 1
	}
	w.clocks[line].Raise(uint32(line), n)
	return &past{Line: uint32(line), N: n, Mark: w.marks[line], Of: place(at)},
		before
}

// follow adds the clock of one line to another's.
func (w *world) follow(from, to int) {
	if from == to {
		return
	}
	w.marks[from]++
	w.clocks[to].Join(w.clocks[from])
}

// learn adds the clock of a line to the host's.
func (w *world) learn(line int) {
	w.marks[line]++
	w.known.Join(w.clocks[line])
}

// submit adds the host's clock to a line's.
func (w *world) submit(line int) { w.clocks[line].Join(w.known) }

// bytewise is a shadow that keeps a history for every byte.
type bytewise struct {
	write [room]*past
	reads [room][]*past
	all   [room][]deed // everything since it was last forgotten
}

// meeting is one byte of two accesses that are not ordered.
type meeting struct {
	at      uintptr
	line    uint32
	n       uint64
	written bool
}

// access enters an access and returns its clashes.
func (b *bytewise) access(d deed, lo, hi uintptr) map[meeting]bool {
	found := map[meeting]bool{}
	for i := lo; i < hi; i++ {
		if w := b.write[i]; w != nil && !d.after(w) {
			found[meeting{i, w.Line, w.N, true}] = true
		}
		var kept []*past
		for _, r := range b.reads[i] {
			if !d.after(r) {
				kept = append(kept, r)
				if d.write {
					found[meeting{i, r.Line, r.N, false}] = true
				}
			}
		}
		if d.write {
			b.write[i], b.reads[i] = d.p, nil
		} else {
			b.reads[i] = append(kept, d.p)
		}
	}
	return found
}

// raced reports whether d races with any access that ever touched byte i, and keeps d.
func (b *bytewise) raced(d deed, i uintptr) bool {
	yes := slices.ContainsFunc(b.all[i], func(o deed) bool { return (o.write || d.write) && !d.after(o.p) })
	b.all[i] = append(b.all[i], d)
	return yes
}

func (b *bytewise) forget(lo, hi uintptr) {
	for i := lo; i < hi; i++ {
		b.write[i], b.reads[i], b.all[i] = nil, nil, nil
	}
}

// pending reports whether an access to byte i is not in known.
func (b *bytewise) pending(known clock, write bool, i uintptr) bool {
	if w := b.write[i]; w != nil && !known.Has(w.Line, w.N) {
		return true
	}
	return write && slices.ContainsFunc(b.reads[i], func(r *past) bool { return !known.Has(r.Line, r.N) })
}

// enter makes an access to a shadow and returns the bytes of its clashes.
func enter(s *Shadow[place], d deed, lo, hi uintptr) map[meeting]bool {
	found := map[meeting]bool{}
	note := func(before *past, wrote bool, lo, hi uintptr) {
		for i := lo; i < hi; i++ {
			found[meeting{i, before.Line, before.N, wrote}] = true
		}
	}
	if d.write {
		s.Wrote(d.p, d.before, lo, hi, note)
	} else {
		s.Read(d.p, d.before, lo, hi, note)
	}
	return found
}

// sound returns an error if the cells of a shadow are not sorted and disjoint, or if one is empty or has no access.
func sound(s *Shadow[place]) error {
	end := uintptr(0)
	var err error
	s.cells.Scan(func(at uintptr, c *cell) bool {
		switch {
		case at != c.Lo:
			err = fmt.Errorf("the cell [%d, %d) is filed under %d", c.Lo, c.Hi, at)
		case c.Lo >= c.Hi:
			err = fmt.Errorf("the cell [%d, %d) is empty", c.Lo, c.Hi)
		case c.Lo < end:
			err = fmt.Errorf("the cell [%d, %d) overlaps one that ends at %d", c.Lo, c.Hi, end)
		case c.Write == nil && len(c.Reads) == 0:
			err = fmt.Errorf("nobody has touched the cell [%d, %d)", c.Lo, c.Hi)
		}
		end = c.Hi
		return err == nil
	})
	return err
}

func drawRange(t *rapid.T) (lo, hi uintptr) {
	lo = uintptr(rapid.IntRange(0, room-1).Draw(t, "lo"))
	hi = uintptr(rapid.IntRange(int(lo)+1, room).Draw(t, "hi"))
	return lo, hi
}

func sorted(set map[meeting]bool) []meeting {
	return slices.SortedFunc(maps.Keys(set), func(a, b meeting) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.line, b.line), cmp.Compare(a.n, b.n))
	})
}

// TestShadow compares a shadow with one that keeps every byte by itself: the same clashes at the same bytes, the same
// bytes pending. It also proves, against the full history, that the first race of a byte is found and that none is
// invented.
func TestShadow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const lines = 4
		w, s, model := newWorld(lines), new(Shadow[place]), new(bytewise)
		var spoilt [room]bool // there was a race already
		line := rapid.IntRange(0, lines-1)
		t.Repeat(map[string]func(*rapid.T){
			"access": func(t *rapid.T) {
				p, before := w.do(line.Draw(t, "line"), 0)
				d := deed{p, before, rapid.Bool().Draw(t, "write")}
				lo, hi := drawRange(t)
				got, want := enter(s, d, lo, hi), model.access(d, lo, hi)
				if !maps.Equal(got, want) {
					t.Fatalf("clashes %v, want %v", sorted(got), sorted(want))
				}
				for i := lo; i < hi; i++ {
					found := slices.ContainsFunc(sorted(got), func(m meeting) bool { return m.at == i })
					if raced := model.raced(d, i); raced != found && !spoilt[i] {
						t.Fatalf("byte %d: found %v, by everything that happened %v", i, found, raced)
					} else if raced {
						spoilt[i] = true
					}
				}
			},
			"follow": func(t *rapid.T) { w.follow(line.Draw(t, "from"), line.Draw(t, "to")) },
			"learn":  func(t *rapid.T) { w.learn(line.Draw(t, "line")) },
			"submit": func(t *rapid.T) { w.submit(line.Draw(t, "line")) },
			"forget": func(t *rapid.T) {
				lo, hi := drawRange(t)
				s.Forget(lo, hi)
				model.forget(lo, hi)
				for i := lo; i < hi; i++ {
					spoilt[i] = false
				}
				s.Each(lo, hi, func(c *cell) { t.Fatalf("[%d, %d) is still there", c.Lo, c.Hi) })
			},
			"": func(t *rapid.T) {
				if err := sound(s); err != nil {
					t.Fatal(err)
				}
				for _, write := range []bool{false, true} {
					lo, hi := drawRange(t)
					p, wrote, at, end := s.Pending(w.known, write, lo, hi)
					for i := lo; i < hi; i++ {
						inside := p != nil && at <= i && i < end
						if pending := model.pending(w.known, write, i); pending != inside && (p == nil || i < end) {
							t.Fatalf("byte %d of [%d, %d), host writes %v: pending %v, found [%d, %d)", i, lo, hi,
								write, pending, at, end)
						}
					}
					if p != nil && (at < lo || end > hi || at >= end || wrote && model.write[at] != p ||
						w.known.Has(p.Line, p.N)) {
						t.Fatalf("[%d, %d): found [%d, %d), written %v by %d of line %d", lo, hi, at, end, wrote, p.N,
							p.Line)
					}
				}
			},
		})
	})
}

// TestShadowSplit proves that Split makes a border, and changes nothing else.
func TestShadowSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, w := new(Shadow[place]), newWorld(2)
		for range rapid.IntRange(0, 6).Draw(t, "accesses") {
			p, before := w.do(rapid.IntRange(0, 1).Draw(t, "line"), 0)
			lo, hi := drawRange(t)
			enter(s, deed{p, before, rapid.Bool().Draw(t, "write")}, lo, hi)
		}
		type history struct {
			write *past
			reads string
		}
		look := func() (all [room]history) {
			s.Each(0, room, func(c *cell) {
				for i := c.Lo; i < c.Hi; i++ {
					all[i] = history{c.Write, fmt.Sprint(c.Reads)}
				}
			})
			return all
		}
		before, at := look(), uintptr(rapid.IntRange(0, room).Draw(t, "at"))
		s.Split(at)
		if err := sound(s); err != nil {
			t.Fatal(err)
		}
		if look() != before {
			t.Fatal("a split changes what is known")
		}
		s.Each(0, room, func(c *cell) {
			if c.Lo < at && at < c.Hi {
				t.Fatalf("[%d, %d) goes over the border at %d", c.Lo, c.Hi, at)
			}
		})
	})
}

// TestShadowJoins proves that a shadow that joins cells finds races and pending work wherever one without joins does:
// only which of several tasks of one place it names may differ.
func TestShadowJoins(t *testing.T) {
	defer func(n int) { ManyCells = n }(ManyCells)
	// Neighbours written by one place in succession are joined: else the rest would prove nothing.
	ManyCells = 1
	one, w := new(Shadow[place]), newWorld(1)
	for lo := uintptr(0); lo < 12; lo += 4 {
		p, before := w.do(0, 0)
		enter(one, deed{p, before, true}, lo, lo+4)
	}
	if n := one.Len(); n != 1 {
		t.Fatalf("%d cells", n)
	}
	rapid.Check(t, func(t *rapid.T) {
		const lines = 3
		w, plain, joining := newWorld(lines), new(Shadow[place]), new(Shadow[place])
		line := rapid.IntRange(0, lines-1)
		// where returns the bytes, the lines and whether it was a write: these must not differ.
		where := func(set map[meeting]bool) map[meeting]bool {
			short := map[meeting]bool{}
			for m := range set {
				m.n = 0
				short[m] = true
			}
			return short
		}
		next := uintptr(0) // only neighbours are joined
		t.Repeat(map[string]func(*rapid.T){
			"access": func(t *rapid.T) {
				p, before := w.do(line.Draw(t, "line"), rapid.IntRange(0, 1).Draw(t, "place"))
				d := deed{p, before, rapid.Bool().Draw(t, "write")}
				lo, hi := drawRange(t)
				if rapid.Bool().Draw(t, "behind") && next < room {
					lo, hi = next, min(next+uintptr(rapid.IntRange(1, 4).Draw(t, "n")), room)
				}
				next = hi
				ManyCells = 1 << 30
				a := enter(plain, d, lo, hi)
				ManyCells = 1
				b := enter(joining, d, lo, hi)
				if !maps.Equal(where(a), where(b)) {
					t.Fatalf("clashes %v, joined %v", sorted(a), sorted(b))
				}
				if err := sound(joining); err != nil {
					t.Fatal(err)
				}
			},
			"follow": func(t *rapid.T) { w.follow(line.Draw(t, "from"), line.Draw(t, "to")) },
			"learn":  func(t *rapid.T) { w.learn(line.Draw(t, "line")) },
			"submit": func(t *rapid.T) { w.submit(line.Draw(t, "line")) },
			"": func(t *rapid.T) {
				for i := uintptr(0); i < room; i++ {
					for _, write := range []bool{false, true} {
						p, _, _, _ := plain.Pending(w.known, write, i, i+1)
						q, _, _, _ := joining.Pending(w.known, write, i, i+1)
						if (p != nil) != (q != nil) {
							t.Fatalf("byte %d, host writes %v: pending %v, joined %v", i, write, p, q)
						}
					}
				}
			},
		})
	})
}
