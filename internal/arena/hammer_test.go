//go:build linux

package arena

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"ropeway/internal/testenv"
)

// Goroutines allocate, free and look up at once. Each tags its allocations with
// a function of their size, so a lookup that mixes two of them shows.
func TestHammer(t *testing.T) { hammer(t, Options{}) }

// The same with addresses that are quarantined, and closed, when they are freed.
func TestHammerFresh(t *testing.T) { hammer(t, Options{Fresh: true, WindowProt: rw}) }

func hammer(t *testing.T, o Options) {
	const workers = 8
	loops := 20000
	if testing.Short() || o.Fresh { // which takes several system calls each
		loops = 2000
	}
	b := newBudget(func() (uint64, uint64, error) { return 8 * gib, 4 * gib, nil })
	o.Capacity, o.CacheLimit, o.Budget, o.populateMax = 64<<20, 4<<20, b, 4<<20
	a := open(t, o)
	tag := func(size uint64) uint32 { return uint32(size*2654435761) ^ 0x5a5a }
	var shared [64]atomic.Uintptr // addresses that may be freed at any moment
	start := make(chan struct{})
	stop := make(chan struct{})
	var owners, readers sync.WaitGroup
	source := testenv.Rand(t)
	for w := range workers {
		owners.Go(func() {
			rnd := source(w)
			<-start
			var mine []uintptr
			for i := range loops {
				if len(mine) > 20 || rnd.IntN(2) == 0 && len(mine) > 0 {
					k := rnd.IntN(len(mine))
					p := mine[k]
					mine[k] = mine[len(mine)-1]
					mine = mine[:len(mine)-1]
					if err := a.Free(p); err != nil {
						t.Error(err)
						return
					}
					continue
				}
				size := 1 + rnd.Uint64N(1<<(1+rnd.IntN(20)))
				if i%500 == 0 {
					size = 5 << 20 // lazy
				}
				p, err := a.Alloc(size, AllocOptions{Tag: tag(size)})
				if errors.Is(err, ErrNoMemory) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if r, ok := a.Find(p + uintptr(size-1)); !ok || r.Start != p || r.Size != size || a.Room(p) != size {
					t.Errorf("%#x+%d: %+v, %v", p, size, r, ok)
				}
				if i%500 == 0 {
					if err := a.Prepare(p, size); err != nil {
						t.Error(err)
					}
				}
				if i%1000 == 7 {
					a.Trim()
				}
				mine = append(mine, p)
				shared[rnd.IntN(len(shared))].Store(p)
			}
			for _, p := range mine {
				if err := a.Free(p); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for w := range 2 {
		readers.Go(func() {
			rnd := source(workers + w)
			<-start
			for {
				select {
				case <-stop:
					return
				default:
				}
				addr := shared[rnd.IntN(len(shared))].Load() + uintptr(rnd.Uint64N(1<<(1+rnd.IntN(20))))
				if r, ok := a.Find(addr); ok {
					if r.Tag != tag(r.Size) || uint64(addr-r.Start) >= r.Size || r.ID == 0 {
						t.Errorf("a mix of two: %+v", r)
						return
					}
				}
				if n := a.Room(addr); n > 5<<20 {
					t.Errorf("room %d", n)
				}
				if rnd.IntN(500) == 0 {
					a.Each(func(r Range) bool {
						if r.Tag != tag(r.Size) {
							t.Errorf("a mix of two: %+v", r)
						}
						return true
					})
				}
				runtime.Gosched()
			}
		})
	}
	close(start)
	owners.Wait()
	close(stop)
	readers.Wait()
	if s := a.Stats(); s.Live != 0 || s.Count != 0 {
		t.Errorf("%+v", s)
	}
	if err := a.invariants(); err != nil {
		t.Error(err)
	}
	a.Trim()
	if s := a.Stats(); s.Resident != 0 || a.acct.charged != 0 {
		t.Errorf("%+v, %d charged", s, a.acct.charged)
	}
	alloc(t, a, a.Capacity())
}
