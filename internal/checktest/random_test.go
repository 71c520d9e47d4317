package checktest

import (
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ropeway/internal/check"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
)

// schedules is how many orders of unordered work a mistake is looked for in.
const schedules = 20

// programs is how many programs a test makes: few, a third of them with -short, or as many as CHECK_RANDOM says (make
// test-check: 10,000).
func programs(t *testing.T, few int) uint64 {
	n, err := strconv.Atoi(os.Getenv("CHECK_RANDOM"))
	switch {
	case os.Getenv("CHECK_RANDOM") == "" && testing.Short():
		return uint64(max(few/3, 1))
	case os.Getenv("CHECK_RANDOM") == "":
		return uint64(few)
	case err != nil:
		t.Fatal(err)
	}
	return uint64(n)
}

// watch ends the process if f does not end: a program that hangs shows where.
func watch(p *program, f func()) {
	dog := time.AfterFunc(2*time.Minute, func() {
		pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) //nolint:errcheck // the end is near
		panic("a program hangs:\n" + p.String())
	})
	defer dog.Stop()
	f()
}

// plainly runs a program on the software device alone.
func plainly(p *program, want map[seen][]byte) (r *run) {
	d, err := newSoft(false)
	if err != nil {
		panic(err)
	}
	watch(p, func() { r = execute(p, machine{driver: d}, want) })
	return r
}

// list is a sink that keeps findings.
type list struct{ findings []*finding.Finding }

func (*list) Start(finding.Start)          {}
func (l *list) Finding(f *finding.Finding) { l.findings = append(l.findings, f) }
func (*list) Note(string)                  {}
func (*list) Fired(finding.Shot)           {}
func (*list) Unclosed(*finding.Finding)    {}
func (*list) End(finding.End)              {}

// mode is how the checker runs.
type mode struct {
	seed  uint64
	depth int // 0: the usual one
	// host memory is closed, as for the C library; else sources are compared with snapshots, as in Go programs
	closing bool
}

// checked runs a program under the checker.
func checked(p *program, how mode, want map[seen][]byte) (*run, []*finding.Finding) {
	d, err := newSoft(how.closing)
	if err != nil {
		panic(err)
	}
	var l list
	// Patient: on a busy machine a program may well not call for 50 ms, and then the order is no longer the seed's.
	c := check.New(check.Options{Driver: d, Seed: how.seed, Depth: how.depth, Sink: &l, Patience: 10 * time.Second})
	c.SetFrontEnd(steps{p})
	if how.closing {
		c.CloseMemory()
	}
	var r *run
	watch(p, func() {
		r = execute(p, machine{driver: c.Driver(), check: c, guard: d.(driver.Guard), touch: touching(c, how.closing)},
			want)
	})
	return r, l.findings
}

// touching judges accesses as the C library does (it asks before each, as if the page were closed), or as Go programs
// do.
func touching(c *check.Checker, closing bool) toucher {
	return func(t *core.Thread, step int, addr core.Addr, n int, write bool) func() {
		if !closing {
			c.Judge(t, addr, uint64(n), write)
			return func() {}
		}
		answer := c.Touch(addr, uint64(n), write, 0, t.Caller(), t.ID())
		return func() { c.Stepped(answer) }
	}
}

// steps names the steps of a program as the calls and stacks of findings.
type steps struct{ p *program }

// Describe implements check.FrontEnd.
func (s steps) Describe(function uint32, _ []uint64) (name, text string) {
	return s.p.steps[function].op.String(), s.p.line(int(function))
}

// PythonArguments implements check.FrontEnd.
func (s steps) PythonArguments(uint32, []uint64) string { return "" }

// FrameName implements check.FrontEnd.
func (s steps) FrameName(uint32) (file, function string) { return "program", "step" }

// SetSpans implements check.FrontEnd.
func (steps) SetSpans([]uint64) {}

// SetDeviceSpan implements check.FrontEnd.
func (steps) SetDeviceSpan(uintptr, uintptr) {}

// SetRegistered implements check.FrontEnd.
func (steps) SetRegistered(_, _ []uint64) {}

// SetPinnedSpan implements check.FrontEnd.
func (steps) SetPinnedSpan(uintptr, uintptr) {}

// SetPages implements check.FrontEnd.
func (steps) SetPages(uintptr, uintptr, bool) {}

// text is a finding for people and for comparing.
func text(f *finding.Finding) string {
	text := f.Rule + ": " + f.Summary
	for _, s := range append([]finding.Site{f.Offence}, f.Others...) {
		text += fmt.Sprintf("\n\t\t%s", s.Role)
		if s.Stream != nil {
			text += fmt.Sprintf(" stream %d task %d", *s.Stream, s.Task)
		}
		for _, frame := range s.Stack {
			text += fmt.Sprintf(" step %d", frame.Line)
		}
	}
	return text
}

// TestPlain runs correct programs on the software device alone: they do what the model says, and by the oracle nothing
// in them is unordered.
func TestPlain(t *testing.T) {
	for seed := range programs(t, 300) {
		p := generate(seed)
		pairs, err := judge(p)
		if err != nil {
			t.Fatalf("the oracle refuses a program: %v\n%s", err, p)
		}
		for _, x := range pairs {
			t.Fatalf("the oracle finds a conflict: %s\n%s", p.pairLine(x), p)
		}
		for _, line := range plainly(p, modelOf(p)).errors {
			t.Errorf("%s", line)
		}
		if t.Failed() {
			t.Fatal(p)
		}
	}
}

