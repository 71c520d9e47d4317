package soft

import (
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/driver"
)

func TestRingModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring
		var model []uint64
		next := uint64(0)
		push := func(t *rapid.T, n int) {
			for range n {
				r.push(&driver.Op{N: next, Fn: func() {}})
				model = append(model, next)
				next++
			}
		}
		pop := func(t *rapid.T, n int) {
			for range min(n, len(model)) {
				if got := r.head().N; got != model[0] {
					t.Fatalf("head is %d, want %d", got, model[0])
				}
				var op driver.Op
				r.pop(&op)
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
			"drain": func(t *rapid.T) {
				pop(t, len(model))
				r.shrink()
				if len(r.ops) > keepDepth {
					t.Fatalf("an empty ring keeps %d places", len(r.ops))
				}
			},
			"": func(t *rapid.T) {
				if r.n != len(model) || r.full() != (len(model) >= maxDepth) {
					t.Fatalf("%d tasks, full %v, want %d", r.n, r.full(), len(model))
				}
				if len(r.ops)&(len(r.ops)-1) != 0 {
					t.Fatalf("%d places", len(r.ops))
				}
				// What was popped is forgotten, so that it can be collected.
				for i := r.n; i < len(r.ops); i++ {
					if r.ops[(r.first+i)&(len(r.ops)-1)].Fn != nil {
						t.Fatal("a place that is empty holds on to something")
					}
				}
			},
		})
	})
}
