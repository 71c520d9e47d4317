//go:build explore

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/testenv"
)

// puzzle is a random program. Queues of two GPUs wait for flags and gates; the task that opens one was submitted
// before, or needs no queue. So everything ends, even if no goroutine waits for it.
type puzzle struct {
	*rand.Rand
	x       *hostqueue.Explorer
	b       *bed
	o       *orderly
	modules []driver.Module // one for each device
	lines   []*line
	writes  map[uintptr][]*task // tasks that write to an address, in order
	records []*record
	places  int
	going   int  // running goroutines that submit, or break a GPU
	rough   bool // tasks may be dropped, or a GPU is lost
	lost    bool // a GPU is lost
	text    []string
}

// line is a queue with its submitted tasks.
type line struct {
	rig
	p         *puzzle
	device    int
	tasks     []*task
	submitted int
	programs  []*driver.Program
}

// task is a task of a queue.
type task struct {
	of       *line
	number   int
	name     string
	effects  int
	left     int             // number of effects left
	after    map[uintptr]int // effects before a step of the host, by its place
	record   *record
	gate     *gate
	reports  bool // it has a function for its end
	reported int
	failed   bool
	may      bool // fail
}

// record is a flag, and the tasks that set it.
type record struct {
	f     driver.Flag
	by    []*task
	again bool // it is cleared at times
}

// gate opens once.
type gate struct {
	mu   hostqueue.Mutex
	open bool
	wake func()
}

func (g *gate) Leave() {}

func (g *gate) Pass(wake func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wake = wake
	return g.open
}

