package observe

import (
	"errors"
	"slices"
	"sync"
)

// Tee returns a Tracer that reports everything to both. Times are by the clock of the first; the second must accept
// nanoseconds of a clock that is not its own.
func Tee(first, second Tracer) Tracer {
	return &tee{first: first, second: second, numbers: map[from]uint16{}}
}

type tee struct {
	first, second Tracer

	mu        sync.Mutex
	numbers   map[from]uint16 // guarded by mu; of functions, and of their calls from sites
	functions [functions][2]uint16
}

// from is the key of a number: the name of a function, or the number of a function and a site that calls it.
type from struct {
	name     string
	function uint16
	site     Site
}

// functions is the largest number of entries.
const functions = 1 << 16

func (t *tee) Now() int64 { return t.first.Now() }

func (t *tee) Submitted(task Task) {
	first, second := task, task
	if task.Kind == Kernel {
		both := t.functions[task.Name]
		first.Name, second.Name = both[0], both[1]
	}
	t.first.Submitted(first)
	t.second.Submitted(second)
}

func (t *tee) Ran(stream int32, number uint32, began, ended int64, how Result) {
	t.first.Ran(stream, number, began, ended, how)
	t.second.Ran(stream, number, began, ended, how)
}

// Worked implements CoreTracer: it reports to those of the two that are CoreTracers.
func (t *tee) Worked(w CoreWork) {
	names := t.functions[w.Name]
	for i, o := range [2]Tracer{t.first, t.second} {
		if c, ok := o.(CoreTracer); ok {
			own := w
			if w.InModel {
				own.Name = names[i]
			}
			c.Worked(own)
		}
	}
}

func (t *tee) Called(c Call) {
	first, second := t.split(c)
	t.first.Called(first)
	t.second.Called(second)
}

func (t *tee) Copied(c Call, task Task) {
	first, second := t.split(c)
	t.first.Copied(first, task)
	t.second.Copied(second, task)
}

// split returns the call with the number that each of the two uses for its function.
func (t *tee) split(c Call) (first, second Call) {
	both := t.functions[c.Function]
	first, second = c, c
	first.Function, second.Function = both[0], both[1]
	return first, second
}

// Function returns one number for a name; it stands for the numbers of both tracers.
func (t *tee) Function(name string) uint16 {
	return t.number(from{name: name}, 0, func(o Tracer, _ uint16) uint16 { return o.Function(name) })
}

func (t *tee) From(function uint16, s Site) uint16 {
	return t.number(from{function: function, site: s}, function,
		func(o Tracer, n uint16) uint16 { return o.From(n, s) })
}

// number returns the number of a key. For a new key it calls ask with each tracer and that tracer's number of
// function. An entry is written once, before its number is returned.
func (t *tee) number(of from, function uint16, ask func(o Tracer, function uint16) uint16) uint16 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, known := t.numbers[of]
	switch {
	case known:
		return n
	case len(t.numbers) == functions:
		return function
	}
	n = uint16(len(t.numbers))
	t.numbers[of] = n
	both := t.functions[function]
	t.functions[n] = [2]uint16{ask(t.first, both[0]), ask(t.second, both[1])}
	return n
}

func (t *tee) Sites() bool { return t.first.Sites() || t.second.Sites() }

func (t *tee) Ranged(r Range) {
	t.first.Ranged(r)
	t.second.Ranged(r)
}

func (t *tee) Modelled(m *ModelGraph) {
	for i, o := range []Tracer{t.first, t.second} {
		own := *m
		own.Tasks = slices.Clone(m.Tasks)
		for j := range own.Tasks {
			if k := &own.Tasks[j]; k.Kind == Kernel {
				k.Name = t.functions[k.Name][i]
			}
		}
		o.Modelled(&own)
	}
}

func (t *tee) Device(device int32, name string) {
	t.first.Device(device, name)
	t.second.Device(device, name)
}

func (t *tee) Stream(stream, device int32, isDefault bool) {
	t.first.Stream(stream, device, isDefault)
	t.second.Stream(stream, device, isDefault)
}

func (t *tee) Thread(id uint32) {
	t.first.Thread(id)
	t.second.Thread(id)
}

func (t *tee) Left(id uint32) {
	t.first.Left(id)
	t.second.Left(id)
}

func (t *tee) Ended() {
	t.first.Ended()
	t.second.Ended()
}

func (t *tee) Close() error { return errors.Join(t.first.Close(), t.second.Close()) }

// PartsOf returns a PartTracer for the tracers in tr that receive parts of executions; nil if none does.
func PartsOf(tr Tracer) PartTracer {
	if t, ok := tr.(*tee); ok {
		a, b := PartsOf(t.first), PartsOf(t.second)
		switch {
		case a == nil:
			return b
		case b == nil:
			return a
		}
		return bothParts{a, b}
	}
	p, _ := tr.(PartTracer)
	return p
}

type bothParts struct{ first, second PartTracer }

func (b bothParts) Part(p Part) {
	b.first.Part(p)
	b.second.Part(p)
}
