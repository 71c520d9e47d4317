package check

import (
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	_ "ropeway/internal/testenv/seeded" // rapid draws from a fixed seed
)

const room = 48 // bytes that random tests use

func drawRange(t *rapid.T) (lo, hi uintptr) {
	lo = uintptr(rapid.IntRange(0, room-1).Draw(t, "lo"))
	hi = uintptr(rapid.IntRange(int(lo)+1, room).Draw(t, "hi"))
	return lo, hi
}

// place returns memory for a checker without a driver.
func place(c *Checker, what core.ResourceKind, start uintptr, size uint64) *allocation {
	c.ledger.born++
	a := &allocation{what: what, start: start, size: size, born: c.ledger.born}
	c.remember(a)
	return a
}

// nothing is a driver without any abilities.
type nothing struct{ driver.Driver }

func (nothing) Caps() driver.Caps { return driver.Caps{} }

// newBare returns a checker of nothing.
func newBare() *Checker { return New(Options{Driver: nothing{}}) }

// TestFind compares find with a list of all memory, as it is allocated, freed and allocated again.
func TestFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newBare()
		var live, gone [room]*allocation // by address
		var list []*allocation
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				lo, hi := drawRange(t)
				for i := lo; i < hi; i++ {
					if live[i] != nil {
						t.Skip("taken")
					}
				}
				what := rapid.SampledFrom([]core.ResourceKind{core.DeviceMemory, core.PinnedMemory}).Draw(t, "what")
				a := place(c, what, lo, uint64(hi-lo))
				list = append(list, a)
				for i := range gone { // freed memory that shares a byte with new memory is forgotten as a whole
					if g := gone[i]; g != nil && g.start < hi && lo < g.end() {
						gone[i] = nil
					}
				}
				for i := lo; i < hi; i++ {
					live[i] = a
				}
			},
			"free": func(t *rapid.T) {
				if len(list) == 0 {
					t.Skip("nothing there")
				}
				i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
				a := list[i]
				list = append(list[:i:i], list[i+1:]...)
				c.forget(a, origin{thread: 7})
				if !a.freed || a.freedBy.thread != 7 {
					t.Fatal("where it was freed is not known")
				}
				for i := a.start; i < a.end(); i++ {
					live[i], gone[i] = nil, a
				}
			},
			"": func(t *rapid.T) {
				for range 8 { // in any order: find caches its last results
					i := uintptr(rapid.IntRange(0, room-1).Draw(t, "at"))
					if got := c.ledger.find(i); got != live[i] {
						t.Fatalf("at %d there is %v, want %v", i, got, live[i])
					}
					if got := c.ledger.findGone(i); got != gone[i] {
						t.Fatalf("at %d there was %v, want %v", i, got, gone[i])
					}
				}
			},
		})
	})
}

// TestFindRegisteredInsidePinned proves that find returns pinned memory before, in and after a part of it that is
// registered, and again after that is unregistered.
func TestFindRegisteredInsidePinned(t *testing.T) {
	for _, part := range []span{{0x1000, 0x3000}, {0x1000, 0x2000}, {0x1800, 0x2000}, {0x2000, 0x3000}} {
		c := newBare()
		pinned := place(c, core.PinnedMemory, 0x1000, 0x2000)
		inner := place(c, core.RegisteredMemory, part.lo, uint64(part.hi-part.lo))
		for at := uintptr(0x1000); at < 0x3000; at += 0x800 {
			c.ledger.near = [4]*allocation{}
			if c.ledger.find(at) == nil {
				t.Errorf("registered [%#x, %#x): nothing is found at %#x", part.lo, part.hi, at)
			}
		}
		c.forget(inner, origin{})
		for at := uintptr(0x1000); at < 0x3000; at += 0x800 {
			if got := c.ledger.find(at); got != pinned {
				t.Errorf("[%#x, %#x) is unregistered: at %#x there is %v", part.lo, part.hi, at, got)
			}
		}
	}
}

// TestUnregisteredIsNotGone proves that unregistered memory belongs to the program again, except that unregistering it
// twice is a mistake.
func TestUnregisteredIsNotGone(t *testing.T) {
	c := newBare()
	a := place(c, core.RegisteredMemory, 0x1000, 64)
	c.forget(a, origin{})
	if c.ledger.find(0x1000) != nil || c.ledger.findGone(0x1000) != nil {
		t.Error("the memory is still known")
	}
	if c.ledger.unregistered[0x1000] != a {
		t.Error("nobody knows that it was unregistered")
	}
	place(c, core.RegisteredMemory, 0x1000, 32)
	if c.ledger.unregistered[0x1000] != nil {
		t.Error("it is registered again, and still taken for unregistered")
	}
}
