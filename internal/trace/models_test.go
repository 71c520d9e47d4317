package trace_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"ropeway"
	"ropeway/internal/observe"
	"ropeway/internal/timeline"
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
