//go:build !explore

package hostqueue

import (
	"runtime"
	"runtime/debug"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/driver"
	_ "ropeway/internal/testenv/seeded" // rapid draws from a fixed seed
)

// TestRingModel compares a ring with a slice.
func TestRingModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Ring[driver.Op]
		var model []uint64
		next := uint64(0)
		push := func(t *rapid.T, n int) {
			for range n {
				r.Push(&driver.Op{N: next, Fn: func() {}})
				model = append(model, next)
				next++
			}
		}
		pop := func(t *rapid.T, n int) {
			for range min(n, len(model)) {
				if got := r.Head().N; got != model[0] {
					t.Fatalf("head is %d, want %d", got, model[0])
				}
				if last := r.Last().N; last != model[len(model)-1] {
					t.Fatalf("the last is %d, want %d", last, model[len(model)-1])
				}
				var op driver.Op
				r.Pop(&op)
				if op.N != model[0] {
					t.Fatalf("popped %d, want %d", op.N, model[0])
				}
				model = model[1:]
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) { push(t, rapid.IntRange(1, 40).Draw(t, "n")) },
			"many": func(t *rapid.T) { push(t, rapid.IntRange(1000, 1100).Draw(t, "n")) },
			"pop":  func(t *rapid.T) { pop(t, rapid.IntRange(1, 60).Draw(t, "n")) },
			"first": func(t *rapid.T) { // its result does not change when the ring grows
				n := rapid.IntRange(0, len(model)).Draw(t, "n")
				list, rest := r.First(n)
				if len(r.items) < 4*keepDepth {
					push(t, len(r.items)-len(model)+1)
				}
				for i := range n {
					part, at := list, i
					if i >= len(list) {
						part, at = rest, i-len(list)
					}
					if got := part[at].N; got != model[i] {
						t.Fatalf("item %d is %d, want %d", i, got, model[i])
					}
				}
			},
			"drain": func(t *rapid.T) {
				pop(t, len(model))
				r.Shrink()
				if len(r.items) > keepDepth {
					t.Fatalf("an empty ring keeps %d places", len(r.items))
				}
			},
			"": func(t *rapid.T) {
				if r.Len() != len(model) || r.Full() != (len(model) >= MaxDepth) {
					t.Fatalf("%d tasks, full %v, want %d", r.n, r.Full(), len(model))
				}
				if len(r.items)&(len(r.items)-1) != 0 {
					t.Fatalf("%d places", len(r.items))
				}
				// A popped place is cleared, so that its item can be collected.
				for i := r.n; i < len(r.items); i++ {
					if r.items[(r.first+i)&(len(r.items)-1)].Fn != nil {
						t.Fatal("a place that is empty holds on to something")
					}
				}
			},
		})
	})
}

// TestRingReuses proves that a ring that repeatedly becomes large allocates once, and that the garbage collector frees
// the memory of an empty ring.
func TestRingReuses(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var r Ring[driver.Op]
	loop := func() {
		for range 4 * keepDepth {
			r.Extend()
		}
		r.Skip(r.Len())
		r.Shrink()
	}
	loop()
	if n := testing.AllocsPerRun(10, loop); n != 0 {
		t.Errorf("a ring that gets large again allocates %v times", n)
	}
	runtime.GC()
	if r.spare.Value() != nil || len(r.items) > keepDepth {
		t.Error("an empty ring keeps the memory of a large one")
	}
	loop() // with new memory
}
