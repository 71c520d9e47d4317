package trace_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"ropeway"
	"ropeway/internal/observe"
	"ropeway/internal/timeline"
	"ropeway/kernel"
)

// TestModel proves that an execution of a model is one task that says which model it is and how much it moves, from the
// beginning of its first task to the end of its last one, and that the tasks of the model are there with their streams
// and orders. With a function it has streams of its own, without it is one program.
func TestModel(t *testing.T) {
	const pause = 3 * time.Millisecond
	for name, function := range map[string]bool{"one program": false, "with a function": true} {
		t.Run(name, func(t *testing.T) {
			r := run(t, func(d *ropeway.Device) {
				s, side := must(d.NewStream())(t), must(d.NewStream())(t)
				host, mem := must(d.AllocPinned(1000))(t), must(d.Alloc(1000))(t)
				fork, join := must(d.NewEvent())(t), must(d.NewEvent())(t)
				g := must(s.Capture(func() error {
					check(t, s.Record(fork))
					check(t, side.Wait(fork))
					check(t, side.Copy(mem.Range(0, 100), host.Range(0, 100)))
					check(t, side.Record(join))
					check(t, s.Wait(join))
					if function {
						check(t, s.Call(func() { time.Sleep(pause) }))
					}
					return s.Copy(host.Range(500, 50), mem.Range(0, 50))
				}))(t)
				for range 2 {
					check(t, g.Run(s))
				}
				check(t, s.Synchronize(context.Background()))
			})
			if len(r.Models) != 1 {
				t.Fatalf("%d models", len(r.Models))
			}
			m := r.Models[0]
			kinds := []observe.Kind{observe.Record, observe.Wait, observe.Copy, observe.Record, observe.Wait,
				observe.Copy}
			if function {
				kinds = slices.Insert(kinds, 5, observe.Function)
			}
			var got []observe.Kind
			for _, n := range m.Nodes {
				got = append(got, n.Kind)
			}
			last := m.Nodes[len(m.Nodes)-1]
			if !slices.Equal(got, kinds) || m.Tasks != len(kinds) || m.Nodes[1].After != 0 || m.Nodes[4].After != 3 ||
				m.Nodes[2].Bytes != 100 || last.Direction != observe.DeviceToHost || last.After != timeline.None ||
				m.Nodes[2].Stream == m.Nodes[0].Stream {
				t.Errorf("%+v", m)
			}
			if len(r.Tasks) != 2 {
				t.Fatalf("%d tasks: %+v", len(r.Tasks), r.Tasks)
			}
			for _, k := range r.Tasks {
				if k.Kind != observe.Model || k.Model != 1 || k.Bytes != 150 || int(k.Segments) != m.Tasks || !k.Ran() {
					t.Errorf("%+v", k)
				}
				if function && k.End-k.Start < int64(pause) {
					t.Errorf("it takes %d ns, less than its function", k.End-k.Start)
				}
			}
		})
	}
}

// TestModelParts proves that a recorded execution of a model has times inside: of each step of a program, which copies
// that run together share, and of each function. They lie in the execution, and tasks name them by their pieces.
func TestModelParts(t *testing.T) {
	const pause = 2 * time.Millisecond
	for name, function := range map[string]bool{"one program": false, "with a function": true} {
		t.Run(name, func(t *testing.T) {
			r := run(t, func(d *ropeway.Device) {
				s := must(d.NewStream())(t)
				host, mem := must(d.AllocPinned(1000))(t), must(d.Alloc(1000))(t)
				g := must(s.Capture(func() error {
					check(t, s.Copy(mem.Range(0, 100), host.Range(0, 100)))
					check(t, s.Copy(mem.Range(100, 100), host.Range(100, 100)))
					if function {
						check(t, s.Call(func() { time.Sleep(pause) }))
					}
					return s.Copy(host.Range(500, 200), mem.Range(0, 200))
				}))(t)
				for range 2 {
					check(t, g.Run(s))
				}
				check(t, s.Synchronize(context.Background()))
			})
			want := []int{0, 0, 1}
			if function {
				want = []int{0, 0, 1, 2}
			}
			var got []int
			for _, n := range r.Models[0].Nodes {
				got = append(got, n.Piece)
			}
			if !slices.Equal(got, want) {
				t.Errorf("the tasks are in pieces %v, want %v", got, want)
			}
			for i := range r.Tasks {
				parts := r.PartsOf(i)
				if len(parts) != want[len(want)-1]+1 {
					t.Fatalf("%d parts: %+v", len(parts), parts)
				}
				at := r.Tasks[i].Start
				for j, p := range parts {
					if p.Model != 0 || p.First != j || p.Count != 1 || p.Start < at || p.End < p.Start ||
						p.End > r.Tasks[i].End {
						t.Errorf("part %d is %+v, in %+v", j, p, r.Tasks[i])
					}
					at = p.End
				}
				if took := parts[1].End - parts[1].Start; function && took < int64(pause) {
					t.Errorf("the function took %d ns", took)
				}
				in := r.Models[0].Pieces().In(0, 1)
				want := timeline.Sum{Name: "2 x copy, host to device", Bytes: 200, Tasks: 2}
				if sum := r.Models[0].Sum(in); sum != want {
					t.Errorf("the first part is %+v", sum)
				}
			}
		})
	}
}

