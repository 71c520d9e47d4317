package check

import (
	"fmt"
	"os"

	"ropeway/internal/abi"
	"ropeway/internal/finding"
	"ropeway/internal/symbol"
)

// mostKept limits the number of different findings.
const mostKept = 10_000

// drop is a sink that drops everything.
type drop struct{}

func (drop) Start(finding.Start) {}

func (drop) Finding(*finding.Finding) {}

func (drop) Note(string) {}

func (drop) Fired(finding.Shot) {}

func (drop) Unclosed(*finding.Finding) {}

func (drop) End(finding.End) {}

// report has the findings and what they are made of: it folds equal ones, names calls and tasks, and remembers calls
// that failed, from which others follow. Checker.mu guards it.
type report struct {
	sink     Sink
	front    FrontEnd // nil: a Go program, or a test
	off      map[string]bool
	seed     uint64
	server   *int             // in a pod: see finding.Finding
	language finding.Language // of the program, unless an interpreter is in it
	stacks   stacks
	symbols  *symbol.Table

	kept    []*finding.Finding
	folded  map[foldKey]int // indices of kept
	alike   map[string]int  // the same by finding.Key
	noted   map[string]bool
	drafts  uint64 // findings made, folded and dropped ones included
	telling int    // more than 0: the program prints new findings itself
	told    []int  // counts of kept at the last call of News
	ended   bool
	held    *[]draft // holds back findings about a call that may be refused; nil: none
	tiring  bool     // the last finding has been reported often

	failures    []failure             // the last calls that failed
	failedTasks []origin              // the last tasks that failed
	blamed      map[taskName]struct{} // tasks with findings
}

func newReport(o Options) *report {
	r := &report{sink: o.Sink, off: o.Off, seed: o.Seed, symbols: symbol.New(), folded: map[foldKey]int{},
		alike: map[string]int{}, noted: map[string]bool{}}
	if r.sink == nil {
		r.sink = drop{}
	}
	if f := o.Driver.Caps().Fabric; f != nil {
		server, _ := f.Server()
		r.server = &server
	}
	r.sink.Start(finding.Start{Process: os.Getpid(), Command: os.Args, Seed: o.Seed, Depth: o.Depth})
	return r
}

// foldKey is the identity of a finding: findings with equal keys are reported as one.
type foldKey struct {
	rule   string
	here   *stack
	there  *stack
	within *stack // the captured call
	detail string
}

// draft is a finding without names. Folding does not need them, and most folded findings are never written.
type draft struct {
	rule    string
	summary string
	calls   bool             // summary has %s for the offence and for the first other, calls that were captured
	least   finding.Severity // instead of the rule's
	role    string           // what happened at the offence
	offence origin
	others  []other
	times   []int   // number of calls that each of others stands for; nil: one
	lo, hi  uintptr // the bytes; lo == hi: none
	memory  *allocation
	advice  string // instead of the rule's
	inGo    string // instead of that, in a Go program; "": the same
	code    abi.Code
	detail  string // distinguishes findings that have the same stacks
	does    string // verbs of the accesses of the offence and, did, of the first other; "": any
	did     string
	whole   access // the whole range of the offence's access; lo == hi: just the bytes
}

// access is a range of bytes that something touches.
type access struct{ lo, hi uintptr }

type other struct {
	role string
	from origin
}

// on reports whether a rule is enabled.
func (r *report) on(rule string) bool { return !r.off[rule] }

// add sends a finding to the sink, or counts it if an equal one was reported before. Checker.mu is held.
func (r *report) add(d draft) {
	r.drafts++
	if r.held != nil {
		*r.held = append(*r.held, d)
		return
	}
	if r.ended || r.off[d.rule] || d.offence.site != nil && d.offence.site.ignored {
		return
	}
	r.blame(d.offence)
	r.nameCaptured(&d)
	key := foldKey{rule: d.rule, here: stackOf(d.offence), within: capturedIn(d.others), detail: d.detail}
	if len(d.others) > 0 {
		key.there = stackOf(d.others[0].from)
	}
	if i, ok := r.folded[key]; ok {
		r.repeat(i)
		return
	}
	if len(r.kept) >= mostKept {
		r.note(fmt.Sprintf("there are more than %d different findings; the others are not reported", mostKept))
		return
	}
	f := r.finding(d)
	// Stacks may differ and still read alike: the instructions of one memcpy.
	same := f.Key() + d.detail
	if i, ok := r.alike[same]; ok {
		r.folded[key] = i
		r.repeat(i)
		return
	}
	r.folded[key], r.alike[same] = len(r.kept), len(r.kept)
	r.kept = append(r.kept, f)
	r.tiring = false
	f.Told = r.telling > 0
	r.sink.Finding(f)
}