func (g *gate) opens() {
	g.mu.Lock()
	g.open = true
	wake := g.wake
	g.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// TaskFailed implements Events.Failed.
func (l *line) TaskFailed(tag driver.Tag, err error) {
	t := l.tasks[tag.Task]
	t.failed = true
	l.wants(t.may || l.p.rough, fmt.Sprintf("%v failed: %v", t, err))
}

func (t *task) String() string {
	return fmt.Sprintf("%d.%d %s", slices.Index(t.of.p.lines, t.of), t.number, t.name)
}

// passed reports whether tasks after t may have effects.
func (t *task) passed() bool {
	switch {
	case t.failed || t.of.p.lost || t.of.p.rough && (t.reported > 0 || !t.reports):
		return true
	case t.gate != nil:
		return t.gate.open
	case t.record != nil && t.record.again:
		return true
	case t.record != nil && !slices.Contains(t.record.by, t):
		return slices.ContainsFunc(t.record.by, func(by *task) bool { return by.of.passed(by.number) == nil })
	}
	return t.left == 0
}

// passed returns the first of n tasks that is not over.
func (l *line) passed(n int) *task {
	if i := slices.IndexFunc(l.tasks[:n], func(t *task) bool { return !t.passed() }); i >= 0 {
		return l.tasks[i]
	}
	return nil
}

// acts records an effect of t.
func (t *task) acts() {
	before := t.of.passed(t.number)
	t.left--
	t.of.wants(before == nil && t.left >= 0, fmt.Sprintf("%v acts, and %v is not over", t, before))
}

// place draws a place for t to write to.
func (p *puzzle) place(t *task) uintptr {
	p.places++
	at := p.b.dev[t.of.device] + 8*uintptr(p.places)
	p.expect(t, at)
	return at
}

// expect records that t is going to write to a place.
func (p *puzzle) expect(t *task, at uintptr) {
	t.effects++
	t.left++
	p.writes[at] = append(p.writes[at], t)
}

// wrote records a write to an address.
func (p *puzzle) wrote(at uintptr) {
	list, known := p.writes[at]
	if len(list) == 0 {
		p.lines[0].wants(!known || p.lost, "a task was done twice")
		return
	}
	p.writes[at] = list[1:]
	t := list[0]
	n, host := t.after[at]
	t.of.wants(!host || p.lost || t.effects-t.left == n, fmt.Sprintf("a step of %v does not wait for those before", t))
	t.acts()
}

// expectHost is expect for a step of a program that the host carries out.
func (p *puzzle) expectHost(t *task, at uintptr) {
	if t.after == nil {
		t.after = map[uintptr]int{}
	}
	t.after[at] = t.effects
	p.expect(t, at)
}

func (l *line) launch(t *task) *driver.Launch {
	m := l.p.modules[l.device]
	code, err := m.Code("place")
	if err != nil {
		panic(err)
	}
	at := l.p.place(t)
	args := l.b.pinned + bedBytes/2 + 8*uintptr(l.p.places)
	binary.LittleEndian.PutUint64(bytesAt(args, 8), uint64(at))
	return &driver.Launch{Module: m, Code: [2]uintptr{0, code}, Per: [2]uint32{0, 1}, Grid: [3]uint32{1, 1, 1},
		Threads: [3]uint32{1, 1, 1}, Copied: true, Size: 8, Args: args}
}

// kinds lists the kinds of tasks: each fills in an operation.
var kinds = []struct {
	name string
	fill func(l *line, t *task, op *driver.Op)
}{
	{"copy", func(l *line, t *task, op *driver.Op) { op.Dst, op.Src, op.N = l.p.place(t), l.b.pinned, 8 }},
	{"copy that overlaps", func(l *line, t *task, op *driver.Op) {
		op.Dst, op.N = l.p.place(t), 8
		op.Src = op.Dst - 4
	}},
	{"2-D copy", func(l *line, t *task, op *driver.Op) {
		op.Kind, op.N, op.Height, op.DstPitch, op.SrcPitch = driver.OpCopy2D, 4, 2, 4, 4
		op.Dst, op.Src = l.p.place(t), l.b.pinned
	}},
	{"batch", func(l *line, t *task, op *driver.Op) {
		op.Kind, op.Segs = driver.OpBatch, driver.NewSegments()
		for range 2 {
			op.Segs.Add(l.p.place(t), l.b.pinned, 8)
		}
	}},
	{"fill", func(l *line, t *task, op *driver.Op) {
		op.Kind, op.Dst, op.N, op.Width = driver.OpFill, l.p.place(t), 8, 1
	}},
	{"function", func(_ *line, t *task, op *driver.Op) { t.left, op.Kind, op.Fn = 1, driver.OpFunc, t.acts }},
	{"host function", func(_ *line, t *task, op *driver.Op) {
		t.left, op.Kind, op.Fn = 1, driver.OpHostFunc, func() { hostqueue.Step(t.of.o, nil); t.acts() }
	}},
	{"work", func(_ *line, t *task, op *driver.Op) {
		t.left, op.Kind, op.Work = 1, driver.OpCompute, func() error { t.acts(); return nil }
	}},
	{"failure", func(_ *line, t *task, op *driver.Op) {
		op.Kind, op.Err, t.may = driver.OpFail, errors.New("asked for"), true
	}},
	{"launch", func(l *line, t *task, op *driver.Op) {
		op.Kind, op.Launch = driver.OpLaunch, l.launch(t)
		op.Launch.Copied, op.Launch.Within = l.p.IntN(3) > 0, l.p.IntN(3) == 0
	}},
	{"program", (*line).program},
	{"set", func(l *line, t *task, op *driver.Op) {
		r := &record{f: l.b.d.NewFlag()}
		if n := len(l.p.records); n > 0 && l.p.IntN(4) == 0 {
			r = l.p.records[n-1] // set it again
		}
		l.set(t, op, r)
	}},
	{"wait", func(l *line, t *task, op *driver.Op) {
		if n := len(l.p.records); n == 0 {
			op.Kind, op.Fn = driver.OpFunc, func() {}
		} else {
			l.await(t, op, l.p.records[l.p.IntN(n)])
		}
	}},
	{"gate", func(l *line, t *task, op *driver.Op) {
		t.gate, t.may = new(gate), l.p.IntN(4) == 0
		if op.Kind, op.Gate = driver.OpWaitCond, t.gate; t.may {
			op.Timeout = time.Hour
		}
		l.p.x.Start("opener", false, t.gate.opens)
	}},
}

// set and await make op set a flag, or wait for it.
func (l *line) set(t *task, op *driver.Op, r *record) {
	op.Kind, op.Flag, op.Err = driver.OpSet, r.f, driver.ErrAborted
	t.record, r.by = r, append(r.by, t)
}

func (l *line) await(t *task, op *driver.Op, r *record) {
	op.Kind, op.Flag, t.record = driver.OpAwait, r.f, r
	if l.p.IntN(4) == 0 {
		op.Timeout, t.may = time.Hour, true
	}
}

// program makes op a program, a new one or one that ran before.
func (l *line) program(t *task, op *driver.Op) {
	p := l.p
	op.Kind = driver.OpProgram
	if n := len(l.programs); n > 0 && !p.rough && p.IntN(3) > 0 {
		op.Program = l.programs[n-1]
		for i := range op.Program.Steps {
			s := &op.Program.Steps[i]
			for _, c := range s.Segs.List {
				p.expect(t, c.Dst)
			}
			switch {
			case s.Op == nil:
			case s.Op.Kind == driver.OpFunc:
				p.expectHost(t, s.Op.Dst)
			default:
				p.expect(t, uintptr(binary.LittleEndian.Uint64(bytesAt(s.Op.Launch.Args, 8))))
			}
		}
		return
	}
	op.Program = new(driver.Program)
	for range 1 + p.IntN(3) {
		if p.IntN(3) == 0 {
			k := l.launch(t)
			k.Copied = p.IntN(4) > 0
			op.Program.Steps = append(op.Program.Steps, driver.Step{Op: &driver.Op{Kind: driver.OpLaunch, Launch: k}})
			continue
		}
		if p.IntN(4) == 0 {
			p.places++
			at := p.b.dev[t.of.device] + 8*uintptr(p.places)
			p.expectHost(t, at)
			op.Program.Steps = append(op.Program.Steps, driver.Step{Op: &driver.Op{Kind: driver.OpFunc, Dst: at,
				Fn: func() { p.wrote(at) }}})
			continue
		}
		s := driver.Step{Ordered: p.IntN(2) == 0}
		for range 2 {
			s.Segs.Add(p.place(t), l.b.pinned, 8)
		}
		op.Program.Steps = append(op.Program.Steps, s)
		op.Program.Bytes += s.Segs.Bytes
	}
	l.programs = append(l.programs, op.Program)
}

// submit puts a task on the queue.
func (l *line) submit(name string, fill func(l *line, t *task, op *driver.Op)) {
	p, t := l.p, &task{of: l, number: len(l.tasks), name: name}
	op := driver.Op{Tag: driver.Tag{Task: uint32(t.number)}}
	fill(l, t, &op)
	if t.reports = p.IntN(2) == 0; t.reports {
		slow := p.IntN(3) == 0
		op.Done = func() {
			if slow {
				hostqueue.Step(p.o, nil)
			}
			t.reported++
		}
	}
	l.tasks = append(l.tasks, t)
	p.text = append(p.text, fmt.Sprintf("%v, reports %t, timeout %v", t, t.reports, op.Timeout))
	if op.Kind == driver.OpCopy && !t.reports {
		l.Copy(op.Dst, op.Src, op.N, op.Tag)
	} else {
		l.Submit(op)
	}
	l.submitted++
	if op.Kind == driver.OpSet && !slices.Contains(p.records, t.record) {
		p.records = append(p.records, t.record)
	}
}

// again waits for a flag, clears it and sets it again.
func (l *line) again() {
	r := l.p.records[l.p.IntN(len(l.p.records))]
	r.again = true
	l.submit("wait", func(l *line, t *task, op *driver.Op) { l.await(t, op, r) })
	l.submit("clear", func(_ *line, t *task, op *driver.Op) { op.Kind, op.Flag = driver.OpClear, r.f })
	l.submit("set again", func(l *line, t *task, op *driver.Op) { l.set(t, op, r) })
}

// submits is a goroutine that submits to some of the queues.
func (p *puzzle) submits(lines []*line) {
	for range 3 + p.IntN(8) {
		l := lines[p.IntN(len(lines))]
		if p.IntN(12) == 0 && len(p.records) > 0 {
			l.again()
			continue
		}
		k := &kinds[p.IntN(len(kinds))]
		if p.IntN(3) == 0 {
			k = &kinds[len(kinds)-1-p.IntN(3)] // flags and gates
		}
		l.submit(k.name, k.fill)
	}
}

// observes is a goroutine that waits or polls.
func (p *puzzle) observes() {
	l := p.lines[p.IntN(len(p.lines))]
	what := p.IntN(8)
	p.text = append(p.text, fmt.Sprintf("observer %d of %d", what, slices.Index(p.lines, l)))
	switch what {
	case 0, 1:
		limit := time.Duration(what) * time.Hour
		n := l.submitted
		if !l.Wait(limit, nil) {
			l.wants(limit > 0, "a wait without a limit gave up")
			return
		}
		before := l.passed(n)
		l.wants(before == nil, fmt.Sprintf("Wait returned before the end of %v", before))
		for _, t := range l.tasks[:n] {
			l.wants(!t.reports || t.reported == 1, fmt.Sprintf("Wait returned before the end of %v was reported", t))
		}
	case 2, 3:
		if n := len(p.records); n > 0 {
			p.records[p.IntN(n)].f.Wait(time.Duration(what-2)*time.Hour, nil)
		}
	case 4, 5:
		for range 3 {
			l.Idle()
			l.Stalled()
			for _, r := range p.records {
				r.f.IsSet()
			}
		}
	case 6:
		p.b.d.pollers.flush()
	case 7:
		if !p.rough {
			return
		}
		if p.IntN(3) == 0 {
			l.Close()
		} else {
			l.Drop()
		}
	}
}

// start starts a goroutine that polls waits for.
func (p *puzzle) start(name string, f func()) {
	p.going++
	p.x.Start(name, false, func() {
		f()
		p.going--
	})
}

// polls is a goroutine that polls until everything is over.
func (p *puzzle) polls() {
	hostqueue.Step(p.o, func() bool { return p.going == 0 })
	for _, l := range p.lines {
		for !l.Idle() {
			hostqueue.Step(p.o, nil)
		}
	}
}

// end checks the final state.
func (p *puzzle) end() error {
	var errs []error
	for _, l := range p.lines {
		for _, t := range l.tasks {
			l.wants(!t.reports || t.reported == 1, fmt.Sprintf("the end of %v was reported %d times", t, t.reported))
			l.wants(p.rough || t.failed || t.left == 0, fmt.Sprintf("%v has not acted", t))
		}
		errs = append(errs, l.end())
	}
	p.o.explored = nil
	return errors.Join(errs...)
}

// exploreRandom runs random programs, each in one order. If a GPU gets lost, each program has a driver of its own.
func exploreRandom(t *testing.T, runs int, lose bool) {
	b, o := exploring(t, 2)
	modules := []driver.Module{b.load(0), b.load(1)}
	seeds := testenv.Rand(t)(2)
	var last *puzzle
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(last.text, "\n"))
		}
	}()
	walk(t, runs, func(x *hostqueue.Explorer) func() error {
		if lose {
			b, o = exploring(t, 2)
			modules = []driver.Module{b.load(0), b.load(1)}
		}
		o.begin(x)
		p := &puzzle{Rand: rand.New(rand.NewPCG(seeds.Uint64(), 1)), x: x, b: b, o: o, modules: modules,
			writes: map[uintptr][]*task{}}
		last, o.did = p, p.wrote
		p.rough = lose || p.IntN(4) == 0
		for range 1 + p.IntN(4) {
			l := &line{p: p, device: p.IntN(2), rig: rig{b: b, o: o}}
			opts := driver.QueueOptions{Events: driver.Events{Failed: l.TaskFailed}}
			l.queue = b.devs[l.device].NewQueue(opts).(*queue)
			p.lines = append(p.lines, l)
		}
		for lines := range slices.Chunk(p.lines, 1+p.IntN(len(p.lines))) {
			p.start("submitter", func() { p.submits(lines) })
		}
		for range p.IntN(4) {
			x.Start("observer", false, p.observes)
		}
		if lose || p.IntN(4) == 0 {
			x.Start("poller", false, p.polls)
		}
		if lose {
			p.start("fault", func() {
				for range p.IntN(50) {
					hostqueue.Step(o, nil)
				}
				p.lost = true
				o.breakGPU(p.IntN(2), libcuda.IllegalAddress)
			})
		}
		return p.end
	})
}