// TestCoresInModels proves that a recording says which cores ran a kernel of a model, by the kernel's name and while
// its part of the execution runs, in a model of one stream and in one whose streams run side by side.
func TestCoresInModels(t *testing.T) {
	const blocks, runs = 6, 5
	for name, streams := range map[string]int{"one stream": 1, "two streams": 2} {
		t.Run(name, func(t *testing.T) {
			r := run(t, func(d *ropeway.Device) {
				work := func(*kernel.Block) error { return nil }
				m := must(kernel.LoadFuncs(d, map[string]kernel.Func{"add": work, "scale": work}))(t)
				add, scale := must(m.Kernel("add"))(t), must(m.Kernel("scale"))(t)
				a, b := must(d.NewStream())(t), must(d.NewStream())(t)
				fork, join := must(d.NewEvent())(t), must(d.NewEvent())(t)
				g := must(a.Capture(func() error {
					if streams == 1 {
						check(t, add.Launch(a, blocks))
						return scale.Launch(a, 2*blocks)
					}
					check(t, a.Record(fork))
					check(t, b.Wait(fork))
					check(t, add.Launch(a, blocks))
					check(t, scale.Launch(b, 2*blocks))
					check(t, b.Record(join))
					return a.Wait(join)
				}))(t)
				for range runs {
					check(t, g.Run(a))
				}
				check(t, a.Synchronize(context.Background()))
			})
			pieces := r.Models[0].Pieces()
			done := map[string]uint32{}
			for _, w := range r.Cores {
				done[w.Kernel] += w.Blocks
				if !slices.ContainsFunc(r.PartsOf(w.Task), func(p timeline.Part) bool {
					return p.Start <= w.Start && w.End <= p.End && slices.ContainsFunc(pieces.In(p.First, p.Count),
						func(i int) bool { return r.Models[0].Nodes[i].Kernel == w.Kernel })
				}) {
					t.Errorf("%+v is in no part of its kernel: %+v", w, r.PartsOf(w.Task))
				}
			}
			if want := map[string]uint32{"add": runs * blocks, "scale": runs * 2 * blocks}; !maps.Equal(done, want) {
				t.Errorf("cores ran blocks %v, want %v", done, want)
			}
		})
	}
}

// TestModelPartsOfChanged proves that times inside an execution are not shown with tasks that were somewhere else then:
// a change that moves tasks to other pieces takes the times of executions before it away, and says so.
func TestModelPartsOfChanged(t *testing.T) {
	r := run(t, func(d *ropeway.Device) {
		s := must(d.NewStream())(t)
		host, mem := must(d.AllocPinned(1000))(t), must(d.Alloc(1000))(t)
		g := must(s.Capture(func() error {
			check(t, s.Copy(mem.Range(0, 100), host.Range(0, 100)))
			check(t, s.Copy(mem.Range(100, 100), host.Range(100, 100)))
			return s.Copy(host.Range(500, 200), mem.Range(0, 200))
		}))(t)
		run := func() {
			check(t, g.Run(s))
			check(t, s.Synchronize(context.Background()))
		}
		run()
		check(t, g.SetCopy(1, mem.Range(300, 100), host.Range(200, 100))) // as before, elsewhere
		run()
		check(t, g.SetCopy(1, mem.Range(400, 100), host.Range(550, 100))) // reads what the last one writes
		check(t, g.SetCopy(2, mem.Range(600, 100), mem.Range(500, 100)))
		run()
	})
	var got []int
	for i := range r.Tasks {
		got = append(got, len(r.PartsOf(i)))
	}
	note := fmt.Sprintf("Model %d was changed in a way that moved its tasks: of runs before that, the times inside "+
		"are not shown.", r.Models[0].ID)
	if got[0] != 0 || got[1] != 0 || !slices.Contains(r.Notes, note) {
		t.Errorf("parts of the runs: %v, notes %q", got, r.Notes)
	}
	for _, n := range r.Models[0].Nodes {
		if n.Piece != 0 {
			t.Errorf("%+v: the three copies have nothing to do with each other", n)
		}
	}
}
