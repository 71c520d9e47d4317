package observe

import (
	"fmt"
	"slices"
	"testing"
)

// notes is a tracer that notes what it receives; first is the number of its first function.
type notes struct {
	first uint16
	names []string
	noted []string
}

func (n *notes) note(format string, args ...any) {
	n.noted = append(n.noted, fmt.Sprintf(format, args...))
}

func (n *notes) Now() int64 { return int64(n.first) }
func (n *notes) Submitted(t Task) {
	if t.Kind == Kernel {
		n.note("launched %s", n.names[t.Name-n.first])
		return
	}
	n.note("submitted %d", t.Number)
}
func (n *notes) Ran(stream int32, number uint32, began, ended int64, how Result) {
	n.note("ran %d %d %d %d %v", stream, number, began, ended, how)
}
func (n *notes) Called(c Call) { n.note("called %s", n.names[c.Function-n.first]) }
func (n *notes) Copied(c Call, t Task) {
	n.note("copied %s %d", n.names[c.Function-n.first], t.Number)
}
func (n *notes) Function(name string) uint16 {
	n.names = append(n.names, name)
	return n.first + uint16(len(n.names)) - 1
}
func (n *notes) From(function uint16, s Site) uint16 {
	return n.Function(n.names[function-n.first] + " in " + s.Function)
}
func (n *notes) Sites() bool { return n.first == 100 }
func (n *notes) Modelled(m *ModelGraph) {
	n.note("model %d with %d tasks, kernel %d", m.Number, len(m.Tasks), m.Tasks[0].Name)
}
func (n *notes) Ranged(r Range)                   { n.note("range %d %s", r.Number, r.Text) }
func (n *notes) Device(device int32, name string) { n.note("device %d %s", device, name) }
func (n *notes) Stream(stream, device int32, isDefault bool) {
	n.note("stream %d %d %v", stream, device, isDefault)
}
func (n *notes) Thread(id uint32) { n.note("thread %d", id) }
func (n *notes) Left(id uint32)   { n.note("left %d", id) }
func (n *notes) Ended()           { n.note("ended") }
func (n *notes) Close() error     { n.note("close"); return nil }

// TestTee: both receive everything, in the same order, each with its own numbers of functions and the first one's
// times.
func TestTee(t *testing.T) {
	a, b := &notes{first: 7}, &notes{first: 100}
	both := Tee(a, b)
	if both.Now() != 7 {
		t.Error("times are not the first one's")
	}
	x, y := both.Function("x"), both.Function("y")
	if x == y || both.Function("x") != x {
		t.Errorf("x is %d, y is %d", x, y)
	}
	load := both.From(x, Site{Function: "load"})
	if load == x || both.From(x, Site{Function: "load"}) != load || both.From(y, Site{Function: "load"}) == load ||
		!both.Sites() {
		t.Errorf("x from load is %d", load)
	}
	both.Device(1, "d")
	both.Stream(2, 1, true)
	both.Thread(3)
	both.Submitted(Task{Number: 4})
	both.Submitted(Task{Kind: Kernel, Name: y})
	both.Ran(2, 4, 5, 6, Result{Code: 9})
	both.Called(Call{Function: y})
	both.Called(Call{Function: x})
	both.Copied(Call{Function: x}, Task{Number: 5})
	both.Called(Call{Function: load})
	both.Ranged(Range{Number: 8, Text: "r"})
	both.Left(3)
	both.Ended()
	if err := both.Close(); err != nil {
		t.Error(err)
	}
	want := []string{"device 1 d", "stream 2 1 true", "thread 3", "submitted 4", "launched y",
		"ran 2 4 5 6 {9 false}", "called y", "called x", "copied x 5", "called x in load",
		"range 8 r", "left 3", "ended", "close"}
	if !slices.Equal(a.noted, want) || !slices.Equal(b.noted, want) {
		t.Errorf("noted\n%q and\n%q, not\n%q", a.noted, b.noted, want)
	}
}

// partNotes is a tracer that wants parts.
type partNotes struct{ notes }

func (n *partNotes) Part(p Part) { n.note("part %d", p.First) }

// TestPartsOf: parts go to those tracers that want them, and nobody takes times if none does.
func TestPartsOf(t *testing.T) {
	if PartsOf(Tee(&notes{}, &notes{})) != nil || PartsOf(&notes{}) != nil {
		t.Error("a tracer gets parts that it does not want")
	}
	a, b := &partNotes{}, &partNotes{}
	for _, tr := range []Tracer{a, Tee(a, &notes{}), Tee(&notes{}, a), Tee(a, b)} {
		PartsOf(tr).Part(Part{First: 3})
	}
	if len(a.noted) != 4 || !slices.Equal(b.noted, []string{"part 3"}) {
		t.Errorf("noted %q and %q", a.noted, b.noted)
	}
}

// worker is a tracer that counts what cores do.
type worker struct {
	Tracer
	got []CoreWork
}

func (w *worker) Worked(c CoreWork) { w.got = append(w.got, c) }

// Function numbers a name by its length.
func (w *worker) Function(name string) uint16 { return uint16(7 * len(name)) }

// TestTeeCores: what cores do goes to each that wants to know, with its own number of the kernel's name.
func TestTeeCores(t *testing.T) {
	w, c := new(worker), CoreWork{Core: 3, Blocks: 2}
	for _, both := range []Tracer{Tee(w, &notes{}), Tee(&notes{}, w)} {
		for _, name := range []string{"", "k"} {
			c.InModel, c.Name = name != "", both.Function(name)
			both.(CoreTracer).Worked(c)
		}
	}
	plain := CoreWork{Core: 3, Blocks: 2}
	named := CoreWork{Core: 3, Blocks: 2, InModel: true, Name: 7}
	if !slices.Equal(w.got, []CoreWork{plain, named, plain, named}) {
		t.Errorf("%+v", w.got)
	}
}