// finding makes a finding of a draft, with its names. Checker.mu is held.
func (r *report) finding(d draft) *finding.Finding {
	rule, l := finding.ByName(d.rule), r.languageOf(d.offence)
	if d.offence.site == nil && len(d.others) > 0 {
		l = r.languageOf(d.others[0].from)
	}
	f := &finding.Finding{
		Rule: d.rule, Severity: rule.Severity, Summary: l.Text(d.summary), Advice: rule.AdviceIn(l),
		Offence: r.at(d.role, d.offence), Seed: r.seed, Process: os.Getpid(), Server: r.server, Count: 1,
		Code: int32(d.code),
	}
	if d.advice != "" {
		f.Advice = l.Text(d.advice)
	}
	if l == finding.Go && d.inGo != "" {
		f.Advice = d.inGo
	}
	if d.least != "" {
		f.Severity = d.least
	}
	for i, o := range d.others {
		if by := d.offence; o.role == d.role && by.task != 0 && o.from.site == by.site && o.from.task == by.task {
			continue // two tasks of one run of a model
		}
		s := r.at(o.role, o.from)
		if i < len(d.times) && d.times[i] > 1 {
			s.Count, s.Thread = d.times[i], 0 // the calls may be of many threads
		}
		f.Others = append(f.Others, s)
	}
	if d.calls {
		f.Summary = fmt.Sprintf(f.Summary, r.nameCall(d.offence, &f.Offence),
			r.nameCall(d.others[0].from, &f.Others[0]))
	}
	if a := d.memory; a != nil {
		if d.role != "allocated" {
			f.Others = append(f.Others, r.at("allocated", a.by))
		}
		if a.freed {
			f.Others = append(f.Others, r.at("freed", a.freedBy))
		}
	}
	if d.hi > d.lo {
		f.Bytes = bytesAt(d.lo, d.hi, d.memory)
	}
	return f
}

// repeat counts a finding that was reported before. Checker.mu is held.
func (r *report) repeat(i int) {
	r.kept[i].Count++
	r.tiring = r.kept[i].Count >= often
}

// often is the number of times that a mistake is found before pages are left open because of it, so that a loop
// proceeds.
const often = 256

// bytesAt describes a range of memory.
func bytesAt(lo, hi uintptr, a *allocation) *finding.Bytes {
	b := &finding.Bytes{Address: uint64(lo), Length: uint64(hi - lo)}
	if a != nil {
		b.Offset = int64(lo - a.start)
		b.Allocation = &finding.Allocation{Kind: a.kind(), Device: a.device, Start: uint64(a.start), Size: a.size,
			Freed: a.freed}
	}
	return b
}

func stackOf(o origin) *stack {
	if o.site == nil {
		return nil
	}
	return o.site.stack
}

// note reports a limitation of this run, once. Checker.mu is held.
func (r *report) note(text string) {
	if !r.noted[text] {
		r.noted[text] = true
		r.sink.Note(text)
	}
}

// nameCaptured adds the captured calls of tasks of models to a finding. Checker.mu is held.
func (r *report) nameCaptured(d *draft) {
	var last *site
	add := func(from origin, lo, hi uintptr, how string) {
		m := from.is().model
		if m == nil || lo == hi || d.calls {
			return
		}
		if t := m.touching(lo, hi, how); t != nil && t.from.site != last {
			last = t.from.site
			d.others = append(d.others, other{"captured", t.from})
		}
	}
	list := d.others
	if w := d.whole; w.hi > w.lo {
		add(d.offence, w.lo, w.hi, d.does)
	} else {
		add(d.offence, d.lo, d.hi, d.does)
	}
	for _, o := range list {
		add(o.from, d.lo, d.hi, d.did)
	}
}

// capturedIn returns the stack of the first captured call that a finding names, or nil.
func capturedIn(list []other) *stack {
	for _, o := range list {
		if o.role == "captured" {
			return stackOf(o.from)
		}
	}
	return nil
}