// TestCorrect proves that correct programs have no findings, and still do what the model says.
func TestCorrect(t *testing.T) {
	bad := 0
	for seed := range programs(t, 300) {
		p := generate(seed)
		how := mode{seed % schedules, int(seed % 3 * 3), seed%4 != 0}
		r, found := checked(p, how, modelOf(p))
		if len(r.errors) == 0 && len(found) == 0 {
			continue
		}
		for _, line := range r.errors {
			t.Errorf("program %d: %s", seed, line)
		}
		for _, f := range found {
			t.Errorf("program %d has a finding: %s", seed, text(f))
		}
		if len(found) > 0 {
			rule := found[0].Rule
			p = shrink(p, func(q *program) bool {
				pairs, err := judge(q)
				if err != nil || len(pairs) > 0 {
					return false
				}
				_, found := checked(q, how, nil)
				return len(found) > 0 && found[0].Rule == rule
			})
			_, found = checked(p, how, nil)
			if len(found) > 0 {
				t.Errorf("smaller: %s", text(found[0]))
			}
		}
		t.Errorf("%s", p)
		if bad++; bad == 3 {
			t.FailNow()
		}
	}
}

// TestMutants proves that the lack of one dependency is found, by its rule and with the tasks and bytes it is about,
// and that nothing else is reported.
func TestMutants(t *testing.T) {
	n := programs(t, 300)
	var made, missed, first int
	for seed := uint64(0); made < int(n); seed++ {
		m := mutate(generate(seed))
		if m == nil {
			continue
		}
		made++
		at, wrong := m.search()
		if wrong != "" && !t.Failed() {
			t.Errorf("%s\n%s", wrong, m.story())
		}
		switch at {
		case 0:
			first++
		case -1:
			if missed++; missed <= 5 {
				t.Logf("not found: %s", m.story())
				t.Logf("smaller: %s", m.smaller().story())
			}
		}
	}
	t.Logf("%d mutants, %d found, %d of them in the first schedule", made, made-missed, first)
	if missed*100 > made {
		t.Errorf("%d of %d mutants are not found in %d schedules", missed, made, schedules)
	}
}

// search is the first schedule in which the checker reports a pair of the oracle's, -1 if there is none, and something
// that it reported on the way and that is not so. What it found by comparing with a snapshot it cannot name by the
// byte.
func (m *mutant) search() (at int, wrong string) {
	for seed := range uint64(schedules) {
		r, found := checked(m.program, mode{seed: seed, closing: m.seed%4 != 0}, nil)
		right := false
		for _, f := range found {
			so, tasks := m.reported(r, f)
			right = right || tasks
			if !so && m.plain() && slices.Contains(races, f.Rule) && f.Offence.Role != "found" {
				wrong = fmt.Sprintf("schedule %d reports what is not so: %s", seed, text(f))
			}
		}
		if right {
			return int(seed), wrong
		}
	}
	return -1, wrong
}

// smaller is a smaller mutant that is not found either.
func (m *mutant) smaller() *mutant {
	p := shrink(m.program, func(q *program) bool {
		pairs, err := judge(q)
		if err != nil || !slices.ContainsFunc(pairs, pair.byTasks) {
			return false
		}
		at, _ := (&mutant{program: q, pairs: pairs}).search()
		return at < 0
	})
	pairs, _ := judge(p) //nolint:errcheck // it was judged already
	return &mutant{p, m.removed, m.what, pairs}
}

// races are the rules that a dependency too few breaks.
var races = []string{"stream-race", "host-read-in-flight", "host-write-in-flight", "free-in-flight"}

// story is a mutant for people.
func (m *mutant) story() string {
	text := fmt.Sprintf("without step %d of program %d (%s)\n%s", m.removed, m.seed, m.what, m)
	for _, x := range m.pairs {
		text += "unordered: " + m.pairLine(x) + "\n"
	}
	return text
}

// TestAgain proves that a seed gives the same findings in the same order when a program is run again. Work that nobody
// asks for within 50 ms runs by itself, so a machine that stands still for so long may make a difference; not three
// times.
func TestAgain(t *testing.T) {
	for seed := range programs(t, 100) {
		m := mutate(generate(seed))
		if m == nil || m.concurrent() {
			continue
		}
		for try := 1; ; try++ {
			first, second := m.report(seed), m.report(seed)
			if slices.Equal(first, second) {
				break
			}
			if try == 3 {
				t.Errorf("the findings are not the same the second time:\n%s\nfirst:\n%s\nsecond:\n%s",
					m.story(), strings.Join(first, "\n"), strings.Join(second, "\n"))
				break
			}
		}
	}
}

// report is what the checker reports, in order.
func (m *mutant) report(seed uint64) (list []string) {
	_, found := checked(m.program, mode{seed: seed, closing: true}, nil)
	for _, f := range found {
		list = append(list, text(f))
	}
	return list
}
